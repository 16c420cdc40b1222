/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.h - logs what broker-run waits for when all workers have ended and memory is still in use, and how to end the
 * wait.
 *
 * Logs when what is waited for has changed, and otherwise each time that the wait has doubled: a terminal shows
 * progress at once, and the log of a wait of a night stays short. Owns the state of the last report. Ends no process.
 */
#ifndef GPUB_RUN_DRAIN_H
#define GPUB_RUN_DRAIN_H

#include <stdint.h>

struct broker;

#define DRAIN_FIRST 2 /* seconds of waiting before the first report */

struct drain_report {
	unsigned seconds; /* seconds that the broker has waited so far */
	unsigned next;    /* seconds of waiting after which a report follows even if nothing has changed */
	uint64_t said;    /* hash of what the last report said */
};

/*
 * Adds `seconds` to the time of the wait. If a report is due, logs a line for each process that is waited for, up to a
 * limited number.
 */
void drain_report(struct drain_report *report, const struct broker *broker, unsigned seconds);

#endif
