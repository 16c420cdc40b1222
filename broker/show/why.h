/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what keeps drains, creates, acquires and streams from going on, in plain words, from the records of a status file.
 *
 * Each wait is followed from process to process to the one that could end it, and the line ends with what to do. Processes that
 * wait for each other in a circle are a deadlock, told once. The same records and processes give the same lines in the same
 * order. What stands in a record is a claim, as everything in a status file. Owns nothing; changes nothing; asks no broker.
 */
#ifndef GPUB_SHOW_WHY_H
#define GPUB_SHOW_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/status/format.h"
#include "look.h"

#define WHY_STILL_S 1 /* for so long nothing of a deadlock has moved: whoever asks looks twice, and marks the sessions that go on as partial */

struct why {
	const union status_record *records;
	size_t                     count;
	const char                *about; /* a buffer's name, or the number of a process; NULL: everything that waits */
	bool                       live;  /* the broker goes on; else what it knew last is told */
	uint64_t                   now_ms; /* since 1970 */
	void (*look)(uint64_t pid, struct process_seen *seen); /* process_look(); NULL: the numbers mean nothing here */
	void (*say)(void *context, const char *line); /* printable ASCII, without a newline */
	void *context;
};

struct why_found {
	size_t   lines;
	unsigned deadlocks;
};

/*
 * Says a line for each deadlock, then for each wait that is none, then for each process that has not said what it waits for; or one
 * line that nothing waits. -ENOENT: about names neither a buffer nor a process of a session; -ENOMEM. The error message is set.
 */
int why_explain(const struct why *why, struct why_found *found);

#endif
