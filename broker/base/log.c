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
static struct {
	void (*told)(void *context);
	void *context;
} left_out_hook;

void log_serving(bool serving)
{
	patience_ms = serving ? 0 : 1000;
}

void log_level_set(enum log_level wanted)
{
	level = wanted;
}

void log_journal(void)
{
	journal_open(JOURNAL_SOCKET);
}

bool log_shows(enum log_level least)
{
	return level >= least;
}

void log_when_left_out(void (*told)(void *context), void *context)
{
	left_out_hook.told = told;
	left_out_hook.context = context;
}

static void leave_out(void)
{
	if (!left_out++ && left_out_hook.told)
		left_out_hook.told(left_out_hook.context);
}

/*
 * Writes one line to stderr, after at most wait_ms. Returns false if there was no room. Makes one write(2) for the
 * line, so that lines of several processes do not mix. Uses poll(2) instead of O_NONBLOCK, because these processes
 * share stderr.
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

/*
 * Returns true if one more line of a client may be logged now: a token bucket of LOG_BURST lines, which LOG_RATE
 * lines a second fill again. Counts in thousandths of a line.
 */
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

/* syslog(3): warning, notice, info */
static const int priorities[] = { [LOG_QUIET] = 4, [LOG_NORMAL] = 5, [LOG_VERBOSE] = 6 };

static bool tell_left_out(int wait_ms)
{
	char note[64];

	snprintf(note, sizeof note, "%llu line%s left out", left_out, left_out == 1 ? " was" : "s were");
	if (!journal_send(priorities[LOG_QUIET], NULL, 0, note) && !write_line(note, wait_ms))
		return false;
	left_out = 0;
	return true;
}

void log_tell_left_out(void)
{
	if (left_out)
		tell_left_out(0);
}

void log_fields(enum log_level least, bool of_client, const struct journal_field *fields, unsigned count,
		const char *text)
{
	int wait_ms = of_client ? 0 : patience_ms;

	if (level < least)
		return;
	if (of_client && !rate_allows()) {
		leave_out();
		return;
	}
	if (left_out)
		tell_left_out(wait_ms);
	if (!journal_send(priorities[least], fields, count, text) && !write_line(text, wait_ms))
		leave_out();
}

void log_write(enum log_level least, bool of_client, const char *format, ...)
{
	char text[512];
	va_list args;

	if (level < least)
		return;
	/* formats before any other call, which might change errno: the format may have %m */
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	log_fields(least, of_client, NULL, 0, text);
}
