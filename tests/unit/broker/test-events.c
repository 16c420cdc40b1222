/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-events.c - what happens is told once, as far as its class may: lines and entries, what is left out, and how it
 * reads.
 *
 * stderr is a pipe here, and the clock is this program's own. What the ring would get is kept in an array.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"

#define MINUTE (EVENT_WINDOW_MS + 1000)
#define MOST   1000

static uint64_t clock_ms, set_back_ms;

/* The log's own rate goes by one that nobody can set. */
int clock_gettime(clockid_t id, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	uint64_t ms;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	if (!clock_ms)
		return real(id, now);
	ms = id == CLOCK_MONOTONIC ? clock_ms : clock_ms - set_back_ms;
	*now = (struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000 * 1000000) };
	return 0;
}

static struct events events;
static struct broker broker = { .events = &events };
static struct broker_event kept[MOST];
static unsigned kept_count;
static int reader, stderr_before;
static char said[1 << 17];

static void keep(struct broker *of, const struct broker_event *event)
{
	assert_ptr_equal(of, &broker);
	assert_in_range(kept_count, 0, MOST - 1);
	kept[kept_count++] = *event;
}

static int setup(void **state)
{
	static uint64_t begin = 1000000000;
	int ends[2];

	(void)state;
	/* the log's bucket is full again for each test */
	clock_ms = begin += 10 * MINUTE;
	events = (struct events){ .record = keep, .broker = &broker };
	kept_count = 0;
	log_level_set(LOG_NORMAL);
	stderr_before = dup(STDERR_FILENO);
	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK) || dup2(ends[1], STDERR_FILENO) < 0)
		return -1;
	close(ends[1]);
	reader = ends[0];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(reader);
	return dup2(stderr_before, STDERR_FILENO) < 0 || close(stderr_before);
}

/* All that was written since the last time; how many lines. */
static unsigned lines(void)
{
	ssize_t got, length = 0;
	unsigned count = 0;

	while ((got = read(reader, said + length, sizeof said - 1 - (size_t)length)) > 0)
		length += got;
	said[length] = 0;
	for (const char *c = said; *c; c++)
		count += *c == '\n';
	return count;
}

static bool says(const char *text)
{
	return strstr(said, text) != NULL;
}

static void happens(enum event_kind kind, int error)
{
	event_happened(&broker, &(struct broker_event){ .kind = kind,
							.error = error,
							.actor = { 4, 12, 1000, "heat" },
							.bytes = 1 << 20,
							.name = "a/b",
							.text = error ? "the words of the answer" : NULL });
}

static void happen(unsigned times, enum event_kind kind, int error)
{
	while (times--)
		happens(kind, error);
}

/* ---- */

static void test_every_kind_has_a_name_and_words(void **state)
{
	char text[EVENT_TEXT_MAX];

	(void)state;
	for (int kind = 0; kind < EVENT_KINDS; kind++) {
		assert_int_equal(event_find(event_rows[kind].name), kind);
		event_text(&(struct broker_event){ .kind = (enum event_kind)kind, .error = -EACCES }, text);
		assert_true(strlen(text) > 10);
		assert_null(strchr(text, '%'));
		/* what a client may try as often as it likes is limited */
		assert_true(event_rows[kind].part != EVENT_REFUSED || event_rows[kind].lines);
	}
	assert_int_equal(event_find("nothing"), -1);
}

static void test_a_refusal_is_a_line_with_who_what_and_why(void **state)
{
	(void)state;
	happens(EVENT_CREATE_REFUSED, -EDQUOT);
	assert_int_equal(lines(), 1);
	assert_true(says(": session 4 (pid 12, heat, uid 1000) was refused the create of 'a/b' of 1 MiB: the words of "
			 "the answer\n"));
	assert_int_equal(kept_count, 1);
}

static void invariant_5_a_class_has_so_many_lines_and_entries(void **state)
{
	(void)state;
	happen(100, EVENT_CREATE_REFUSED, -EDQUOT);
	assert_int_equal(lines(), 5);
	assert_int_equal(kept_count, EVENT_ENTRIES);
	/* another reason, and another kind, have their own */
	happens(EVENT_CREATE_REFUSED, -ENOMEM);
	happens(EVENT_CHANGE_REFUSED, -EACCES);
	assert_int_equal(lines(), 2);
	assert_int_equal(kept_count, EVENT_ENTRIES + 2);
}

static void test_what_is_left_out_is_counted_and_said(void **state)
{
	(void)state;
	happen(100, EVENT_CREATE_REFUSED, -EDQUOT);
	lines();
	events_tell(&events);
	assert_int_equal(lines(), 1);
	assert_true(says(": create-refused (quota): 95 more like this were left out within a minute\n"));
	assert_int_equal(kept_count, EVENT_ENTRIES + 1);
	assert_int_equal(kept[EVENT_ENTRIES].left_out, 100 - EVENT_ENTRIES);
	assert_int_equal(kept[EVENT_ENTRIES].kind, EVENT_CREATE_REFUSED);
	assert_int_equal(event_reason_number(kept[EVENT_ENTRIES].error), event_reason_number(-EDQUOT));
	events_tell(&events);
	assert_int_equal(lines(), 0);
	assert_int_equal(kept_count, EVENT_ENTRIES + 1);
}

static void test_the_next_minute_begins_anew(void **state)
{
	(void)state;
	happen(100, EVENT_CREATE_REFUSED, -EDQUOT);
	lines();
	clock_ms += MINUTE;
	happens(EVENT_CREATE_REFUSED, -EDQUOT);
	assert_int_equal(lines(), 2);
	assert_true(says("95 more like this") && says("was refused the create"));
	/* and also where the clock is set back */
	clock_ms += MINUTE;
	set_back_ms = 5 * MINUTE;
	happen(100, EVENT_CREATE_REFUSED, -EDQUOT);
	assert_int_equal(lines(), 5);
	set_back_ms = 0;
}

static void test_what_programs_meet_every_day_is_for_verbose(void **state)
{
	(void)state;
	happens(EVENT_CREATE_REFUSED, -EEXIST);
	assert_int_equal(lines(), 0);
	assert_int_equal(kept_count, 1);
	log_level_set(LOG_VERBOSE);
	happens(EVENT_CREATE_REFUSED, -EEXIST);
	assert_int_equal(lines(), 1);
}

static void test_quiet_says_failures_alone(void **state)
{
	(void)state;
	log_level_set(LOG_QUIET);
	happens(EVENT_CREATE, 0);
	happens(EVENT_CREATE_REFUSED, -EDQUOT);
	happens(EVENT_TICKET_FORGED, -EKEYREJECTED);
	happens(EVENT_DEATH, 0);
	happens(EVENT_START, 0);
	assert_int_equal(lines(), 0);
	happens(EVENT_CUT, 0);
	assert_int_equal(lines(), 1);
	assert_int_equal(kept_count, 6);
}

static void test_normal_says_deaths_evictions_and_forgeries(void **state)
{
	static const struct broker_event eviction = { .kind = EVENT_EVICT,
						      .actor = { 5, 13, 0, "broker-ctl" },
						      .other = { 4, 12, 1000, "heat" } };

	(void)state;
	happens(EVENT_CREATE, 0);
	assert_int_equal(lines(), 0);
	happens(EVENT_DEATH, 0);
	happens(EVENT_TICKET_FORGED, -EKEYREJECTED);
	event_happened(&broker, &eviction);
	assert_int_equal(lines(), 3);
	assert_true(says("session 4 (pid 12, heat, uid 1000) is disconnected: it was evicted by session 5 (pid 13, "
			 "broker-ctl, uid 0)\n"));
}

static void test_what_is_allowed_is_kept_without_a_limit(void **state)
{
	(void)state;
	happen(500, EVENT_CREATE, 0);
	assert_int_equal(kept_count, 500);
}

/* By the log's own rate; the timer has it said where no line follows. */
static void test_verbose_loses_no_line_silently(void **state)
{
	unsigned told, left = 0;

	(void)state;
	log_level_set(LOG_VERBOSE);
	happen(500, EVENT_CREATE, 0);
	told = lines();
	assert_in_range(told, 1, 499);
	events_tell(&events);
	assert_int_equal(lines(), 1);
	assert_int_equal(sscanf(strstr(said, ": "), ": %u lines were left out", &left), 1);
	assert_int_equal(told + left, 500);
}

/* Where no client is limited, a text of a client's is one line, too. */
static void test_a_text_is_one_printable_line(void **state)
{
	char text[EVENT_TEXT_MAX];

	(void)state;
	event_text(&(struct broker_event){ .kind = EVENT_CUT, .actor = { 1, 2, 3, "a\nb" }, .text = "c\033[31m\nd" },
		   text);
	assert_string_equal(text, "session 1 (pid 2, a?b, uid 3) is disconnected: c?[31m?d");
	memset(said, 'x', 4000);
	said[4000] = 0;
	event_text(&(struct broker_event){ .kind = EVENT_START, .text = said }, text);
	assert_int_equal(strlen(text), EVENT_TEXT_MAX - 1);
}

static void test_nobody_asks_what_happened(void **state)
{
	static struct broker other;

	(void)state;
	event_happened(&other, &(struct broker_event){ .kind = EVENT_CUT, .text = "x" });
	assert_int_equal(lines(), 0);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_every_kind_has_a_name_and_words),
		ON(test_a_refusal_is_a_line_with_who_what_and_why),
		ON(invariant_5_a_class_has_so_many_lines_and_entries),
		ON(test_what_is_left_out_is_counted_and_said),
		ON(test_the_next_minute_begins_anew),
		ON(test_what_programs_meet_every_day_is_for_verbose),
		ON(test_quiet_says_failures_alone),
		ON(test_normal_says_deaths_evictions_and_forgeries),
		ON(test_what_is_allowed_is_kept_without_a_limit),
		ON(test_verbose_loses_no_line_silently),
		ON(test_a_text_is_one_printable_line),
		ON(test_nobody_asks_what_happened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
