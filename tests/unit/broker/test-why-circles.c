/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-why-circles.c - which waits are called a deadlock, from records that are made by hand: circles, and each way in
 * which one of a circle may go on all the same.
 */
#include <string.h>

#include "why-records.h"

/* ---- deadlocks ---- */

static void test_a_circle_is_told_once(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 4; n++)
		session(n);
	line("a", 5, 1);
	line("b", 6, 2);
	line("c", 7, 3);
	stream_waits(1, 6, 4);
	stream_waits(2, 7, 5);
	stream_waits(3, 5, 6);
	stream_waits(4, 6, 9);
	expect("12 s: deadlock 1: rank 1 (pid 11) waits for b to reach 4 (it is at 3), which rank 2 (pid 12) writes; "
	       "rank 2 (pid 12) waits for c to reach 5 (it is at 3), which rank 3 (pid 13) writes; rank 3 (pid 13) "
	       "waits for a to reach 6 (it is at 3), which rank 1 (pid 11) writes: nothing of it has moved for 1 s, so "
	       "none of them goes on unless one still runs a kernel or has yet to signal from another stream: gdb -p "
	       "13 shows what it does; to end it, end one: kill 13\n"
	       "12 s: rank 4 (pid 14) waits for b to reach 9; it is at 3; its writer, rank 2 (pid 12), is in deadlock "
	       "1\n");
	assert_int_equal(found.deadlocks, 1);
	expect_about("14", "12 s: rank 4 (pid 14) waits for b to reach 9; it is at 3; its writer, rank 2 (pid 12), is "
			   "in deadlock 1\n");
}

/*
 * One of its waits leads elsewhere, and nobody knows which one its stream has come to. Of one timeline the lowest value
 * is told.
 */
static void test_who_waits_elsewhere_too_is_in_no_deadlock(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 3; n++)
		session(n);
	line("a", 5, 1);
	line("b", 6, 2);
	line("c", 7, 3);
	letters[13] = 'T';
	stream_waits(1, 6, 4);
	stream_waits(1, 6, 5);
	stream_waits(1, 7, 4);
	stream_waits(2, 5, 4);
	expect("12 s: rank 1 (pid 11) waits for b to reach 4; it is at 3; its writer, rank 2 (pid 12), waits for a to "
	       "reach 4; it is at 3; its writer, rank 1 (pid 11), waits in turn, and may go on\n"
	       "12 s: rank 1 (pid 11) waits for c to reach 4; it is at 3; its writer, rank 3 (pid 13), is stopped by a "
	       "signal: kill -CONT 13\n"
	       "12 s: rank 2 (pid 12) waits for a to reach 4; it is at 3; its writer, rank 1 (pid 11), waits for c to "
	       "reach 4; it is at 3; its writer, rank 3 (pid 13), is stopped by a signal: kill -CONT 13\n");
	assert_int_equal(found.deadlocks, 0);
}

/* A process that may go on is in no deadlock, and each of two is told, the one of the lower session first. */
static void test_two_circles(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 5; n++)
		session(n);
	line("a", 11, 1);
	line("b", 12, 2);
	line("c", 13, 3);
	line("d", 14, 4);
	line("e", 15, 5);
	stream_waits(3, 14, 4);
	stream_waits(4, 13, 4);
	stream_waits(5, 11, 4);
	stream_waits(1, 12, 4);
	stream_waits(2, 11, 4);
	assert_int_equal(ask(NULL), 0);
	assert_int_equal(found.deadlocks, 2);
	assert_ptr_equal(strstr(said, "deadlock 1: rank 1 (pid 11) waits for b to reach 4"), said + strlen("12 s: "));
	assert_non_null(strstr(said, "\n"
				     "12 s: deadlock 2: rank 3 (pid 13) waits for d to reach 4 (it is at 3), which "
				     "rank 4 (pid 14) writes; rank 4 (pid 14) waits for c"));
	assert_non_null(strstr(said, "\n"
				     "12 s: rank 5 (pid 15) waits for a to reach 4; it is at 3; its writer, rank 1 "
				     "(pid 11), is in deadlock 1\n"));
}

static void test_a_circle_through_the_broker(void **state)
{
	(void)state;
	session(1);
	session(2);
	buffer("u", 5, STATUS_DRAINING);
	grants(1, 2, 5);
	line("a", 6, 1);
	request(STATUS_DRAIN, 1, "u", 5);
	stream_waits(2, 6, 4);
	expect("12 s: deadlock 1: rank 1 (pid 11) waits for u to be freed, which rank 2 (pid 12) uses; rank 2 (pid 12) "
	       "waits for a to reach 4 (it is at 3), which rank 1 (pid 11) writes: nothing of it has moved for 1 s, so "
	       "none of them goes on unless one still runs a kernel or has yet to signal from another stream: gdb -p "
	       "12 shows what it does; to end it, end one: kill 12\n");
}

/* ---- what is no deadlock, because one of the circle may go on ---- */

static struct status_session *second;

/* Two that wait for each other. */
static void circle_of_two(void)
{
	session(1);
	second = session(2);
	line("a", 5, 1);
	line("b", 6, 2);
	stream_waits(1, 6, 4);
	stream_waits(2, 5, 4);
}

static void expect_deadlocks(unsigned wanted)
{
	assert_int_equal(ask(NULL), 0);
	assert_int_equal(found.deadlocks, wanted);
}

/* Its waits are of an earlier moment, or some are not known. */
static void test_who_has_not_said_all_is_in_no_deadlock(void **state)
{
	(void)state;
	circle_of_two();
	expect_deadlocks(1);
	second->answer = STATUS_ANSWERED;
	expect_deadlocks(1);
	second->answer = STATUS_OWES_ANSWER;
	expect_deadlocks(0);
	second->answer = STATUS_CANNOT_ANSWER;
	expect_deadlocks(0);
	second->answer = STATUS_ANSWERED;
	second->partial = 1;
	expect_deadlocks(0);
	second->partial = 0;
	second->state = STATUS_CUT;
	expect_deadlocks(0);
}

/* The stopped one is told, and nobody is advised to end the other. */
static void test_a_stopped_process_in_a_circle(void **state)
{
	(void)state;
	circle_of_two();
	second->answer = STATUS_OWES_ANSWER;
	letters[12] = 'T';
	expect("12 s: rank 1 (pid 11) waits for b to reach 4; it is at 3; its writer, rank 2 (pid 12), is stopped by a "
	       "signal: kill -CONT 12\n"
	       "12 s: rank 2 (pid 12) waits for a to reach 4; it is at 3; its writer, rank 1 (pid 11), waits for b to "
	       "reach 4; it is at 3; its writer, rank 2 (pid 12), is stopped by a signal: kill -CONT 12\n");
}

/* Whoever is to signal it is none of the circle. */
static void test_a_wait_that_leads_to_nobody(void **state)
{
	(void)state;
	circle_of_two();
	line("c", 7, 0);
	stream_waits(2, 7, 4);
	expect_deadlocks(0);
	assert_non_null(strstr(said, "waits for c to reach 4; it is at 3; nobody has signalled it yet"));
}

static void test_a_writer_that_is_gone(void **state)
{
	(void)state;
	circle_of_two();
	line("c", 7, 99);
	stream_waits(2, 7, 4);
	expect_deadlocks(0);
}

/* It went on after it answered. */
static void test_a_wait_that_is_over(void **state)
{
	(void)state;
	circle_of_two();
	line("c", 7, 1);
	stream_waits(2, 7, 3);
	expect_deadlocks(0);
}

/* Its other stream has to signal, and that one waits in the circle, too. */
static void test_a_wait_for_itself(void **state)
{
	(void)state;
	circle_of_two();
	stream_waits(2, 6, 4);
	expect_deadlocks(1);
}

static void test_an_acquire_ends_when_anybody_creates_the_name(void **state)
{
	(void)state;
	circle_of_two();
	request(STATUS_ACQUIRE, 2, "none", 0);
	expect_deadlocks(0);
}

static void test_a_create_ends_when_anybody_frees_memory(void **state)
{
	(void)state;
	circle_of_two();
	buffer("u", 8, STATUS_DRAINING);
	grants(1, 1, 8);
	request(STATUS_CREATE, 2, "new", 9);
	expect_deadlocks(0);
}

static void test_what_has_a_time_limit_ends_by_itself(void **state)
{
	struct status_request *drain;

	(void)state;
	circle_of_two();
	buffer("u", 8, STATUS_DRAINING);
	grants(1, 1, 8);
	drain = request(STATUS_DRAIN, 2, "u", 8);
	expect_deadlocks(1);
	drain->timed = 1;
	expect_deadlocks(0);
}

/* Nobody knows their processes: no number of theirs is in a command. */
static void test_no_command_has_a_foreign_number(void **state)
{
	(void)state;
	circle_of_two();
	session(3)->state = STATUS_LOST;
	session(4)->answer = STATUS_OWES_ANSWER;
	buffer("u", 8, STATUS_DRAINING);
	grants(1, 3, 8);
	grants(2, 2, 8)->orphaned = 1;
	grants(3, 4, 8);
	request(STATUS_DRAIN, 1, "u", 8);
	for (int live = 0; live < 2; live++) {
		assert_int_equal(ask_as(NULL, live, false), 0);
		assert_null(strstr(said, "kill "));
		assert_null(strstr(said, "gdb "));
	}
	assert_int_equal(ask_as(NULL, false, true), 0);
	assert_null(strstr(said, "gdb "));
	assert_int_equal(ask(NULL), 0);
	assert_non_null(strstr(said, "still runs: kill 13"));
	assert_non_null(strstr(said, "does not answer the broker: gdb -p 14 shows what it does"));
}

/* Without an edge of each wait nothing is proven: the steps are bounded. */
static void test_where_the_steps_end_nothing_is_a_deadlock(void **state)
{
	(void)state;
	circle_of_two();
	for (unsigned i = 0; i < 300; i++)
		buffer("u", 100 + i, STATUS_DRAINING)->allocation = 50;
	for (unsigned i = 0; i < 600; i++)
		grants(1 + i, 2, 1000 + i)->allocation = 50;
	for (unsigned i = 0; i < 300; i++)
		request(STATUS_DRAIN, 1, "u", 100 + i);
	assert_int_equal(ask("a"), 0);
	assert_int_equal(found.deadlocks, 0);
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_circle_is_told_once),
		ON(test_who_waits_elsewhere_too_is_in_no_deadlock),
		ON(test_two_circles),
		ON(test_a_circle_through_the_broker),
		ON(test_who_has_not_said_all_is_in_no_deadlock),
		ON(test_a_stopped_process_in_a_circle),
		ON(test_a_wait_that_leads_to_nobody),
		ON(test_a_writer_that_is_gone),
		ON(test_a_wait_that_is_over),
		ON(test_a_wait_for_itself),
		ON(test_an_acquire_ends_when_anybody_creates_the_name),
		ON(test_a_create_ends_when_anybody_frees_memory),
		ON(test_what_has_a_time_limit_ends_by_itself),
		ON(test_no_command_has_a_foreign_number),
		ON(test_where_the_steps_end_nothing_is_a_deadlock),
	};

	return cmocka_run_group_tests_name("why-circles", tests, NULL, NULL);
}
