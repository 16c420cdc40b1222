/* SPDX-License-Identifier: Apache-2.0 */
/* test-drains.c - drains are answered when the memory is freed, or refused if it comes late. */
#include "waiting-harness.h"

#include <errno.h>
#include <string.h>

#include "broker/request/drains.h"
#include "broker/request/waking.h"

/* ---- drains ---- */

/* A buffer that is about to be unlinked, and a session that waits for its end. */
static struct buffer *drain(unsigned i, uint64_t request, int timeout_ms)
{
	struct buffer *buffer = make_live("a");

	assert_int_equal(drain_wait(&broker, buffer, sessions[i].id, request, timeout_ms), 0);
	assert_int_equal(broker.waiting->count, 1);
	return buffer;
}

static void test_a_drain_is_answered_once_by_the_free_alone(void **state)
{
	struct buffer *buffer = drain(0, 10, -1);

	(void)state;
	make_live("b");
	waking_name(&broker, "a");
	drain_ended(&broker, registry_find(broker.registry, "b")->serial);
	loop_for(10);
	expect_silence(0);
	drain_ended(&broker, buffer->serial);
	expect_answer(0, WIRE_DONE, 10);
	assert_int_equal(broker.waiting->count, 0);
	drain_ended(&broker, buffer->serial);
	expect_silence(0);
}

static void test_a_drain_expires_once_and_in_time(void **state)
{
	struct buffer *buffer = drain(0, 10, 100);
	struct wire_message message;

	(void)state;
	loop_for(5);
	expect_silence(0);
	loop_for(200);
	assert_int_equal(answer(0, &message), WIRE_REFUSED);
	assert_int_equal(message.request, 10);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	assert_non_null(strstr(message.refused.text, "'a'"));
	assert_int_equal(broker.waiting->count, 0);
	assert_null(broker.waiting->drains);
	drain_ended(&broker, buffer->serial);
	expect_silence(0);
}

static void test_a_drain_that_ends_in_time_does_not_expire(void **state)
{
	struct buffer *buffer = drain(0, 10, 20);

	(void)state;
	drain_ended(&broker, buffer->serial);
	expect_answer(0, WIRE_DONE, 10);
	loop_for(50);
	expect_silence(0);
	assert_int_equal(broker.counters.refused_timeout, 0);
}

static void test_drains_of_the_gone_and_the_cut_are_passed_over(void **state)
{
	struct buffer *buffer = make_live("a"), *late = make_live("b"), *cut = make_live("c");

	(void)state;
	assert_int_equal(drain_wait(&broker, buffer, 99, 10, -1), 0);
	assert_int_equal(drain_wait(&broker, late, 99, 11, 10), 0);
	assert_int_equal(drain_wait(&broker, cut, sessions[0].id, 12, 10), 0);
	sessions[0].state = SESSION_DISCONNECTED;
	drain_ended(&broker, buffer->serial);
	loop_for(30);
	expect_silence(0);
	assert_int_equal(broker.waiting->count, 0);
	assert_int_equal(broker.counters.refused_timeout, 0);
}

/* The session is gone: nobody waits any more, though the buffer is there yet. Others' drains go on. */
static void test_a_gone_sessions_drain_is_dropped(void **state)
{
	struct buffer *buffer = drain(0, 10, 20), *others = make_live("b");

	(void)state;
	assert_int_equal(drain_wait(&broker, others, sessions[1].id, 11, -1), 0);
	forget(0);
	assert_int_equal(broker.waiting->count, 1);
	drain_ended(&broker, buffer->serial);
	loop_for(40);
	expect_silence(0);
	waiting_forget_all(&broker);
	drain_ended(&broker, others->serial);
	expect_answer(1, WIRE_DONE, 11);
}

static void test_a_forgotten_drain_is_not_answered(void **state)
{
	(void)state;
	drain(0, 10, 10);
	waiting_deinit(&broker);
	assert_null(broker.waiting->drains);
	assert_int_equal(broker.waiting->count, 0);
	loop_for(30);
	expect_silence(0);
}

/* As when a job zeroes the buffer's range: the wait goes on without the buffer, and is answered or expires. */
static void test_a_drain_outlives_its_buffer(void **state)
{
	struct buffer *answered = drain(0, 10, -1), *expiring = make_live("b");
	uint64_t serial = answered->serial;

	(void)state;
	assert_int_equal(drain_wait(&broker, expiring, sessions[1].id, 11, 10), 0);
	registry_unlink(broker.registry, answered);
	registry_unlink(broker.registry, expiring);
	assert_null(broker.registry->serials);
	expect_silence(0);
	drain_ended(&broker, serial);
	expect_answer(0, WIRE_DONE, 10);
	loop_for(30);
	expect_answer(1, WIRE_REFUSED, 11);
	assert_null(broker.waiting->drains);
}

static void test_a_free_answers_the_drain(void **state)
{
	struct buffer *buffer = drain(0, 10, -1);

	(void)state;
	answers_drains = true;
	registry_unlink(broker.registry, buffer);
	expect_answer(0, WIRE_DONE, 10);
	assert_null(broker.waiting->drains);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_drain_is_answered_once_by_the_free_alone),
		ON(test_a_drain_expires_once_and_in_time),
		ON(test_a_drain_that_ends_in_time_does_not_expire),
		ON(test_drains_of_the_gone_and_the_cut_are_passed_over),
		ON(test_a_gone_sessions_drain_is_dropped),
		ON(test_a_forgotten_drain_is_not_answered),
		ON(test_a_drain_outlives_its_buffer),
		ON(test_a_free_answers_the_drain),
	};

	return cmocka_run_group_tests_name("drains", tests, NULL, NULL);
}
