/* SPDX-License-Identifier: Apache-2.0 */
/* arena-owner.h - kills the owner of the arena's device memory over and over. Owns the process that does so. */
#ifndef GPUB_TESTS_HOSTILE_ARENA_OWNER_H
#define GPUB_TESTS_HOSTILE_ARENA_OWNER_H

/* Kills the owner every 20 to 100 ms from now on. */
void arena_owner_kill(void);

/* Kills no owner any more. The next one may not serve yet. Does nothing if none is killed. */
void arena_owner_spare(void);

#endif
