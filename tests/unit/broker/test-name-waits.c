/* SPDX-License-Identifier: Apache-2.0 */
/* test-name-waits.c - requests that wait for a name are answered in order and in time, or refused if late. */
#include "waiting-harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/registry/mappings.h"
#include "broker/request/name-waits.h"
#include "broker/request/waking.h"
#include "common/error.h"

/* ---- acquires ---- */

static void test_name_wakes_all_who_wait_for_it_oldest_first_each_session_with_one_mapping(void **state)
{
	struct wire_message first, second, again;

	(void)state;
	wait_for_name(0, 10, "a", -1);
	wait_for_name(1, 11, "b", -1);
	wait_for_name(2, 12, "a", 60000);
	wait_for_name(0, 13, "a", -1);
	assert_int_equal(broker.waiting->count, 4);
	make_live("a");
	waking_name(&broker, "a");
	assert_int_equal(answer(0, &first), WIRE_GRANT);
	assert_int_equal(first.request, 10);
	assert_int_equal(answer(2, &second), WIRE_GRANT);
	assert_true(second.grant.mapping == first.grant.mapping + 1);
	assert_int_equal(answer(0, &again), WIRE_GRANT);
	assert_int_equal(again.request, 13);
	assert_true(again.grant.mapping == first.grant.mapping && again.grant.place == WIRE_NO_HANDLE);
	expect_silence(1);
	assert_int_equal(broker.waiting->count, 1);
	assert_int_equal(broker.registry->mapping_count, 2);
	forget(1);
}

static void test_acquire_expires_once_and_in_time(void **state)
{
	struct wire_message message;

	(void)state;
	wait_for_name(0, 10, "a", 200);
	wait_for_name(1, 11, "a", -1);
	loop_for(10);
	expect_silence(0);
	loop_for(300);
	assert_int_equal(answer(0, &message), WIRE_REFUSED);
	assert_int_equal(message.request, 10);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	assert_non_null(strstr(message.refused.text, "'a'"));
	assert_int_equal(broker.counters.refused_timeout, 1);
	make_live("a");
	waking_name(&broker, "a");
	expect_silence(0);
	expect_answer(1, WIRE_GRANT, 11);
	loop_for(40);
	expect_silence(1);
}

/* A session has numbers of its own. */
static void test_a_cancel_ends_one_wait(void **state)
{
	struct wire_message message;

	(void)state;
	wait_for_name(0, 10, "a", -1);
	wait_for_name(0, 11, "a", -1);
	wait_for_name(1, 10, "a", 60000);
	waiting_cancel(&broker, sessions[0].id, 10);
	message = expect_answer(0, WIRE_REFUSED, 10);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	waiting_cancel(&broker, sessions[0].id, 10);
	waiting_cancel(&broker, sessions[0].id, 12);
	waiting_cancel(&broker, sessions[2].id, 11);
	expect_silence(0);
	expect_silence(1);
	assert_int_equal(broker.waiting->count, 2);
	make_live("a");
	waking_name(&broker, "a");
	expect_answer(0, WIRE_GRANT, 11);
	expect_answer(1, WIRE_GRANT, 10);
	waiting_cancel(&broker, sessions[0].id, 11);
	expect_silence(0);
}

/* Rights are looked at when the buffer is there, and refused like any other's. */
static void test_woken_acquire_may_be_refused(void **state)
{
	struct wire_message message;
	struct buffer *buffer;

	(void)state;
	sessions[0].who.uid = getuid() + 1;
	wait_for_name(0, 10, "a", -1);
	buffer = make_live("a");
	waking_name(&broker, "a");
	assert_int_equal(answer(0, &message), WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EACCES);
	assert_int_equal(buffer->allocation->open, 0);
}

static void test_forgotten_acquires_get_nothing(void **state)
{
	(void)state;
	wait_for_name(0, 10, "a", 20);
	wait_for_name(1, 11, "a", 20);
	wait_for_name(0, 12, "b", -1);
	forget(0);
	assert_int_equal(broker.waiting->count, 1);
	loop_for(50);
	expect_silence(0);
	expect_answer(1, WIRE_REFUSED, 11);
	wait_for_name(0, 13, "a", -1);
	wait_for_name(2, 14, "a", -1);
	waiting_forget_all(&broker);
	assert_int_equal(broker.waiting->count, 0);
}

/* A session that is gone when its acquire is served is skipped. */
static void test_gone_session_is_passed_over(void **state)
{
	struct wire_acquire acquire = { .name = "a", .rights = GPUB_READ, .timeout_ms = -1 };

	(void)state;
	assert_int_equal(name_wait_acquire(&broker, 99, 10, &acquire), 0);
	acquire.timeout_ms = 10;
	strcpy(acquire.name, "b");
	assert_int_equal(name_wait_acquire(&broker, 99, 11, &acquire), 0);
	wait_for_name(0, 12, "a", -1);
	make_live("a");
	waking_name(&broker, "a");
	expect_answer(0, WIRE_GRANT, 12);
	assert_int_equal(broker.registry->mapping_count, 1);
	loop_for(30);
	assert_int_equal(broker.waiting->count, 0);
}

/* Nobody would receive the grant, so none is made. */
static void test_session_cut_off_is_passed_over(void **state)
{
	(void)state;
	wait_for_name(0, 10, "a", -1);
	wait_for_name(1, 11, "a", -1);
	sessions[0].state = SESSION_DISCONNECTED;
	make_live("a");
	waking_name(&broker, "a");
	expect_silence(0);
	expect_answer(1, WIRE_GRANT, 11);
	assert_int_equal(broker.registry->mapping_count, 1);
}

/* One session's flood ends at its limit, is dropped with it, and leaves the others their places in the queue. */
static void invariant_5_waits_are_bounded(void **state)
{
	struct wire_acquire acquire = { .rights = GPUB_READ, .timeout_ms = 60000 };

	(void)state;
	for (unsigned i = 0; i < 1024; i++) {
		snprintf(acquire.name, sizeof acquire.name, "n%u", i % 7);
		assert_int_equal(name_wait_acquire(&broker, sessions[0].id, i, &acquire), 0);
	}
	assert_int_equal(name_wait_acquire(&broker, sessions[0].id, 1, &acquire), -EDQUOT);
	assert_non_null(strstr(error_text(), "1024 acquires wait and this one has 1024"));
	strcpy(acquire.name, "other");
	assert_int_equal(name_wait_acquire(&broker, sessions[0].id, 1, &acquire), -EDQUOT);
	wait_for_name(1, 11, "n3", -1);
	forget(0);
	assert_int_equal(broker.waiting->count, 1);
	wait_for_name(0, 12, "n3", -1);
	make_live("n3");
	waking_name(&broker, "n3");
	expect_answer(1, WIRE_GRANT, 11);
	expect_answer(0, WIRE_GRANT, 12);
	assert_null(broker.waiting->names);
	assert_null(broker.waiting->waiters);
	assert_null(broker.waiting->by_request);
}

/* ---- questions for a newer buffer ---- */

static void wait_for_newer(unsigned i, uint64_t request, const char *name, uint64_t generation, int timeout_ms)
{
	struct wire_newer newer = { .generation = generation, .timeout_ms = timeout_ms };

	strcpy(newer.name, name);
	assert_int_equal(name_wait_newer(&broker, sessions[i].id, request, &newer), 0);
}

/* Unlinks the buffer, gives its name to another one, and wakes those who wait for the name. */
static void make_newer(const char *name)
{
	registry_unlink(broker.registry, registry_find(broker.registry, name));
	make_live(name);
	waking_name(&broker, name);
}

static void test_a_question_is_answered_when_the_name_is_anothers(void **state)
{
	struct buffer *buffer = make_live("a"), *next = make_live("next");
	uint64_t generation = buffer->serial;
	struct wire_message told;

	(void)state;
	wait_for_newer(0, 10, "a", generation, -1);
	wait_for_newer(1, 11, "b", 0, -1);
	wait_for_name(2, 12, "b", -1);
	registry_unlink(broker.registry, buffer);
	registry_rename(broker.registry, next, "a");
	waking_name(&broker, "a");
	told = expect_answer(0, WIRE_INFO, 10);
	assert_true(told.info.generation == next->serial && told.info.generation > generation);
	expect_silence(1);
	registry_rename(broker.registry, next, "b");
	waking_name(&broker, "b");
	expect_answer(1, WIRE_INFO, 11);
	expect_answer(2, WIRE_GRANT, 12);
	assert_null(broker.waiting->names);
	assert_null(broker.waiting->waiters);
}

static void test_a_question_expires_once_and_in_time(void **state)
{
	uint64_t generation = make_live("a")->serial;
	struct wire_refused refused;

	(void)state;
	wait_for_newer(0, 10, "a", generation, 100);
	wait_for_newer(1, 11, "a", generation, 60000);
	loop_for(5);
	expect_silence(0);
	loop_for(200);
	refused = expect_answer(0, WIRE_REFUSED, 10).refused;
	assert_int_equal(refused.error, -ETIMEDOUT);
	assert_non_null(strstr(refused.text, "no newer buffer 'a' appeared within 100 ms"));
	make_newer("a");
	expect_silence(0);
	expect_answer(1, WIRE_INFO, 11);
}

#define ASKING 40 /* more than are answered in one step, twice */

/*
 * Whoever is told asks for the next at once, while others are still to be told: it waits for the next buffer, and is
 * not told of this one again. Else a few dozen readers of one name would keep a broker busy for ever.
 */
static void invariant_5_who_asks_again_waits_for_the_next(void **state)
{
	uint64_t generation = make_live("a")->serial;
	struct wire_message message;
	unsigned told = 0, passes = 0;
	bool more = true;

	(void)state;
	for (unsigned i = 0; i < ASKING; i++)
		wait_for_newer(0, i, "a", 0, -1);
	waking_name(&broker, "a");
	for (; more && passes < ASKING; passes++) {
		for (; answer(0, &message); told++)
			wait_for_newer(0, message.request, "a", generation, -1);
		more = waking_more(&broker);
	}
	while (answer(0, &message))
		told++;
	assert_false(more);
	assert_int_equal(told, ASKING);
	/* those that are left wait in the order in which they came, and the first is not passed over */
	wait_for_newer(1, 11, "a", generation, -1);
	forget(0);
	make_newer("a");
	expect_answer(1, WIRE_INFO, 11);
	assert_null(broker.waiting->names);
}

static unsigned count_answers(unsigned i)
{
	struct wire_message message;
	unsigned count = 0;

	while (answer(i, &message))
		count++;
	return count;
}

/* Some of each name in turn: a crowd that waits for one holds up nobody else's. */
static void invariant_5_names_take_turns(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * ASKING; i++)
		wait_for_newer(i % 2, i, i % 2 ? "b" : "a", 0, -1);
	make_live("a");
	make_live("b");
	waking_name(&broker, "a");
	waking_name(&broker, "b");
	for (unsigned pass = 0; pass < 2; pass++) {
		assert_int_equal(count_answers(0), 16);
		assert_int_equal(count_answers(1), 16);
		assert_true(waking_more(&broker));
		assert_int_equal(waking_more(&broker), pass == 0);
	}
	assert_int_equal(count_answers(0) + count_answers(1), 2 * (ASKING - 32));
	assert_null(broker.waiting->names);
}

/*
 * A name that is gone before all were told is waited for, by those who were not. Who leaves, the last of them as well,
 * takes nobody along.
 */
static void test_who_is_left_waits_for_the_next_of_the_name(void **state)
{
	struct buffer *buffer = make_live("a");

	(void)state;
	for (unsigned i = 0; i < ASKING; i++)
		wait_for_newer(i == ASKING - 1 ? 1 : 0, i, "a", 0, -1);
	waking_name(&broker, "a");
	wait_for_newer(2, 12, "a", 0, -1);
	forget(1);
	registry_unlink(broker.registry, buffer);
	while (waking_more(&broker))
		;
	expect_silence(2);
	make_live("a");
	waking_name(&broker, "a");
	while (waking_more(&broker))
		;
	expect_answer(2, WIRE_INFO, 12);
	expect_silence(1);
	assert_null(broker.waiting->names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_name_wakes_all_who_wait_for_it_oldest_first_each_session_with_one_mapping),
		ON(test_acquire_expires_once_and_in_time),
		ON(test_a_cancel_ends_one_wait),
		ON(test_woken_acquire_may_be_refused),
		ON(test_forgotten_acquires_get_nothing),
		ON(test_gone_session_is_passed_over),
		ON(test_session_cut_off_is_passed_over),
		ON(invariant_5_waits_are_bounded),
		ON(test_a_question_is_answered_when_the_name_is_anothers),
		ON(test_a_question_expires_once_and_in_time),
		ON(invariant_5_who_asks_again_waits_for_the_next),
		ON(invariant_5_names_take_turns),
		ON(test_who_is_left_waits_for_the_next_of_the_name),
	};

	return cmocka_run_group_tests_name("waits for names", tests, NULL, NULL);
}
