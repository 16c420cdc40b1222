/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.h - the well-behaved clients: one that works all the time and measures, and newcomers.
 *
 * They use the library as any program does. Run in processes of their own (arena.h). Own the victim's buffers.
 */
#ifndef GPUB_TESTS_HOSTILE_VICTIM_H
#define GPUB_TESTS_HOSTILE_VICTIM_H

#include <stdbool.h>

/* Makes the buffers, then works until stage->stop: reads what it wrote, makes and unlinks, acquires and closes. */
void victim_run(void);

/* Connects, makes a buffer, uses it, unlinks it, disconnects; exits 1 where something fails. */
void newcomer_run(void);

/* Whether the buffer of that name is one of those that it has all the time. */
bool victim_owns(const char *name);

#endif
