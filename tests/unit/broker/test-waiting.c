/* SPDX-License-Identifier: Apache-2.0 */
/* test-waiting.c - the end of all requests that wait: in time, also without memory, and when the broker stops. */
#include "waiting-harness.h"

#include <errno.h>

#include "broker/request/drains.h"
#include "broker/request/name-waits.h"
#include "tests/unit/broker/failing.h"

static void test_a_stop_ends_all_waits_but_drains(void **state)
{
	struct buffer *first = make_live("a"), *second = make_live("b");

	(void)state;
	assert_int_equal(drain_wait(&broker, first, sessions[0].id, 10, -1), 0);
	wait_for_name(0, 11, "c", -1);
	wait_for_name(1, 12, "c", -1);
	assert_int_equal(drain_wait(&broker, second, sessions[1].id, 13, -1), 0);
	assert_int_equal(broker.waiting->count, 4);
	waiting_forget_all(&broker);
	assert_int_equal(broker.waiting->count, 2);
	assert_null(broker.waiting->names);
	assert_int_equal(expect_answer(0, WIRE_REFUSED, 11).refused.error, -ENOENT);
	assert_int_equal(expect_answer(1, WIRE_REFUSED, 12).refused.error, -ENOENT);
	drain_ended(&broker, first->serial);
	drain_ended(&broker, second->serial);
	expect_answer(0, WIRE_DONE, 10);
	expect_answer(1, WIRE_DONE, 13);
}

/*
 * When the first of them is over, the timer is set to the next one. Without memory for that nobody would end the
 * request, so it is refused before its time.
 */
static void test_without_memory_for_a_timer_a_request_does_not_wait_for_ever(void **state)
{
	(void)state;
	wait_for_name(0, 10, "a", 1);
	wait_for_name(0, 11, "a", 60000);
	wait_for_name(0, 12, "a", 70000);
	wait_for_name(1, 13, "a", 60000);
	fail_after(0);
	loop_for(20);
	assert_true(fail_ended());
	assert_int_equal(expect_answer(0, WIRE_REFUSED, 10).refused.error, -ETIMEDOUT);
	assert_int_equal(expect_answer(0, WIRE_REFUSED, 11).refused.error, -ETIMEDOUT);
	/* there is memory again: the others wait, with a timer */
	expect_silence(0);
	expect_silence(1);
	assert_int_equal(broker.waiting->count, 2);
	for (const struct waiter *waiter = broker.waiting->waiters; waiter; waiter = waiter->hh.next)
		assert_true(evtimer_pending(waiter->timer, NULL));
	forget(0);
	forget(1);
}

/* There are so many waits, all of one session, and the first deadline is one of theirs. */
static void expect_waits(unsigned count)
{
	const struct waiter *waiter = broker.waiting->waiters;
	const struct wait *wait;

	assert_int_equal(broker.waiting->count, count);
	assert_int_equal(HASH_COUNT(broker.waiting->by_request), count);
	assert_int_equal(broker.waiting->names != NULL, count != 0);
	assert_int_equal(HASH_COUNT(waiter), count != 0);
	if (!waiter)
		return;
	for (wait = waiter->waits; wait && &wait->expires != deadlines_first(&waiter->deadlines); wait = wait->next)
		;
	assert_non_null(wait);
}

/* Each of the calls for memory fails once. Returns how many there were. */
static unsigned refusals_without_memory(unsigned others)
{
	struct wire_acquire acquire = { .rights = GPUB_READ, .timeout_ms = 60000, .name = "a" };
	unsigned calls = 0;

	for (;; calls++) {
		int error;

		fail_after(calls);
		error = name_wait_acquire(&broker, sessions[0].id, 10, &acquire);
		if (!fail_ended())
			break;
		if (error) {
			assert_int_equal(error, -ENOMEM);
			expect_waits(others);
		} else { /* what failed was not needed */
			expect_waits(others + 1);
			waiting_cancel(&broker, sessions[0].id, 10);
			expect_answer(0, WIRE_REFUSED, 10);
		}
	}
	expect_waits(others + 1);
	return calls;
}

static void test_without_memory_no_request_begins_to_wait(void **state)
{
	(void)state;
	assert_true(refusals_without_memory(0) >= 5);
	forget(0);
	/* another request of the session waits, whose deadline is later */
	wait_for_name(0, 9, "b", 70000);
	assert_true(refusals_without_memory(1) >= 2);
	forget(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_stop_ends_all_waits_but_drains),
		ON(test_without_memory_for_a_timer_a_request_does_not_wait_for_ever),
		ON(test_without_memory_no_request_begins_to_wait),
	};

	return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
