/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/now.h"
#include "common/size.h"

#define PERIOD_NS 200000000u

const char *progress_line(const struct progress *progress, uint64_t elapsed_ns, char text[PROGRESS_LINE_MAX])
{
	char done[SIZE_TEXT_MAX], total[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];
	double share = progress->total ? (double)progress->done / (double)progress->total : 1;
	double second = elapsed_ns ? (double)progress->done * 1e9 / (double)elapsed_ns : 0;

	snprintf(text, PROGRESS_LINE_MAX, "%.32s: %s of %s, %d%%, %s/s", progress->name, size_format(progress->done, done),
		 size_format(progress->total, total), (int)(share * 100), size_format((uint64_t)second, rate));
	return text;
}

static void show(struct progress *progress, uint64_t now)
{
	char text[PROGRESS_LINE_MAX];
	int width = progress->width;

	/* blanks after a shorter line overwrite the end of the line before */
	progress->width = fprintf(stderr, "\r%s", progress_line(progress, now - progress->began_ns, text)) - 1;
	if (progress->width < width)
		fprintf(stderr, "%*s", width - progress->width, "");
	fflush(stderr);
	progress->last_ns = now;
}

void progress_begin(struct progress *progress, const char *name, uint64_t total, bool quiet)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	*progress = (struct progress){
		.shown = !quiet && isatty(STDERR_FILENO), .name = name, .total = total, .began_ns = now, .last_ns = now,
	};
}

void progress_add(struct progress *progress, uint64_t bytes)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	progress->done += bytes;
	if (progress->shown && now - progress->last_ns >= PERIOD_NS)
		show(progress, now);
}

void progress_end(struct progress *progress)
{
	if (!progress->shown)
		return;
	show(progress, now_ns(CLOCK_MONOTONIC));
	fputc('\n', stderr);
}
