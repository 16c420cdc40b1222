/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h */
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 640

static int patience_ms = 1000;
static unsigned long long left_out;
static enum log_level level = LOG_NORMAL;

void log_serving(bool serving)
{
	patience_ms = serving ? 0 : 1000;
}

void log_level_set(enum log_level wanted)
{
	level = wanted;
}

/*
 * One write a line, so that lines of several processes on one terminal do not mix. The descriptor is shared
 * with those processes, so it is not made non-blocking: poll(2) asks first.
 */
static bool write_line(const char *text, int wait_ms)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	char line[TEXT_MAX];
	int length = snprintf(line, sizeof line, "%s: %s\n", program_invocation_short_name, text);

	if (length >= (int)sizeof line) {
		length = sizeof line - 1;
		line[length - 1] = '\n';
	}
	if (poll(&p, 1, wait_ms) != 1 || !(p.revents & POLLOUT))
		return false;
	return write(STDERR_FILENO, line, (size_t)length) == length;
}

/* A bucket of LOG_BURST lines that fills again by LOG_RATE a second. Counts in thousandths of a line. */
static bool rate_allows(void)
{
	static int64_t filled = LOG_BURST * 1000, last_ms;
	struct timespec now;
	int64_t now_ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	filled += (now_ms - last_ms) * LOG_RATE;
	last_ms = now_ms;
	if (filled > LOG_BURST * 1000)
		filled = LOG_BURST * 1000;
	if (filled < 1000)
		return false;
	filled -= 1000;
	return true;
}

void log_write(enum log_level least, bool of_client, const char *format, ...)
{
	int wait_ms = of_client ? 0 : patience_ms;
	char text[512], note[64];
	va_list args;

	if (level < least)
		return;
	/* first of all: it may take errno for %m */
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (of_client && !rate_allows()) {
		left_out++;
		return;
	}
	if (left_out) {
		snprintf(note, sizeof note, "%llu line%s left out", left_out, left_out == 1 ? " was" : "s were");
		if (write_line(note, wait_ms))
			left_out = 0;
	}
	if (!write_line(text, wait_ms))
		left_out++;
}
