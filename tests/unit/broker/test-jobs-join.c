/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-jobs-join.c - the jobs of a broker whose owner has served another one: they wait until the owner has listed what
 * it has and has done, what it has done is not ordered again, and all else keeps its number. And how outcomes are
 * acknowledged.
 *
 * The test is the owner: it lists, receives the orders of the lanes and answers them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/packet.h"
#include "lanes-harness.h"

static struct listed told[32];
static unsigned told_of[32]; /* the lane of each */
static unsigned tellings;
static bool adopts; /* memory that was not listed, at the end of the list */
static bool releases; /* memory that nobody knows, at the end of the list */

static void listed(void *context, unsigned lane, const struct listed *what)
{
	assert_ptr_equal(context, &jobs);
	told[tellings] = *what;
	told_of[tellings++] = lane;
	if (what->kind == LISTED_END && lane == 0 && adopts)
		jobs_adopt(&jobs, job_new(ORDER_ADOPT, 5), STDIN_FILENO);
	if (what->kind == LISTED_END && lane == 0 && releases)
		jobs_submit_first(&jobs, job_new(ORDER_RELEASE, 6));
}

static int setup(void **state)
{
	tellings = 0;
	adopts = releases = false;
	return lanes_setup(state);
}

static int setup_join(void **state)
{
	int error = setup(state);

	jobs_join(&jobs, listed);
	return error;
}

static void submit_again(enum order_kind kind, uint64_t number, uint64_t memory)
{
	struct job *job = job_new(kind, memory);

	job->order.number = number;
	jobs_submit_again(&jobs, job);
}

/* Receives an order of that kind. */
static struct order ordered(unsigned lane, enum order_kind kind)
{
	int descriptor;
	struct order order = receive_order(lane, kind, &descriptor);

	assert_int_equal(descriptor >= 0, kind == ORDER_ADOPT);
	if (descriptor >= 0)
		close(descriptor);
	return order;
}

static void answer(unsigned lane, uint64_t number)
{
	send_answer(lane, number, 0);
	pass();
}

static void list_memory(uint64_t number)
{
	const struct listed memory = { .kind = LISTED_MEMORY, .memory = number, .size = 77, .exported = 1 };

	assert_int_equal(packet_send(owners[0], &memory, sizeof memory, -1, 0), 0);
}

static void list_outcome(enum order_kind kind, uint64_t number, int error, int descriptor)
{
	const struct listed outcome = { .kind = LISTED_OUTCOME,
					.order = kind,
					.memory = 7,
					.outcome = { .number = number, .error = error } };

	assert_int_equal(packet_send(owners[0], &outcome, sizeof outcome, descriptor, 0), 0);
}

static void list_end(unsigned lane)
{
	const struct listed end = { .kind = LISTED_END };

	assert_int_equal(packet_send(owners[lane], &end, sizeof end, -1, 0), 0);
	pass();
}

/* ---- the list ---- */

static void test_what_the_owner_lists_is_told(void **state)
{
	(void)state;
	list_memory(3);
	list_outcome(ORDER_ALLOCATE, 9, 0, STDIN_FILENO);
	list_outcome(ORDER_ZERO, 10, -EIO, -1);
	list_end(0);
	assert_int_equal(tellings, 4);
	assert_int_equal(told[0].kind, LISTED_MEMORY);
	assert_int_equal(told[0].memory, 3);
	assert_int_equal(told[0].size, 77);
	assert_int_equal(told[0].exported, 1);
	assert_int_equal(told[1].order, ORDER_ALLOCATE);
	assert_int_equal(told[1].outcome.number, 9);
	assert_true(told[1].outcome.descriptor > STDERR_FILENO);
	assert_int_equal(close(told[1].outcome.descriptor), 0);
	assert_int_equal(told[2].order, ORDER_ZERO);
	assert_int_equal(told[2].memory, 7);
	assert_int_equal(told[2].outcome.error, -EIO);
	assert_int_equal(told[2].outcome.descriptor, -1);
	assert_int_equal(told[3].kind, LISTED_END);
	list_end(1);
	assert_int_equal(told[4].kind, LISTED_END);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(told_of[i], i == 4);
}

/* A device that hangs, and so lists nothing, keeps no orders of others waiting. */
static void test_orders_wait_for_the_end_of_their_lanes_list(void **state)
{
	(void)state;
	submit(ORDER_ROOM, 0);
	submit(ORDER_GONE, 0);
	list_memory(3);
	pass();
	expect_nothing_ordered(0);
	expect_nothing_ordered(1);
	list_end(1);
	expect_nothing_ordered(0);
	ordered(1, ORDER_GONE);
	list_end(0);
	ordered(0, ORDER_ROOM);
}

/* Which may have more packets than one pass of the loop reads. */
static void test_a_long_list_is_read_in_several_passes(void **state)
{
	(void)state;
	submit(ORDER_ROOM, 0);
	for (unsigned i = 1; i <= LANE_ORDERS + 5; i++)
		list_memory(i);
	assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_int_equal(tellings, LANE_ORDERS);
	list_end(0);
	assert_int_equal(tellings, LANE_ORDERS + 6);
	ordered(0, ORDER_ROOM);
}

static void test_what_was_done_is_not_ordered_again(void **state)
{
	(void)state;
	submit_again(ORDER_ZERO, 10, 7);
	submit_again(ORDER_RELEASE, 12, 8);
	list_outcome(ORDER_ZERO, 10, -EIO, -1);
	list_end(0);
	assert_int_equal(tellings, 1);
	assert_int_equal(done_count, 1);
	assert_int_equal(last.order.number, 10);
	assert_int_equal(last.outcome.error, -EIO);
	assert_int_equal(ordered(0, ORDER_RELEASE).number, 12);
	expect_nothing_ordered(0);
	assert_int_equal(jobs.pending, 1);
	assert_int_equal(jobs.answered, 1);
	answer(0, 12);
	assert_int_equal(jobs.pending, 0);
}

static void test_new_memory_comes_with_its_descriptor(void **state)
{
	(void)state;
	submit_again(ORDER_ALLOCATE, 10, 10);
	list_outcome(ORDER_ALLOCATE, 10, 0, STDIN_FILENO);
	pass();
	assert_int_equal(done_count, 1);
	assert_true(last.outcome.descriptor > STDERR_FILENO);
	assert_int_equal(close(last.outcome.descriptor), 0);
}

/* As the answer would have been: the owner does not know the memory, which has ended with an owner before. */
static void test_a_release_of_unknown_memory_is_done(void **state)
{
	unsigned before = descriptors();
	struct job *job = job_new(ORDER_RELEASE, 7);

	(void)state;
	job->order.number = 10;
	job->descriptor = dup(STDIN_FILENO);
	jobs_submit_again(&jobs, job);
	list_outcome(ORDER_RELEASE, 10, -ENOENT, -1);
	pass();
	assert_int_equal(done_count, 1);
	assert_int_equal(last.outcome.error, 0);
	assert_int_equal(descriptors(), before);
}

static void list_without_descriptors(uint64_t number)
{
	struct rlimit before, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	list_outcome(ORDER_ALLOCATE, number, 0, STDIN_FILENO);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	list_end(0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_memory_without_a_descriptor_is_freed(void **state)
{
	struct order order;

	(void)state;
	submit_again(ORDER_ALLOCATE, 10, 10);
	list_without_descriptors(10);
	assert_int_equal(done_count, 0);
	order = ordered(0, ORDER_RELEASE);
	assert_int_equal(order.memory, 10);
	assert_int_equal(order.acknowledged, 10);
	answer(0, order.number);
	assert_int_equal(last.order.kind, ORDER_ALLOCATE);
	assert_int_equal(last.outcome.error, -EMFILE);
}

static void test_or_told_of_as_such(void **state)
{
	(void)state;
	list_without_descriptors(10);
	assert_int_equal(told[0].outcome.descriptor, -EMFILE);
}

/* ---- numbers ---- */

static void test_numbers_go_on(void **state)
{
	(void)state;
	submit_again(ORDER_ZERO, 40, 7);
	submit_again(ORDER_ZERO, 30, 8);
	submit(ORDER_ALLOCATE, 0);
	list_end(0);
	assert_int_equal(ordered(0, ORDER_ALLOCATE).number, 41);
	assert_int_equal(ordered(0, ORDER_ZERO).number, 40);
	assert_int_equal(ordered(0, ORDER_ZERO).number, 30);
	jobs.numbers = 100;
	submit(ORDER_RELEASE, 9);
	assert_int_equal(ordered(0, ORDER_RELEASE).number, 101);
}

/* The list has ended, or the owner is a new one that lists nothing. */
static void test_a_job_that_comes_late_keeps_its_number(void **state)
{
	(void)state;
	list_end(0);
	submit_again(ORDER_ZERO, 40, 7);
	assert_int_equal(ordered(0, ORDER_ZERO).number, 40);
	owner_ends();
	submit_again(ORDER_ZERO, 50, 8);
	next_owner();
	assert_int_equal(ordered(0, ORDER_ZERO).number, 40);
	assert_int_equal(ordered(0, ORDER_ZERO).number, 50);
}

static void test_each_user_has_a_turn_with_old_jobs_too(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 4; i++) {
		struct job *job = job_new(ORDER_ZERO, i);

		job->order.number = i;
		job->order.uid = i == 4 ? 2 : 1;
		jobs_submit_again(&jobs, job);
	}
	list_end(0);
	assert_int_equal(ordered(0, ORDER_ZERO).number, 1);
	assert_int_equal(ordered(0, ORDER_ZERO).number, 4);
}

/* ---- adoption ---- */

/* The broker before had no time to have it adopted. */
static void test_what_is_not_listed_is_adopted_first(void **state)
{
	(void)state;
	adopts = true;
	submit(ORDER_ZERO, 5);
	submit_again(ORDER_ZERO, 40, 5);
	list_end(0);
	assert_int_equal(ordered(0, ORDER_ADOPT).memory, 5);
	ordered(0, ORDER_ZERO);
	ordered(0, ORDER_ZERO);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

/* Creates that wait can have it then. */
static void test_what_nobody_knows_is_released_first(void **state)
{
	struct order order;

	(void)state;
	adopts = releases = true;
	submit(ORDER_ZERO, 5);
	submit_again(ORDER_ZERO, 40, 5);
	list_end(0);
	order = ordered(0, ORDER_RELEASE);
	assert_int_equal(order.memory, 6);
	assert_true(order.number > 40);
	ordered(0, ORDER_ADOPT);
	ordered(0, ORDER_ZERO);
	answer(0, order.number);
	assert_int_equal(done_count, 1);
	assert_int_equal(last.order.memory, 6);
}

/* ---- the owner's end, and the broker's ---- */

static void test_an_owner_that_ends_before_its_list_has(void **state)
{
	(void)state;
	submit_again(ORDER_ZERO, 10, 7);
	submit_again(ORDER_ZERO, 11, 8);
	list_outcome(ORDER_ZERO, 10, 0, -1);
	pass();
	assert_int_equal(done_count, 1);
	owner_ends();
	assert_int_equal(losses, 1);
	assert_int_equal(jobs.pending, 1);
	next_owner();
	assert_int_equal(ordered(0, ORDER_ZERO).number, 11); /* the next one is new, and lists nothing */
	assert_int_equal(tellings, 0);
}

/* What the owner lists of a lane is over when another lane has ended. */
static void test_a_list_ends_with_any_lane(void **state)
{
	unsigned before = descriptors();

	(void)state;
	list_outcome(ORDER_ALLOCATE, 10, 0, STDIN_FILENO);
	jobs_lose(&jobs);
	assert_int_equal(tellings, 0);
	assert_int_equal(losses, 1);
	owner_ends();
	assert_int_equal(descriptors(), before - 2 * LANES);
}

/* The list and the orders' end are waited for, and nobody is told any more. */
static void test_a_stop_while_the_owner_lists(void **state)
{
	unsigned before = descriptors();
	struct job *job = job_new(ORDER_RELEASE, 7);

	(void)state;
	job->order.number = 10;
	job->descriptor = dup(STDIN_FILENO);
	jobs_submit_again(&jobs, job);
	submit_again(ORDER_RELEASE, 11, 8);
	submit(ORDER_ROOM, 0);
	list_memory(3);
	list_outcome(ORDER_ALLOCATE, 9, 0, STDIN_FILENO);
	list_outcome(ORDER_RELEASE, 10, 0, -1);
	assert_int_equal(packet_send(owners[0], &(struct listed){ .kind = LISTED_END }, sizeof(struct listed), -1, 0),
			 0);
	jobs_stop(&jobs);
	assert_int_equal(ordered(0, ORDER_RELEASE).number, 11);
	ordered(0, ORDER_ROOM);
	assert_int_equal(tellings + done_count, 0);
	assert_int_equal(descriptors(), before);
	jobs_begin();
}

/* ---- acknowledgement ---- */

static void test_an_order_acknowledges_what_was_done_before(void **state)
{
	uint64_t first, second;

	(void)state;
	submit(ORDER_ZERO, 7);
	submit(ORDER_ZERO, 8);
	first = ordered(0, ORDER_ZERO).number;
	second = ordered(0, ORDER_ZERO).number;
	submit(ORDER_ROOM, 0);
	assert_int_equal(ordered(0, ORDER_ROOM).acknowledged, 0);
	answer(0, first);
	submit(ORDER_ROOM, 0);
	assert_int_equal(ordered(0, ORDER_ROOM).acknowledged, first);
	answer(0, second);
	submit(ORDER_GONE, 0);
	assert_int_equal(ordered(1, ORDER_GONE).acknowledged, 0); /* another lane */
	submit(ORDER_ZERO, 9);
	assert_int_equal(ordered(0, ORDER_ZERO).acknowledged, second);
}

/* The owner keeps no answer to a question, so there is nothing to forget. */
static void test_questions_are_not_acknowledged(void **state)
{
	uint64_t zero;

	(void)state;
	submit(ORDER_ZERO, 7);
	zero = ordered(0, ORDER_ZERO).number;
	answer(0, zero);
	submit(ORDER_ROOM, 0);
	answer(0, ordered(0, ORDER_ROOM).number);
	submit(ORDER_ROOM, 0);
	assert_int_equal(ordered(0, ORDER_ROOM).acknowledged, zero);
}

static void test_what_was_listed_is_acknowledged(void **state)
{
	(void)state;
	submit_again(ORDER_ZERO, 11, 7);
	list_outcome(ORDER_ZERO, 10, 0, -1);
	list_outcome(ORDER_ZERO, 11, 0, -1);
	list_end(0);
	submit(ORDER_ROOM, 0);
	assert_int_equal(ordered(0, ORDER_ROOM).acknowledged, 11);
	owner_ends();
	next_owner();
	assert_int_equal(ordered(0, ORDER_ROOM).acknowledged, 0); /* this owner has kept nothing */
}

static void submit_from_done(struct job *job)
{
	submit(ORDER_ZERO, 99);
	expect_nothing_ordered(0);
	note_done(job);
}

/* What is being handled counts: else the owner would have to keep more than LANE_ORDERS outcomes. */
static void test_an_order_counts_until_its_outcome_is_handled(void **state)
{
	struct order order;
	struct job *job = job_new(ORDER_ZERO, 1);
	uint64_t first;

	(void)state;
	job->done = submit_from_done;
	jobs_submit(&jobs, job);
	for (unsigned i = 0; i < LANE_ORDERS; i++)
		submit(ORDER_ZERO, i + 2);
	first = ordered(0, ORDER_ZERO).number;
	for (unsigned i = 1; i < LANE_ORDERS; i++)
		ordered(0, ORDER_ZERO);
	expect_nothing_ordered(0);
	answer(0, first);
	order = ordered(0, ORDER_ZERO);
	assert_int_equal(order.memory, LANE_ORDERS + 1);
	assert_int_equal(order.acknowledged, first);
	expect_nothing_ordered(0);
	assert_int_equal(jobs.lane[0].count, LANE_ORDERS);
}

#define ON(name)   cmocka_unit_test_setup_teardown(name, setup, lanes_teardown)
#define JOIN(name) cmocka_unit_test_setup_teardown(name, setup_join, lanes_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOIN(test_what_the_owner_lists_is_told),
		JOIN(test_orders_wait_for_the_end_of_their_lanes_list),
		JOIN(test_a_long_list_is_read_in_several_passes),
		JOIN(test_what_was_done_is_not_ordered_again),
		JOIN(test_new_memory_comes_with_its_descriptor),
		JOIN(test_a_release_of_unknown_memory_is_done),
		JOIN(test_memory_without_a_descriptor_is_freed),
		JOIN(test_or_told_of_as_such),
		JOIN(test_numbers_go_on),
		JOIN(test_a_job_that_comes_late_keeps_its_number),
		JOIN(test_each_user_has_a_turn_with_old_jobs_too),
		JOIN(test_what_is_not_listed_is_adopted_first),
		JOIN(test_what_nobody_knows_is_released_first),
		JOIN(test_an_owner_that_ends_before_its_list_has),
		JOIN(test_a_list_ends_with_any_lane),
		JOIN(test_a_stop_while_the_owner_lists),
		ON(test_an_order_acknowledges_what_was_done_before),
		ON(test_questions_are_not_acknowledged),
		JOIN(test_what_was_listed_is_acknowledged),
		ON(test_an_order_counts_until_its_outcome_is_handled),
	};

	return cmocka_run_group_tests_name("jobs of a broker that joins an owner", tests, NULL, NULL);
}
