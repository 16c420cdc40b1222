/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-waiting.c - what all requests that wait have in common: they end when the broker stops, unless they outlast
 * that.
 */
#include "waiting-harness.h"

#include <errno.h>

#include "broker/request/drains.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_stop_ends_all_waits_but_drains),
	};

	return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
