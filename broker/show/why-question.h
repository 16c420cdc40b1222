/* SPDX-License-Identifier: Apache-2.0 */
/* why-question.h - the arguments and the result of why_explain(). Owns nothing. */
#ifndef GPUB_SHOW_WHY_QUESTION_H
#define GPUB_SHOW_WHY_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/status/format.h"
#include "look.h"

/*
 * Seconds between the two looks that the caller takes, after which it marks the sessions that made progress as
 * partial (second-look.h). So no session of a reported deadlock has made progress for this time.
 */
#define WHY_STILL_S 1

struct why {
	const union status_record *records;
	size_t                     count;
	const char                *about;  /* the buffer's name or the pid to explain; NULL: everything that waits */
	bool                       live;   /* true: the broker lives; false: the records are those of a dead broker */
	uint64_t                   now_ms; /* the present time, in milliseconds since 1970 */
	/* process_look(); NULL: pids of the records are not valid for this reader */
	void (*look)(uint64_t pid, struct process_seen *seen);
	/* called with each line, in printable ASCII without a newline */
	void (*say)(void *context, const char *line);
	void *context; /* the first argument of say() */
};

struct why_found {
	size_t   lines;     /* number of lines passed to say(), without the line which says that nothing waits */
	unsigned deadlocks; /* number of deadlocks that were reported */
};

#endif
