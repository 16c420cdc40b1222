/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h - what broker-run waits for when all workers have ended and memory is still in use, and how to end it.
 *
 * Called every second. Says it when it has changed, and otherwise each time that the wait has doubled: a terminal shows progress
 * at once, and the log of a wait of a night stays short. Owns what it said last. Ends nobody.
 */
#ifndef GPUB_RUN_DRAIN_H
#define GPUB_RUN_DRAIN_H

#include <stdint.h>

struct broker;

#define DRAIN_FIRST 2 /* seconds before anything is said */

struct drain_report {
	unsigned seconds, next; /* waited so far; when it is said again, though nothing has changed */
	uint64_t said;          /* a number for all that was said */
};

/* So many seconds more have gone by. Logs a line for each process that is waited for, up to a bound. */
void drain_report(struct drain_report *report, const struct broker *broker, unsigned seconds);

#endif
