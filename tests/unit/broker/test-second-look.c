/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-second-look.c - what two looks at a broker show that one does not: a circle of which nothing has moved is called
 * a deadlock, and one of which anything has is not.
 */
#include <string.h>

#include "broker/show/second-look.h"
#include "why-records.h"

static union status_record before[64];
static size_t before_count;

/* Two that wait for each other, and two that wait for each other's leases. */
static void first_look(void)
{
	session(1);
	session(2);
	line("a", 5, 1);
	line("b", 6, 2);
	line("c", 7, 2);
	stream_waits(1, 6, 4);
	stream_waits(2, 5, 4);
	session(3);
	session(4);
	buffer("u", 8, STATUS_DRAINING);
	buffer("v", 9, STATUS_DRAINING);
	grants(1, 4, 8);
	grants(2, 3, 9);
	request(STATUS_DRAIN, 3, "u", 8);
	request(STATUS_DRAIN, 4, "v", 9);
	memcpy(before, records, count * sizeof *records);
	before_count = count;
}

static void expect_deadlocks(unsigned wanted)
{
	assert_int_equal(looks_compare(records, count, before, before_count), 0);
	assert_int_equal(ask(NULL), 0);
	assert_int_equal(found.deadlocks, wanted);
}

static union status_record *find(enum tracked_type type, uint64_t generation)
{
	for (size_t i = 0; i < count; i++)
		if (records[i].type == (uint32_t)type &&
		    (type == TRACKED_TIMELINE ? records[i].timeline.generation :
		     type == TRACKED_WAIT     ? records[i].wait.generation :
						records[i].request.generation) == generation)
			return &records[i];
	fail_msg("no such record");
	return NULL;
}

static void test_what_stands_still_is_a_deadlock(void **state)
{
	(void)state;
	first_look();
	expect_deadlocks(2);
}

static void test_one_look_shows_none(void **state)
{
	(void)state;
	first_look();
	assert_int_equal(looks_compare(records, count, NULL, 0), 0);
	assert_int_equal(ask(NULL), 0);
	assert_int_equal(found.deadlocks, 0);
}

/* And nothing keeps who waits for it. */
static void test_a_timeline_that_goes_on(void **state)
{
	(void)state;
	first_look();
	find(TRACKED_TIMELINE, 5)->timeline.value--;
	expect_deadlocks(1);
	assert_null(strstr(said, "waits for a to reach 4; it"));
}

/* It has another wait, which stays where it was: it goes on all the same. */
static void test_who_has_a_wait_that_goes_on(void **state)
{
	(void)state;
	session(5);
	line("d", 15, 5);
	stream_waits(2, 15, 9);
	first_look();
	find(TRACKED_TIMELINE, 15)->timeline.value--;
	expect_deadlocks(1);
}

/* A buffer of each step: the same circle every time, of other buffers. */
static void test_a_wait_for_another_buffer(void **state)
{
	(void)state;
	first_look();
	assert_int_equal(before[8].type, TRACKED_WAIT);
	assert_int_equal(before[8].wait.generation, 6);
	before[4].buffer.generation = before[5].timeline.generation = before[8].wait.generation = 70;
	expect_deadlocks(1);
}

static void test_a_wait_that_has_ended(void **state)
{
	(void)state;
	first_look();
	before[before_count] = *find(TRACKED_WAIT, 5);
	before[before_count++].wait.generation = 7;
	expect_deadlocks(1);
}

static void test_a_wait_that_is_new(void **state)
{
	(void)state;
	first_look();
	stream_waits(1, 7, 9);
	expect_deadlocks(1);
}

static void test_who_has_signalled(void **state)
{
	(void)state;
	first_look();
	find(TRACKED_TIMELINE, 7)->timeline.value++;
	expect_deadlocks(1);
}

static void test_another_request(void **state)
{
	(void)state;
	first_look();
	find(TRACKED_REQUEST, 9)->request.since++;
	expect_deadlocks(1);
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_what_stands_still_is_a_deadlock),
		ON(test_one_look_shows_none),
		ON(test_a_timeline_that_goes_on),
		ON(test_who_has_a_wait_that_goes_on),
		ON(test_a_wait_for_another_buffer),
		ON(test_a_wait_that_has_ended),
		ON(test_a_wait_that_is_new),
		ON(test_who_has_signalled),
		ON(test_another_request),
	};

	return cmocka_run_group_tests_name("second-look", tests, NULL, NULL);
}
