/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena-killer.h - kills the broker's process, or the owner of its memory, over and over. Owns the process that does
 * so.
 */
#ifndef GPUB_TESTS_HOSTILE_ARENA_KILLER_H
#define GPUB_TESTS_HOSTILE_ARENA_KILLER_H

enum arena_mortal { ARENA_NOBODY, ARENA_OWNER, ARENA_BROKER };

/* Kills that process, and each that replaces it, every 20 to 100 ms from now on. */
void arena_kill(enum arena_mortal mortal);

/* Kills nobody any more. The next process may not serve yet. Does nothing if nobody is killed. */
void arena_spare(void);

/* Ends the process that kills. */
void arena_killer_end(void);

#endif
