/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-manage-drain-join.c - a drain of a name that drains already: which buffers it waits for, whose, and how many may.
 *
 * session-harness.h is the world; its peers take other users' names. The first drain of a name is test-manage-drain.c's.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWNER 4001
#define OTHER 4002
#define MANY  50

static void say_drain(const struct peer *peer, uint64_t request, int timeout_ms)
{
	struct wire_message message = named(WIRE_DRAIN, request, "a");

	message.drain.timeout_ms = timeout_ms;
	say(peer->sock, &message);
}

static void expect_answer(const struct peer *peer, uint64_t request, int error)
{
	struct wire_message message;

	do
		message = receive_message(peer->sock);
	while (message.type == WIRE_NOTICE);
	assert_int_equal(message.request, request);
	assert_int_equal(message.type, error ? WIRE_REFUSED : WIRE_DONE);
	if (error)
		assert_int_equal(message.refused.error, error);
}

static void expect_silence(const struct peer *peer)
{
	struct wire_message message;

	run_passes();
	assert_int_equal(received_already(peer->sock, &message), 0);
}

/* "a" has another buffer, which the holder maps, and drains. */
static struct wire_grant next_one(struct peer *owner, struct peer *holder)
{
	struct wire_grant grant;

	create_with_mode(owner, "a", 0666);
	grant = acquire(holder, "a");
	expect_done(owner, WIRE_UNLINK, "a");
	return grant;
}

static void test_a_second_drain_waits_with_the_first(void **state)
{
	struct peer owner = join(), beside = join(), holder = join();
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	grant = acquire(&holder, "a");
	say_drain(&owner, 1, -1);
	expect_silence(&owner);
	say_drain(&beside, 2, -1);
	say_drain(&owner, 3, -1);
	expect_silence(&beside);
	assert_int_equal(broker.waiting->count, 3);
	assert_int_equal(broker.counters.buffers_unlinked, 1);
	send_closed(holder.sock, grant.grant);
	expect_answer(&beside, 2, 0);
	expect_answer(&owner, 1, 0);
	expect_answer(&owner, 3, 0);
	assert_int_equal(broker.waiting->count, 0);
	say_drain(&owner, 4, -1);
	expect_answer(&owner, 4, -ENOENT);
	part(&owner);
	part(&beside);
	part(&holder);
}

static void test_a_drain_goes_on_where_one_was_too_late(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = next_one(&owner, &holder);

	(void)state;
	say_drain(&owner, 1, 10);
	expect_answer(&owner, 1, -ETIMEDOUT);
	say_drain(&owner, 2, 0);
	expect_answer(&owner, 2, -ETIMEDOUT);
	say_drain(&owner, 3, -1);
	expect_silence(&owner);
	send_closed(holder.sock, grant.grant);
	expect_answer(&owner, 3, 0);
	part(&owner);
	part(&holder);
}

/* All that had the name when it was asked, in whatever order they end. */
static void wait_for_three(int first, int second, int third)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grants[3];

	for (int i = 0; i < 3; i++)
		grants[i] = next_one(&owner, &holder);
	say_drain(&owner, 1, -1);
	send_closed(holder.sock, grants[first].grant);
	expect_silence(&owner);
	send_closed(holder.sock, grants[second].grant);
	expect_silence(&owner);
	send_closed(holder.sock, grants[third].grant);
	expect_answer(&owner, 1, 0);
	part(&owner);
	part(&holder);
}

static void test_all_that_had_the_name_are_waited_for(void **state)
{
	(void)state;
	wait_for_three(0, 1, 2);
	wait_for_three(2, 1, 0);
	wait_for_three(1, 2, 0);
	wait_for_three(1, 0, 2);
}

static void test_a_later_one_is_not_waited_for(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant before = next_one(&owner, &holder), behind;

	(void)state;
	say_drain(&owner, 1, -1);
	expect_silence(&owner);
	behind = next_one(&owner, &holder);
	send_closed(holder.sock, before.grant);
	expect_answer(&owner, 1, 0);
	send_closed(holder.sock, behind.grant);
	part(&owner);
	part(&holder);
}

/* The name means the buffer that has it. */
static void test_a_live_one_comes_first(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant before = next_one(&owner, &holder);

	(void)state;
	create_with_mode(&owner, "a", 0600);
	say_drain(&owner, 1, -1);
	expect_answer(&owner, 1, 0);
	say_drain(&owner, 2, -1);
	expect_silence(&owner);
	send_closed(holder.sock, before.grant);
	expect_answer(&owner, 2, 0);
	part(&owner);
	part(&holder);
}

/* ---- whose ---- */

static void test_only_its_owner_or_root_joins(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(OTHER), root = join_as(0);
	struct wire_grant grant = next_one(&owner, &owner);

	(void)state;
	say_drain(&other, 1, -1);
	expect_answer(&other, 1, -ENOENT);
	say_drain(&root, 2, -1);
	expect_silence(&root);
	send_closed(owner.sock, grant.grant);
	expect_answer(&root, 2, 0);
	part(&owner);
	part(&other);
	part(&root);
}

static void test_each_joins_its_own(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(OTHER), root = join_as(0);
	struct wire_grant first = next_one(&owner, &owner), second = next_one(&other, &other);

	(void)state;
	say_drain(&owner, 1, -1);
	say_drain(&other, 2, -1);
	say_drain(&root, 3, -1); /* the last one that had the name */
	expect_silence(&root);
	send_closed(other.sock, second.grant);
	expect_answer(&other, 2, 0);
	expect_answer(&root, 3, 0);
	expect_silence(&owner);
	send_closed(owner.sock, first.grant);
	expect_answer(&owner, 1, 0);
	part(&owner);
	part(&other);
	part(&root);
}

/* ---- many ---- */

static void invariant_5_many_are_answered_some_at_a_time(void **state)
{
	struct peer owner = join_as(OWNER), waiter = join_as(OWNER), holder = join_as(OWNER);
	struct wire_grant grant = next_one(&owner, &holder);
	unsigned before;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		say_drain(&waiter, i + 1, -1);
	EXPECT_SOON(broker.waiting->count == MANY);
	assert_int_equal(used(OWNER, RESOURCE_WAITS), MANY);
	send_closed(holder.sock, grant.grant);
	for (before = MANY; before; before = broker.waiting->count) {
		EXPECT_SOON(broker.waiting->count < before);
		assert_true(before - broker.waiting->count <= 32); /* as the buffer ends, and in the pass behind that */
	}
	for (unsigned i = 0; i < MANY; i++)
		expect_answer(&waiter, i + 1, 0);
	assert_int_equal(used(OWNER, RESOURCE_WAITS), 0);
	part(&owner);
	part(&waiter);
	part(&holder);
}

static void invariant_5_a_quota_bounds_them(void **state)
{
	struct quotas quotas = { 0 };
	struct peer owner = join_as(OWNER);
	struct wire_grant grant = next_one(&owner, &owner);

	(void)state;
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_WAITS] = 2;
	accounting_set_quotas(broker.accounting, &quotas);
	for (unsigned i = 1; i <= 3; i++)
		say_drain(&owner, i, -1);
	expect_answer(&owner, 3, -EDQUOT);
	send_closed(owner.sock, grant.grant);
	expect_answer(&owner, 1, 0);
	expect_answer(&owner, 2, 0);
	part(&owner);
}

/* ---- the end ---- */

static void test_who_joined_may_be_gone_before_the_end(void **state)
{
	struct peer owner = join(), gone = join(), holder = join();
	struct wire_grant grant = next_one(&owner, &holder);

	(void)state;
	say_drain(&gone, 1, -1);
	say_drain(&owner, 2, -1);
	EXPECT_SOON(broker.waiting->count == 2);
	part(&gone);
	EXPECT_SOON(broker.waiting->count == 1);
	send_closed(holder.sock, grant.grant);
	expect_answer(&owner, 2, 0);
	part(&owner);
	part(&holder);
}

static bool is_over;

static void note_the_end(void *context)
{
	(void)context;
	is_over = true;
}

static void test_a_broker_that_stops_answers_all_of_them(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = next_one(&owner, &holder);

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		say_drain(&owner, i + 1, -1);
	EXPECT_SOON(broker.waiting->count == MANY);
	broker_stop(&broker, note_the_end, NULL);
	send_closed(holder.sock, grant.grant);
	EXPECT_SOON(is_over);
	assert_int_equal(broker.waiting->count, 0);
	for (unsigned i = 0; i < MANY; i++)
		expect_answer(&owner, i + 1, 0);
	part(&owner);
	part(&holder);
}

static void test_a_broker_that_ends_forgets_them(void **state)
{
	struct peer owner = join(), holder = join();

	(void)state;
	next_one(&owner, &holder);
	say_drain(&owner, 1, -1);
	say_drain(&owner, 2, 60000);
	EXPECT_SOON(broker.waiting->count == 2);
	broker_end_now();
	board_unmap(&owner.board);
	board_unmap(&holder.board);
	close(owner.sock);
	close(holder.sock);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON(test_a_second_drain_waits_with_the_first),
		ON(test_a_drain_goes_on_where_one_was_too_late),
		ON(test_all_that_had_the_name_are_waited_for),
		ON(test_a_later_one_is_not_waited_for),
		ON(test_a_live_one_comes_first),
		ON(test_only_its_owner_or_root_joins),
		ON(test_each_joins_its_own),
		ON(invariant_5_many_are_answered_some_at_a_time),
		ON(invariant_5_a_quota_bounds_them),
		ON(test_who_joined_may_be_gone_before_the_end),
		ON(test_a_broker_that_stops_answers_all_of_them),
		ON(test_a_broker_that_ends_forgets_them),
	};

	return cmocka_run_group_tests(tests, harness_group_setup, harness_group_teardown);
}
