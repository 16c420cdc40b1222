/* SPDX-License-Identifier: Apache-2.0 */
/* test-timeline-wait.c - when a synchronisation is told that nobody is left to end what a stream waits for. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/timeline-map.h"
#include "client/timeline-wait.h"
#include "common/error.h"

#define SERIAL 7

static struct client_guard guard;
static struct gpub_client client = { .guard = &guard };
static struct timeline_page page[2];
static struct board_end end[2];
static struct timeline_map map[2];
static struct timeline_watch watch;

static int setup(void **state)
{
	(void)state;
	memset(page, 0, sizeof page);
	memset(end, 0, sizeof end);
	memset(map, 0, sizeof map);
	watch = (struct timeline_watch){ 0 };
	atomic_store(&guard.state, CLIENT_OPEN);
	for (int i = 0; i < 2; i++) {
		map[i].client = &client;
		map[i].serial = SERIAL;
		map[i].page = &page[i];
		map[i].end = &end[i];
	}
	timeline_abandon_ms = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	timeline_wait_forget(&map[0]);
	timeline_wait_forget(&map[1]);
	return !timeline_waits_none();
}

static void lose_broker(void)
{
	atomic_store(&guard.state, CLIENT_LOST);
}

static void test_what_is_reached_is_not_waited_for(void **state)
{
	(void)state;
	assert_true(timeline_waits_none());
	page[0].word = 5;
	timeline_wait_note(&map[0], 5, 0);
	assert_true(timeline_waits_none());
	page[0].word = TIMELINE_DIED;
	timeline_wait_note(&map[0], GPUB_TIMELINE_MAX, 0);
	assert_true(timeline_waits_none());
	assert_int_equal(timeline_waits_ended(&watch), 1);
}

/* They are the thread's own to end: a synchronisation does not wait for them. */
static void test_a_threads_wait_is_told_and_keeps_no_stream(void **state)
{
	struct parked_wait waits[PARKED_MAX];
	struct thread_wait thread[2];

	(void)state;
	assert_true(timeline_threads_none());
	timeline_wait_begin(&map[0], &thread[0], 5, 0);
	timeline_wait_begin(&map[0], &thread[1], 3, 1);
	timeline_wait_note(&map[0], 7, 0);
	assert_false(timeline_threads_none());
	assert_int_equal(timeline_wait_list(&map[0], 0, waits), 2);
	assert_int_equal(waits[0].value, 5);
	assert_int_equal(waits[1].value, 7);
	assert_int_equal(timeline_wait_list(&map[0], 1, waits), 1);
	page[0].word = 7;
	assert_int_equal(timeline_waits_ended(&watch), 1);
	assert_true(timeline_waits_none() && !timeline_wait_parked(&map[0]));
	assert_int_equal(timeline_wait_list(&map[0], 0, waits), 0);
	timeline_wait_end(&map[0], &thread[0]);
	timeline_wait_end(&map[0], &thread[1]);
	assert_true(timeline_threads_none() && !map[0].threads);
}

static void test_a_signal_ends_the_wait(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 5, 0);
	timeline_wait_note(&map[1], 2, 0);
	assert_false(timeline_waits_none());
	assert_int_equal(timeline_waits_ended(&watch), 0);
	page[0].word = 5;
	page[1].word = 1;
	assert_int_equal(timeline_waits_ended(&watch), 0);
	page[1].word = 2;
	assert_int_equal(timeline_waits_ended(&watch), 1);
	assert_true(timeline_waits_none());
}

/* The largest of several values is what has to come; an end mark is larger than all. */
static void test_the_largest_value_counts(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 9, 0);
	timeline_wait_note(&map[0], 3, 0);
	page[0].word = 3;
	assert_int_equal(timeline_waits_ended(&watch), 0);
	page[0].word = TIMELINE_LEFT;
	assert_int_equal(timeline_waits_ended(&watch), 1);
}

static void test_with_its_broker_a_wait_is_never_cancelled(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 5, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(timeline_waits_ended(&watch), 0);
}

static void test_a_wait_without_a_broker_is_cancelled(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 5, 0);
	lose_broker();
	assert_int_equal(timeline_waits_ended(&watch), 0);
	assert_int_equal(timeline_waits_ended(&watch), -ECONNRESET);
	assert_non_null(strstr(error_text(), "end this process"));
	/* a second call waits again */
	watch = (struct timeline_watch){ 0 };
	assert_int_equal(timeline_waits_ended(&watch), 0);
	/* and it may come all the same */
	page[0].word = 5;
	assert_int_equal(timeline_waits_ended(&watch), 1);
}

static void test_patience(void **state)
{
	(void)state;
	timeline_abandon_ms = 1000000;
	timeline_wait_note(&map[0], 5, 0);
	lose_broker();
	for (int i = 0; i < 3; i++)
		assert_int_equal(timeline_waits_ended(&watch), 0);
}

/* A writer that goes on signalling without a broker is at work. */
static void test_progress_begins_patience_anew(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 5, 0);
	lose_broker();
	for (page[0].word = 1; page[0].word < 5; page[0].word++)
		assert_int_equal(timeline_waits_ended(&watch), 0);
	assert_int_equal(timeline_waits_ended(&watch), 1);
}

/* Its mark is written over. */
static void test_a_wait_on_an_ended_timeline_is_cancelled(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 5, 0);
	atomic_store(&end[0].how, BOARD_WORD(SERIAL - 1, BOARD_DIED));
	assert_int_equal(timeline_waits_ended(&watch), 0);
	assert_int_equal(timeline_waits_ended(&watch), 0);
	atomic_store(&end[0].how, BOARD_WORD(SERIAL, BOARD_DIED));
	assert_int_equal(timeline_waits_ended(&watch), 0);
	assert_int_equal(timeline_waits_ended(&watch), -EOWNERDEAD);
}

static void expect_listed(int32_t ordinal, unsigned count, const uint64_t *values)
{
	struct parked_wait waits[PARKED_MAX];

	assert_int_equal(timeline_wait_list(&map[0], ordinal, waits), count);
	for (unsigned i = 0; i < count; i++)
		assert_true(waits[i].value == values[i]);
}

/* A list that is full leaves out the wait for the highest value, whether it comes first or last. */
static void test_a_full_list_leaves_out_the_highest(void **state)
{
	struct thread_wait thread;

	(void)state;
	for (uint64_t value = 1; value <= PARKED_MAX; value++)
		timeline_wait_note(&map[0], 2 * value, 0);
	timeline_wait_begin(&map[0], &thread, 2 * PARKED_MAX + 1, 0);
	expect_listed(0, PARKED_MAX, (uint64_t[]){ 2, 4, 6, 8 });
	timeline_wait_end(&map[0], &thread);
	timeline_wait_begin(&map[0], &thread, 3, 0);
	expect_listed(0, PARKED_MAX, (uint64_t[]){ 2, 3, 4, 6 });
	timeline_wait_end(&map[0], &thread);
}

/* Those that are reached make room for later ones; of a device only its own are listed. */
static void test_the_lowest_waits_are_listed(void **state)
{
	(void)state;
	for (uint64_t value = 1; value <= PARKED_MAX + 2; value++)
		timeline_wait_note(&map[0], value, 0);
	expect_listed(0, PARKED_MAX, (uint64_t[]){ 1, 2, 3, 4 });
	page[0].word = 2;
	expect_listed(0, 2, (uint64_t[]){ 3, 4 });
	page[0].word = 4;
	expect_listed(0, 1, (uint64_t[]){ 5 }); /* it is behind those that had no room */
	page[0].word = 5;
	expect_listed(0, 1, (uint64_t[]){ 6 });
	page[0].word = 6;
	expect_listed(0, 0, NULL);
	timeline_wait_note(&map[0], 10, 1);
	timeline_wait_note(&map[0], 11, 0);
	expect_listed(0, 1, (uint64_t[]){ 11 });
	expect_listed(1, 1, (uint64_t[]){ 10 });
	page[0].word = TIMELINE_DIED;
	expect_listed(0, 0, NULL);
	timeline_wait_forget(&map[0]);
	expect_listed(1, 0, NULL);
}

/* One stream waits for the end of all, and another one goes on step by step. */
static void test_a_high_wait_hides_no_lower_one(void **state)
{
	(void)state;
	timeline_wait_note(&map[0], 100, 0);
	for (uint64_t value = 5; value <= 9; value++)
		timeline_wait_note(&map[0], value, 0);
	expect_listed(0, PARKED_MAX, (uint64_t[]){ 5, 6, 7, 8 });
	page[0].word = 7;
	timeline_wait_note(&map[0], 50, 0);
	expect_listed(0, 2, (uint64_t[]){ 8, 50 });
	page[0].word = 8;
	expect_listed(0, 2, (uint64_t[]){ 9, 50 }); /* one that had no room, in front of one that has it */
	page[0].word = 50;
	expect_listed(0, 1, (uint64_t[]){ 51 }); /* up to 100 */
	timeline_wait_note(&map[0], 60, 0);
	expect_listed(0, 1, (uint64_t[]){ 60 });
}

/* Each is told of its own device, also where it had no room. */
static void test_waits_without_room_of_two_devices(void **state)
{
	(void)state;
	for (uint64_t value = 1; value <= PARKED_MAX; value++)
		timeline_wait_note(&map[0], value, 0);
	timeline_wait_note(&map[0], 5, 0);
	expect_listed(1, 0, NULL);
	timeline_wait_note(&map[0], 6, 1);
	expect_listed(0, PARKED_MAX, (uint64_t[]){ 1, 2, 3, 4 });
	expect_listed(1, 1, (uint64_t[]){ 5 }); /* the first one of both */
	page[0].word = 5;
	expect_listed(1, 1, (uint64_t[]){ 6 });
	expect_listed(2, 0, NULL);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_what_is_reached_is_not_waited_for),
		ON(test_a_full_list_leaves_out_the_highest),
		ON(test_the_lowest_waits_are_listed),
		ON(test_a_high_wait_hides_no_lower_one),
		ON(test_waits_without_room_of_two_devices),
		ON(test_a_threads_wait_is_told_and_keeps_no_stream),
		ON(test_a_signal_ends_the_wait),
		ON(test_the_largest_value_counts),
		ON(test_with_its_broker_a_wait_is_never_cancelled),
		ON(test_a_wait_without_a_broker_is_cancelled),
		ON(test_patience),
		ON(test_progress_begins_patience_anew),
		ON(test_a_wait_on_an_ended_timeline_is_cancelled),
	};

	return cmocka_run_group_tests_name("timeline-wait", tests, NULL, NULL);
}
