/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-jobs-lost.c - what becomes of jobs when the owner ends: they wait for the next one, which adopts memory first
 * and gets what was not answered again; or all fail.
 *
 * The test is the owner: it receives the orders of the lanes and answers them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/packet.h"
#include "lanes-harness.h"

/* Receives an order of that kind for that memory. Returns its number, and the descriptor that came beside it. */
static uint64_t ordered(unsigned lane, enum order_kind kind, uint64_t memory, int *descriptor)
{
	struct order order = receive_order(lane, kind, descriptor);

	if (kind != ORDER_ALLOCATE)
		assert_int_equal(order.memory, memory);
	return order.number;
}

static void answer(unsigned lane, uint64_t number, int error)
{
	send_answer(lane, number, error);
	pass();
}

/* In the order in which the owner before got them, and before what came later. Each with its number. */
static void test_the_next_owner_gets_what_was_not_answered(void **state)
{
	uint64_t number[3];
	int none;

	(void)state;
	submit(ORDER_ALLOCATE, 0);
	submit(ORDER_RELEASE, 7);
	submit(ORDER_GONE, 0);
	number[0] = ordered(0, ORDER_ALLOCATE, 0, &none);
	number[1] = ordered(0, ORDER_RELEASE, 7, &none);
	number[2] = ordered(1, ORDER_GONE, 0, &none);
	owner_ends();
	assert_int_equal(losses, 1);
	submit(ORDER_RELEASE, 8);
	pass();
	assert_int_equal(done_count, 0);
	assert_int_equal(jobs.pending, 4);
	next_owner();
	assert_int_equal(ordered(0, ORDER_ALLOCATE, 0, &none), number[0]);
	assert_int_equal(ordered(0, ORDER_RELEASE, 7, &none), number[1]);
	ordered(0, ORDER_RELEASE, 8, &none);
	assert_int_equal(ordered(1, ORDER_GONE, 0, &none), number[2]);
	answer(1, number[2], -EBUSY);
	assert_int_equal(last.outcome.error, -EBUSY);
	assert_int_equal(jobs.pending, 3);
}

/* An answer that came before the end counts, also if the owner ended with orders that it had not read. */
static void test_what_was_answered_is_not_asked_again(void **state)
{
	const struct outcome outcome = { .descriptor = -1, .number = 1 };
	int none;

	(void)state;
	submit(ORDER_RELEASE, 7);
	submit(ORDER_RELEASE, 8);
	assert_int_equal(ordered(0, ORDER_RELEASE, 7, &none), 1);
	assert_int_equal(packet_send(owners[0], &outcome, sizeof outcome, -1, 0), 0);
	owner_ends();
	assert_int_equal(done_count, 1);
	assert_int_equal(last.order.memory, 7);
	next_owner();
	ordered(0, ORDER_RELEASE, 8, &none);
	expect_nothing_ordered(0);
}

/* Memory that an owner does not know ended with an owner before: it is free. It cannot be zeroed. */
static void test_memory_of_an_owner_that_ended_is_free(void **state)
{
	int none;

	(void)state;
	submit(ORDER_RELEASE, 7);
	answer(0, ordered(0, ORDER_RELEASE, 7, &none), -ENOENT);
	assert_int_equal(last.outcome.error, 0);
	submit(ORDER_ZERO, 7);
	answer(0, ordered(0, ORDER_ZERO, 7, &none), -ENOENT);
	assert_int_equal(last.outcome.error, -ENOENT);
}

static void adopt(uint64_t memory)
{
	jobs_adopt(&jobs, job_new(ORDER_ADOPT, memory), STDIN_FILENO);
}

/* Before all other orders, because these may be about that memory. */
static void test_the_next_owner_adopts_memory_first(void **state)
{
	int none, descriptor;
	uint64_t number;

	(void)state;
	submit(ORDER_ZERO, 7);
	ordered(0, ORDER_ZERO, 7, &none);
	owner_ends();
	adopt(7);
	next_owner();
	number = ordered(0, ORDER_ADOPT, 7, &descriptor);
	assert_true(descriptor > STDERR_FILENO);
	close(descriptor);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	ordered(0, ORDER_ZERO, 7, &none);
	answer(0, number, 0);
	assert_int_equal(done_count, 1);
	assert_int_equal(last.order.kind, ORDER_ADOPT);
}

/* The one after the next adopts what is there then. */
static void test_an_adoption_ends_with_its_owner(void **state)
{
	int none, descriptor;

	(void)state;
	submit(ORDER_ROOM, 0);
	ordered(0, ORDER_ROOM, 0, &none);
	owner_ends();
	adopt(7);
	next_owner();
	ordered(0, ORDER_ADOPT, 7, &descriptor);
	close(descriptor);
	owner_ends();
	assert_int_equal(losses, 2);
	assert_int_equal(jobs.pending, 1);
	next_owner();
	ordered(0, ORDER_ROOM, 0, &none);
	expect_nothing_ordered(0);
	assert_int_equal(done_count, 0);
}

/* More than an owner gets at once. */
static void test_so_do_adoptions_that_were_not_sent(void **state)
{
	(void)state;
	owner_ends();
	for (uint64_t i = 1; i <= 2 * LANE_ORDERS; i++)
		adopt(i);
	next_owner();
	assert_int_equal(jobs.lane[0].count, LANE_ORDERS);
	owner_ends();
	assert_int_equal(jobs.pending, 0);
	adopt(1);
	jobs_fail(&jobs);
	pass();
	assert_int_equal(jobs.pending, 0);
	assert_int_equal(done_count, 0);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

static void release(uint64_t memory, int descriptor)
{
	struct job *job = job_new(ORDER_RELEASE, memory);

	job->descriptor = descriptor;
	jobs_submit(&jobs, job);
}

/* So the last close, which frees the memory and may take long, is never the broker's. */
static void test_a_release_passes_the_descriptor_on(void **state)
{
	unsigned before = descriptors();
	int descriptor;

	(void)state;
	release(7, dup(STDIN_FILENO));
	assert_int_equal(descriptors(), before); /* on its way: the broker has none */
	ordered(0, ORDER_RELEASE, 7, &descriptor);
	assert_true(descriptor > STDERR_FILENO);
	close(descriptor);
	release(8, dup(STDIN_FILENO));
	owner_ends();
	release(9, dup(STDIN_FILENO));
	next_owner();
	ordered(0, ORDER_RELEASE, 7, &descriptor);
	assert_int_equal(descriptor, -1);
	ordered(0, ORDER_RELEASE, 8, &descriptor);
	assert_int_equal(descriptor, -1); /* it ended with what the owner had not read */
	ordered(0, ORDER_RELEASE, 9, &descriptor);
	close(descriptor);
	owner_ends();
	release(10, dup(STDIN_FILENO));
	jobs_fail(&jobs);
	pass();
	assert_int_equal(jobs.pending, 0);
	assert_int_equal(descriptors(), before - LANES - LANES);
}

/* Before the broker has noticed it. */
static void test_a_release_that_an_ended_owner_did_not_get_keeps_its_descriptor(void **state)
{
	int descriptor;

	(void)state;
	shutdown(owners[0], SHUT_RDWR);
	release(7, dup(STDIN_FILENO));
	owner_ends();
	next_owner();
	ordered(0, ORDER_RELEASE, 7, &descriptor);
	assert_true(descriptor > STDERR_FILENO);
	close(descriptor);
}

static void ends_of(unsigned blame)
{
	owner_ends();
	jobs_blame(&jobs, blame);
	next_owner();
}

/* The others, and what other lanes do, go on. */
static void test_an_order_that_three_owners_crashed_at_fails(void **state)
{
	int none;

	(void)state;
	submit(ORDER_ALLOCATE, 0);
	submit(ORDER_RELEASE, 7);
	submit(ORDER_GONE, 0);
	ends_of(JOBS_CRASH);
	ends_of(JOBS_CRASH);
	ends_of(JOBS_KILL);
	pass();
	assert_int_equal(done_count, 0);
	ends_of(JOBS_CRASH);
	pass();
	assert_int_equal(done_count, 1);
	assert_int_equal(last.order.kind, ORDER_ALLOCATE);
	assert_int_equal(last.outcome.error, -EIO);
	assert_non_null(strstr(last.outcome.text, "again and again"));
	answer(0, ordered(0, ORDER_RELEASE, 7, &none), 0);
	assert_int_equal(last.outcome.error, 0);
	answer(1, ordered(1, ORDER_GONE, 0, &none), 0);
	assert_int_equal(last.outcome.error, 0);
	assert_int_equal(jobs.pending, 0);
}

/* A kernel that is out of memory ends by SIGKILL who has the most, again and again where one order is to blame. */
static void test_an_order_that_a_hundred_owners_were_killed_at_fails(void **state)
{
	(void)state;
	submit(ORDER_ZERO, 7);
	for (unsigned i = 1; i < 100; i++)
		ends_of(JOBS_KILL);
	pass();
	assert_int_equal(done_count, 0);
	ends_of(JOBS_KILL);
	pass();
	assert_int_equal(done_count, 1);
	assert_int_equal(last.outcome.error, -EIO);
}

/* Answers of all lanes count that were sent before the end of one was read. */
static void test_no_answer_is_lost_by_the_end_of_another_lane(void **state)
{
	const struct outcome outcome = { .descriptor = -1, .number = 1 };
	int none;

	(void)state;
	submit(ORDER_GONE, 0);
	assert_int_equal(ordered(1, ORDER_GONE, 0, &none), 1);
	assert_int_equal(packet_send(owners[1], &outcome, sizeof outcome, -1, 0), 0);
	jobs_lose(&jobs);
	jobs_lose(&jobs); /* once more does nothing */
	assert_int_equal(losses, 1);
	assert_int_equal(done_count, 1);
	assert_int_equal(jobs.pending, 0);
	owner_ends();
}

static void test_without_another_owner_each_job_fails(void **state)
{
	int none;

	(void)state;
	submit(ORDER_ROOM, 0);
	submit(ORDER_GONE, 0);
	ordered(0, ORDER_ROOM, 0, &none);
	owner_ends();
	jobs_fail(&jobs);
	assert_int_equal(done_count, 0);
	pass();
	assert_int_equal(done_count, 2);
	assert_int_equal(last.outcome.error, -EIO);
	assert_non_null(strstr(last.outcome.text, "has ended"));
	submit(ORDER_ALLOCATE, 0);
	assert_int_equal(done_count, 2);
	pass();
	assert_int_equal(done_count, 3);
	assert_int_equal(jobs.pending, 0);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, lanes_setup, lanes_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_the_next_owner_gets_what_was_not_answered),
		ON(test_what_was_answered_is_not_asked_again),
		ON(test_memory_of_an_owner_that_ended_is_free),
		ON(test_the_next_owner_adopts_memory_first),
		ON(test_an_adoption_ends_with_its_owner),
		ON(test_so_do_adoptions_that_were_not_sent),
		ON(test_a_release_passes_the_descriptor_on),
		ON(test_a_release_that_an_ended_owner_did_not_get_keeps_its_descriptor),
		ON(test_an_order_that_three_owners_crashed_at_fails),
		ON(test_an_order_that_a_hundred_owners_were_killed_at_fails),
		ON(test_no_answer_is_lost_by_the_end_of_another_lane),
		ON(test_without_another_owner_each_job_fails),
	};

	return cmocka_run_group_tests_name("jobs without an owner", tests, NULL, NULL);
}
