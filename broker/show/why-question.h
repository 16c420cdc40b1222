/* SPDX-License-Identifier: Apache-2.0 */
/* why-question.h - what why.h is asked, and how many answers there are. Owns nothing. */
#ifndef GPUB_SHOW_WHY_QUESTION_H
#define GPUB_SHOW_WHY_QUESTION_H

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

#endif
