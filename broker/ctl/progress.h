/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - shows the progress of a transfer as one line on standard error. Shows nothing if that is no terminal.
 *
 * Owns the line from progress_begin() to progress_end(). Writes it a few times a second, however often
 * progress_add() is called.
 */
#ifndef GPUB_CTL_PROGRESS_H
#define GPUB_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool        shown;    /* false: quiet, or standard error is no terminal */
	const char *name;     /* of the buffer */
	uint64_t    total;    /* bytes to transfer */
	uint64_t    done;     /* bytes transferred so far */
	uint64_t    began_ns; /* CLOCK_MONOTONIC: when the transfer began */
	uint64_t    last_ns;  /* CLOCK_MONOTONIC: when the line was last written, or the transfer began */
	int         width;    /* columns of the line as last written */
};

void progress_begin(struct progress *progress, const char *name, uint64_t total, bool quiet);
void progress_add(struct progress *progress, uint64_t bytes);
void progress_end(struct progress *progress);

#define PROGRESS_LINE_MAX 160

/* Formats the line. elapsed_ns: since the transfer began, for the rate. Returns text. */
const char *progress_line(const struct progress *progress, uint64_t elapsed_ns, char text[PROGRESS_LINE_MAX]);

#endif
