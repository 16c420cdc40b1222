/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.c - all output of heat on stderr, and its clock.
 *
 * Owns the progress line of rank 0, which is rewritten in place, on a terminal only. An error message first ends that
 * line. Never ends the process.
 */
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "heat.h"

#define PROGRESS_EVERY 0.1 /* seconds */

static unsigned speaker;
static bool     line_open;

void heat_name(unsigned rank)
{
	speaker = rank;
}

/* One write for the whole line: the workers share a terminal. */
__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list list)
{
	char text[1024];
	int  used;

	progress_end();
	used = snprintf(text, sizeof(text), "heat[%u]: ", speaker);
	vsnprintf(text + used, sizeof(text) - (size_t)used - 1, format, list);
	strcat(text, "\n");
	fputs(text, stderr);
	fflush(stderr);
}

int heat_fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say(format, list);
	va_end(list);
	return -1;
}

/* For errors that all workers have, because all have the same options: one of them prints it. */
void heat_refuse(const char *format, ...)
{
	va_list list;

	if (speaker != 0)
		return;
	va_start(list, format);
	say(format, list);
	va_end(list);
}

void progress_show(const struct options *options, uint64_t done, double seconds)
{
	static double shown;

	if (options->rank != 0 || seconds - shown < PROGRESS_EVERY || !isatty(STDERR_FILENO))
		return;
	shown = seconds;
	line_open = true;
	fprintf(stderr, "\rheat: step %llu of %llu, %3.0f %%, %.1f us a step  ", (unsigned long long)done,
		(unsigned long long)options->steps, 100.0 * (double)done / (double)options->steps,
		done ? 1e6 * seconds / (double)done : 0.0);
	fflush(stderr);
}

/* Wipes the line: "\r", then "erase to the end of the line". */
void progress_end(void)
{
	if (!line_open)
		return;
	line_open = false;
	fputs("\r\033[K", stderr);
	fflush(stderr);
}

double heat_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void heat_nap(double seconds)
{
	struct timespec nap = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&nap, NULL);
}
