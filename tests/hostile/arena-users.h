/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena-users.h - the users of the arena and their processes: as root each user is one of its own, otherwise all are
 * one.
 */
#ifndef GPUB_TESTS_HOSTILE_ARENA_USERS_H
#define GPUB_TESTS_HOSTILE_ARENA_USERS_H

#include "arena.h"

#define ATTACK_SECONDS 60

void arena_users_choose(void);

/*
 * Whether that process has ended, and its wait status; the other one waits that long and kills what has not ended then.
 */
bool arena_ended(pid_t pid, int *status);
bool arena_wait_for(pid_t pid, int *status, unsigned seconds);

#endif
