/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena-broker.h - starts the broker of the arena: brokerd, with quotas, as a user of its own where there are several.
 *
 * Owns its directory: as root below /run, whose path to the socket nobody else has a hand in.
 */
#ifndef GPUB_TESTS_HOSTILE_ARENA_BROKER_H
#define GPUB_TESTS_HOSTILE_ARENA_BROKER_H

#include "tests/integration/harness.h"

/* Fills in all but broker->in. uid (uid_t)-1: as this user. Bails out where it does not start. */
void arena_broker_start(struct broker_process *broker, uid_t uid);

/* Removes the directory. */
void arena_broker_remove(void);

/* What brokerd and its process that serves have: descriptors but those of memory, and resident bytes. */
int  arena_broker_descriptors(const struct broker_process *broker);
long arena_broker_rss(const struct broker_process *broker);

#endif
