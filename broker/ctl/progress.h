/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - how far a transfer is, as one line on a terminal that is standard error; nothing anywhere else.
 *
 * Owns that line from begin to end. Writes it a few times a second, however often it is called.
 */
#ifndef GPUB_CTL_PROGRESS_H
#define GPUB_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool        shown;
	const char *name;
	uint64_t    total, done;       /* bytes */
	uint64_t    began_ns, last_ns; /* of CLOCK_MONOTONIC; last: the line was written */
	int         width;             /* of the line */
};

void progress_begin(struct progress *progress, const char *name, uint64_t total, bool quiet);
void progress_add(struct progress *progress, uint64_t bytes);
void progress_end(struct progress *progress);

#define PROGRESS_LINE_MAX 160

/* The line as it is after so many nanoseconds. Returns text. */
const char *progress_line(const struct progress *progress, uint64_t elapsed_ns, char text[PROGRESS_LINE_MAX]);

#endif
