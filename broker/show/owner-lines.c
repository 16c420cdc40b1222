/* SPDX-License-Identifier: Apache-2.0 */
/* owner-lines.c - see owner-lines.h */
#include "owner-lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "records.h"

#define TIME_TEXT_MAX 20

#define NUMBER(value) ((unsigned long long)(value))

struct lines {
	struct owner_line *line;
	size_t             count;
};

static void add(struct lines *lines, enum tone tone, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(struct lines *lines, enum tone tone, const char *format, ...)
{
	struct owner_line *line = &lines->line[lines->count++];
	va_list args;

	line->tone = tone;
	va_start(args, format);
	vsnprintf(line->text, sizeof line->text, format, args);
	va_end(args);
}

/* Writes local date and time of `ms` milliseconds since 1970 to text: "2026-11-28 21:00:00". Returns text. */
static const char *time_text(uint64_t ms, char text[TIME_TEXT_MAX])
{
	time_t when = (time_t)(ms / 1000);
	struct tm parts;

	if (!localtime_r(&when, &parts) || !strftime(text, TIME_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &parts))
		strcpy(text, "?");
	return text;
}

static void add_next(struct lines *lines, const struct status_owner *owner)
{
	char when[TIME_TEXT_MAX];

	time_text(owner->since, when);
	if (owner->tries)
		add(lines, TONE_WARNING, "another one is starting since %s, after %llu that did not start", when,
		    NUMBER(owner->tries));
	else
		add(lines, TONE_WARNING, "another one is starting since %s", when);
}

static void add_past(struct lines *lines, const struct status_owner *owner)
{
	const char *s = owner->died == 1 ? "" : "s";
	char when[TIME_TEXT_MAX];

	time_text(owner->died_at, when);
	if (owner->lost == STATUS_HIDDEN)
		add(lines, TONE_WARNING, "%llu owner%s ended, the last at %s", NUMBER(owner->died), s, when);
	else
		add(lines, TONE_WARNING, "%llu owner%s ended, the last at %s: %llu buffer%s lost %s",
		    NUMBER(owner->died), s, when, NUMBER(owner->lost), owner->lost == 1 ? "" : "s",
		    owner->lost == 1 ? "its name" : "their names");
}

static const char *end_text(uint64_t how)
{
	switch (how) {
	case STATUS_BROKER_KILLED:
		return "was killed";
	case STATUS_BROKER_UPGRADED:
		return "was upgraded";
	}
	return broker_end_name(how);
}

/* Nothing of a broker that nobody replaces, or that was not replaced yet. */
static void add_broker(struct lines *lines, const struct status_broker *broker)
{
	const char *s = broker->restarts == 1 ? "" : "s";
	char when[TIME_TEXT_MAX];

	time_text(broker->since, when);
	add(lines, TONE_WARNING, "%llu broker%s ended, the last at %s: it %s; %llu objects went on after %.1f ms",
	    NUMBER(broker->restarts), s, when, end_text(broker->how),
	    NUMBER(broker->objects), (double)broker->pause_us / 1000);
	if (broker->cold_starts)
		add(lines, TONE_ALARM, "%llu of them began with nothing: what there was before is lost",
		    NUMBER(broker->cold_starts));
}

size_t owner_lines(const struct shown *shown, struct owner_line lines[OWNER_LINES_MAX])
{
	const struct status_owner *owner = shown->state == SHOWN_DEAD ? NULL : shown_owner(shown);
	const struct status_broker *broker = owner ? shown_broker(shown) : NULL;
	struct lines made = { lines, 0 };

	if (!owner)
		return 0;
	if (owner->state == STATUS_OWNER_RUNS)
		add(&made, TONE_PLAIN, "process %llu owns the device memory", NUMBER(owner->pid));
	else if (owner->state == STATUS_OWNER_STARTS)
		add(&made, TONE_ALARM, "no process owns the device memory: creates and drains wait");
	else
		add(&made, TONE_ALARM, "no process owns the device memory, and no other one starts: the broker ends");
	if (owner->state == STATUS_OWNER_STARTS)
		add_next(&made, owner);
	if (owner->died)
		add_past(&made, owner);
	if (broker && broker->restarts)
		add_broker(&made, broker);
	return made.count;
}
