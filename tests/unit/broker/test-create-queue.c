/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-create-queue.c - creates that wait for memory are tried in order, each user's for itself; they expire in time;
 * and one that waits for others is passed.
 *
 * A broker with a real loop and device threads, but without sessions. What a device has is what the test writes into
 * the broker's tables, and its answer to the question for free memory: none, unless a test sets device_room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/core/broker.h"
#include "failing.h"
#include "owner-thread.h"

#define ALICE 4001
#define BOB   4002
#define MUCH  (1ull << 40)

static _Atomic uint64_t device_room; /* what the device says that it has */

static int tell_room(int ordinal, uint64_t *bytes)
{
	(void)ordinal;
	*bytes = device_room;
	return 0;
}

static const struct device fake = { .room = tell_room };
static struct broker broker;
static struct core parts;
static char story[64]; /* what the hooks were told, in order: r1 e2 ... */

static void lost(void *context)
{
	(void)context;
	fail_msg("the owner has ended");
}

static int setup(void **state)
{
	(void)state;
	story[0] = 0;
	device_room = 0;
	memset(&parts, 0, sizeof parts);
	broker_join(&broker, &parts);
	parts.pool.usages = &parts.memory.usages;
	broker.base = event_base_new();
	return !broker.base || owner_thread_begin_with(&parts.devices.owner, &fake, 2) ||
	       jobs_start(broker.jobs, broker.base, parts.devices.owner.lane, parts.devices.owner.lanes, lost, NULL);
}

/* No test leaves anybody in a queue. */
static int teardown(void **state)
{
	(void)state;
	jobs_stop(broker.jobs);
	owner_thread.end(&parts.devices.owner);
	tracking_deinit(broker.tracking);
	event_base_free(broker.base);
	return broker.waiting->count || broker.creates->by_key || broker.waiting->waiters ||
	       broker.creates->device[0].look || broker.creates->device[1].look;
}

/* ---- shorthands ---- */

static void loop_for(int ms)
{
	struct timeval end = { .tv_usec = ms * 1000 };

	event_base_loopexit(broker.base, &end);
	event_base_dispatch(broker.base);
}

/* The session is gone; or all are. */
static void forget(uint64_t session)
{
	while (waiting_forget(&broker, session))
		;
	create_wake_forgotten(&broker);
}

static void forget_all(void)
{
	waiting_forget_all(&broker);
	create_wake_forgotten(&broker);
}

static void on_retry(void *context)
{
	snprintf(story + strlen(story), sizeof story - strlen(story), "r%s ", (const char *)context);
}

static void on_expire(void *context)
{
	snprintf(story + strlen(story), sizeof story - strlen(story), "e%s ", (const char *)context);
}

static uint64_t requests; /* the number of the last wait */

static const struct create_hooks hooks = { on_retry, on_expire, NULL };

static struct create_wait *await(uid_t uid, uint64_t span, int timeout_ms, const char *who)
{
	struct allocation allocation = { .device = 0, .span = span, .slab.kind.owner = uid };
	struct create_wait *wait = NULL;

	assert_int_equal(create_wait(&broker, &allocation, (struct wait_key){ uid, ++requests }, timeout_ms, &hooks,
				     (void *)who, &wait),
			 0);
	return wait;
}

static void expect_story(const char *expected)
{
	assert_string_equal(story, expected);
	story[0] = 0;
}

/* ---- the tests ---- */

static void test_memory_goes_first_come_first_served(void **state)
{
	struct create_wait *first, *second;

	(void)state;
	assert_false(create_must_wait(&broker, 0, ALICE));
	first = await(ALICE, 0, -1, "1");
	second = await(ALICE, 0, 60000, "2");
	assert_true(create_must_wait(&broker, 0, ALICE));
	assert_false(create_must_wait(&broker, 1, ALICE));
	create_wake(&broker, 1);
	expect_story("");
	create_wake(&broker, 0);
	/* while it tries, nobody else does */
	create_wake(&broker, 0);
	expect_story("r1 ");
	/* not enough yet: it keeps its place, and the second still waits behind it */
	create_wait_failed(first);
	expect_story("");
	create_wake(&broker, 0);
	expect_story("r1 ");
	create_wait_over(first);
	expect_story("r2 ");
	create_wait_over(second);
	expect_story("");
	assert_false(create_must_wait(&broker, 0, ALICE));
}

/* A create that never fits holds up its own user only. */
static void invariant_5_each_user_has_its_own_queue(void **state)
{
	struct create_wait *greedy, *behind, *other;

	(void)state;
	greedy = await(ALICE, 0, -1, "1");
	behind = await(ALICE, 0, -1, "2");
	assert_true(create_must_wait(&broker, 0, ALICE));
	assert_false(create_must_wait(&broker, 0, BOB));
	other = await(BOB, 0, -1, "3");
	create_wake(&broker, 0);
	/* the first of each user tries */
	expect_story("r1 r3 ");
	create_wait_failed(greedy);
	create_wait_over(other);
	assert_false(create_must_wait(&broker, 0, BOB));
	create_wait_over(greedy);
	create_wait_over(behind);
}

/* The create behind the one that expired may need less memory: it is tried at once. */
static void test_expired_create_lets_the_next_try(void **state)
{
	struct create_wait *second;

	(void)state;
	await(ALICE, 0, 20, "1");
	second = await(ALICE, 0, -1, "2");
	loop_for(50);
	expect_story("e1 r2 ");
	create_wait_over(second);
}

/* As one whose time is over. */
static void test_cancelled_create_lets_the_next_try(void **state)
{
	struct create_wait *second;
	uint64_t first;

	(void)state;
	await(ALICE, 0, -1, "1");
	first = requests;
	second = await(ALICE, 0, -1, "2");
	waiting_cancel(&broker, ALICE, first);
	expect_story("e1 r2 ");
	/* while it tries, the outcome comes first */
	waiting_cancel(&broker, ALICE, requests);
	expect_story("");
	create_wait_failed(second);
	expect_story("e2 ");
}

/* The one outcome is the job's: an expiry meanwhile waits for it. */
static void test_expiry_while_trying_waits_for_the_outcome(void **state)
{
	struct create_wait *first, *second;

	(void)state;
	first = await(ALICE, 0, 20, "1");
	create_wake(&broker, 0);
	expect_story("r1 ");
	loop_for(50);
	expect_story("");
	create_wait_failed(first);
	expect_story("e1 ");
	second = await(ALICE, 0, 20, "2");
	create_wake(&broker, 0);
	loop_for(50);
	create_wait_over(second);
	expect_story("r2 ");
	loop_for(20);
	expect_story("");
}

static void test_forgotten_creates_expire(void **state)
{
	struct create_wait *trying, *third;

	(void)state;
	trying = await(ALICE, 0, -1, "1");
	create_wake(&broker, 0);
	await(BOB, 0, -1, "2");
	expect_story("r1 ");
	forget(BOB);
	expect_story("e2 ");
	forget(ALICE);
	/* it is on the device */
	expect_story("");
	third = await(BOB, 0, 10, "3");
	forget_all();
	expect_story("e3 ");
	(void)third;
	create_wait_failed(trying);
	expect_story("e1 ");
}

/* A quota of buffers may be thousands of them. */
static void invariant_5_others_are_woken_once_when_many_are_dropped(void **state)
{
	uint64_t wakes;

	(void)state;
	for (int i = 0; i < 3; i++)
		await(ALICE, 0, -1, "1");
	wakes = broker.creates->wakes;
	forget(ALICE);
	expect_story("e1 e1 e1 ");
	assert_int_equal(broker.creates->wakes, wakes + 1);
}

/* A create that nobody would wake is refused. The device is asked again also if there was no memory for the timer. */
static void test_without_memory_the_device_is_asked_all_the_same(void **state)
{
	struct allocation allocation = { .span = 10, .slab.kind.owner = ALICE };
	struct create_wait *wait;
	char who[] = "1";
	bool failed = true;
	int error;

	(void)state;
	for (unsigned calls = 0; failed; calls++) {
		fail_after(calls);
		error = create_wait(&broker, &allocation, (struct wait_key){ ALICE, 1 }, -1, &hooks, who, &wait);
		failed = fail_ended();
		assert_true(failed || !error);
		assert_int_equal(broker.waiting->count, !error);
		if (failed && !error)
			create_wait_over(wait);
	}
	fail_after(1); /* behind the job */
	loop_for(400);
	assert_true(fail_ended());
	device_room = 10;
	for (int i = 0; i < 50 && !*story; i++)
		loop_for(100);
	expect_story("r1 ");
	create_wait_over(wait);
}

/* ---- what cannot be satisfied ---- */

/* As long as there is not enough memory, no create is tried: a try is a call of the device, and may evict. */
static void test_no_create_is_tried_without_enough_memory(void **state)
{
	struct create_wait *wait;

	(void)state;
	wait = await(ALICE, 10, -1, "1");
	broker.pool->device[0].room = 9;
	create_wake(&broker, 0);
	expect_story("");
	broker.pool->device[0].returning = 1;
	create_wake(&broker, 0);
	expect_story("r1 ");
	create_wait_over(wait);
	/* what another create is short of is not there for this one */
	wait = await(ALICE, 10, -1, "1");
	broker.pool->device[0].claimed = 1;
	create_wake(&broker, 0);
	expect_story("");
	create_wait_over(wait);
}

/* Not even all that is its user's would do: it waits for others, and its user's own creates take nothing from it. */
static void test_who_waits_for_others_is_passed(void **state)
{
	struct create_wait *huge, *large, *small;

	(void)state;
	broker.pool->device[0].room = 10;
	huge = await(ALICE, MUCH, -1, "h");
	assert_false(create_must_wait(&broker, 0, ALICE));
	large = await(ALICE, 11, -1, "l");
	small = await(ALICE, 10, -1, "s");
	create_wake(&broker, 0);
	expect_story("rs ");
	/* one at a time */
	create_wake(&broker, 0);
	expect_story("");
	create_wait_over(small);
	expect_story("");
	/* and when there is enough for it, it is the first */
	small = await(ALICE, 10, -1, "s");
	broker.pool->device[0].room = MUCH;
	assert_true(create_must_wait(&broker, 0, ALICE));
	create_wake(&broker, 0);
	expect_story("rh ");
	create_wait_over(huge);
	expect_story("rl ");
	create_wait_over(large);
	expect_story("rs ");
	create_wait_over(small);
}

/* With what is its user's own it could be satisfied: small ones would take that for ever. */
static void test_who_waits_for_its_own_user_is_not_passed(void **state)
{
	struct usage *usage;
	struct create_wait *large, *small;

	(void)state;
	usage = usage_hold(&broker.memory->usages, 0, ALICE);
	usage->made = 20;
	broker.pool->device[0].room = 10;
	large = await(ALICE, 30, -1, "l");
	assert_true(create_must_wait(&broker, 0, ALICE));
	usage->made = 19;
	assert_false(create_must_wait(&broker, 0, ALICE));
	usage->made = 20;
	small = await(ALICE, 10, -1, "s");
	create_wake(&broker, 0);
	expect_story("");
	usage->made = 19;
	create_wake(&broker, 0);
	expect_story("rs ");
	create_wait_over(small);
	create_wait_over(large);
	usage_drop(&broker.memory->usages, usage);
}

/* It tried, and there was too little after all: one behind it may fit. */
static void test_a_try_that_failed_lets_others_pass(void **state)
{
	struct create_wait *large, *small;

	(void)state;
	broker.pool->device[0].room = 30;
	large = await(ALICE, 30, -1, "l");
	small = await(ALICE, 10, -1, "s");
	create_wake(&broker, 0);
	expect_story("rl ");
	pool_refused(&broker, 0, 30, 10);
	create_wait_failed(large);
	expect_story("rs ");
	create_wait_over(small);
	create_wait_over(large);
}

/* However many creates are queued in front, a wake scans a few of them. */
static void invariant_5_a_wake_scans_few_creates(void **state)
{
	struct create_wait *waits[65];

	(void)state;
	for (int i = 0; i < 64; i++)
		waits[i] = await(ALICE, MUCH, -1, "h");
	broker.pool->device[0].room = 10;
	waits[64] = await(ALICE, 10, -1, "s");
	create_wake(&broker, 0);
	expect_story("");
	assert_true(create_must_wait(&broker, 0, ALICE));
	create_wait_over(waits[0]);
	expect_story("rs ");
	create_wait_over(waits[64]);
	for (int i = 1; i < 64; i++)
		create_wait_over(waits[i]);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_memory_goes_first_come_first_served),
		ON(invariant_5_each_user_has_its_own_queue),
		ON(test_expired_create_lets_the_next_try),
		ON(test_cancelled_create_lets_the_next_try),
		ON(test_expiry_while_trying_waits_for_the_outcome),
		ON(test_forgotten_creates_expire),
		ON(invariant_5_others_are_woken_once_when_many_are_dropped),
		ON(test_without_memory_the_device_is_asked_all_the_same),
		ON(test_no_create_is_tried_without_enough_memory),
		ON(test_who_waits_for_others_is_passed),
		ON(test_who_waits_for_its_own_user_is_not_passed),
		ON(test_a_try_that_failed_lets_others_pass),
		ON(invariant_5_a_wake_scans_few_creates),
	};

	return cmocka_run_group_tests_name("create-queue", tests, NULL, NULL);
}
