/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-accounting-shares.c - what all users have together: a user that takes as much as it gets leaves room for a new
 * one, what is charged is refunded, and what is refused says what would help.
 *
 * The rule itself is test-accounting.c's. session-harness.h is the world; its peers take other users' names.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/registry/timeline.h"

#define FIRST  4001
#define SECOND 4002
#define THIRD  4003

static struct wire_message create_tiny(const char *name, unsigned flags)
{
	struct wire_message message = named(WIRE_CREATE, 77, name);

	message.create.size = 1;
	message.create.flags = flags;
	return message;
}

/* As many as it gets; the answer that refuses one more. */
static struct wire_message create_all(struct peer *peer, unsigned flags, unsigned *count)
{
	struct wire_message message, answer;
	char name[32];

	for (*count = 0;; ++*count) {
		snprintf(name, sizeof name, "u%llu/%u", (unsigned long long)peer->session, *count);
		message = create_tiny(name, flags);
		answer = answer_to(peer, &message);
		if (answer.type == WIRE_REFUSED)
			return answer;
	}
}

static void expect_text(const struct wire_message *refusal, const char *text)
{
	assert_int_equal(refusal->type, WIRE_REFUSED);
	assert_int_equal(refusal->refused.error, -EDQUOT);
	if (!strstr(refusal->refused.text, text))
		fail_msg("'%s' is not in '%s'", text, refusal->refused.text);
}

/* ---- the board ---- */

static void invariant_5_two_users_leave_words_of_the_board_for_a_third(void **state)
{
	struct peer first = join_as(FIRST), second = join_as(SECOND), third = join_as(THIRD);
	struct wire_message refusal;
	unsigned count;

	(void)state;
	accounting_set_capacity(broker.accounting, RESOURCE_BUFFERS, harness_buffers);
	refusal = create_all(&first, 0, &count);
	assert_int_equal(count, harness_buffers / 2);
	expect_text(&refusal,
		    "user 4001's share is 32 buffers now, of 64 for all users; it holds 32 and asks for 1 more");
	expect_text(&refusal, "have the administrator raise board.buffers in brokerd.conf(5)");
	create_all(&second, 0, &count);
	assert_int_equal(count, harness_buffers / 4);
	expect_done(&third, WIRE_CREATE, "third");
	part(&first);
	part(&second);
	part(&third);
}

/* Each takes all that it gets, of its own buffers, in memory of their own. Returns how many mappings that are. */
static unsigned map_all(struct peer *peer)
{
	struct wire_message message, answer = { 0 };
	unsigned count = 0;
	char name[32];

	for (; answer.type != WIRE_REFUSED; count += answer.type == WIRE_GRANT) {
		snprintf(name, sizeof name, "m%llu/%u", (unsigned long long)peer->session, count);
		message = create_tiny(name, GPUB_DEDICATED);
		assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
		answer = ask(peer, WIRE_ACQUIRE, name);
	}
	expect_text(&answer, "board.mappings");
	return count;
}

static void invariant_5_two_users_leave_places_of_the_board_for_a_third(void **state)
{
	struct peer first = join_as(FIRST), second = join_as(SECOND), third = join_as(THIRD);
	struct wire_grant grant;

	(void)state;
	accounting_set_capacity(broker.accounting, RESOURCE_MAPPINGS, 32);
	assert_int_equal(map_all(&first), 16);
	assert_int_equal(map_all(&second), 8);
	expect_done(&third, WIRE_CREATE, "third");
	grant = acquire(&third, "third");
	assert_int_equal(used(THIRD, RESOURCE_MAPPINGS), 1);
	send_closed(third.sock, grant.mapping);
	EXPECT_SOON(!used(THIRD, RESOURCE_MAPPINGS));
	hang_up_dying(&first);
	hang_up_dying(&second);
	EXPECT_SOON(!used(FIRST, RESOURCE_MAPPINGS) && !used(SECOND, RESOURCE_MAPPINGS));
	part(&third);
}

/* It stays in the accounting of the memory, and no longer has a place in the board. */
static void test_a_mapping_that_waits_for_its_process_has_no_place(void **state)
{
	struct peer owner = join_as(FIRST), reader = join_as(SECOND);
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0604);
	grant = acquire(&reader, "a");
	assert_int_equal(used(SECOND, RESOURCE_MAPPINGS), 1);
	send_closed(reader.sock, grant.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	assert_int_equal(used(SECOND, RESOURCE_MAPPINGS), 0);
	part(&owner);
	hang_up_dying(&reader);
}

/* ---- descriptors ---- */

#define OF_MEMORY 1 /* on the host device */

static void test_timelines_are_charged_to_whose_buffer_it_is(void **state)
{
	struct peer owner = join_as(FIRST);
	struct wire_message message = create_tiny("a", GPUB_TIMELINE | GPUB_DEDICATED), answer;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = TIMELINE_DESCRIPTORS + OF_MEMORY + 1;
	assert_int_equal(answer_to(&owner, &message).type, WIRE_DONE);
	assert_int_equal(used(FIRST, RESOURCE_DESCRIPTORS), TIMELINE_DESCRIPTORS + OF_MEMORY);
	message = create_tiny("b", GPUB_TIMELINE | GPUB_DEDICATED);
	answer = answer_to(&owner, &message);
	expect_text(&answer, "descriptors");
	assert_null(registry_find(broker.registry, "b"));
	assert_int_equal(used(FIRST, RESOURCE_BUFFERS), 1);
	/* another's from now on, with all that it costs */
	assert_int_equal(registry_change_owner(broker.registry, registry_find(broker.registry, "a"), SECOND), 0);
	assert_int_equal(used(FIRST, RESOURCE_DESCRIPTORS), 0);
	assert_int_equal(used(SECOND, RESOURCE_DESCRIPTORS), TIMELINE_DESCRIPTORS + OF_MEMORY);
	assert_int_equal(answer_to(&owner, &message).type, WIRE_DONE);
	/* a user over its quota gets nothing of it */
	assert_int_equal(registry_change_owner(broker.registry, registry_find(broker.registry, "b"), SECOND), -EDQUOT);
	assert_int_equal(used(SECOND, RESOURCE_BUFFERS), 1);
	assert_int_equal(used(FIRST, RESOURCE_DESCRIPTORS), TIMELINE_DESCRIPTORS + OF_MEMORY);
	expect_done(&owner, WIRE_UNLINK, "b");
	EXPECT_SOON(!used(FIRST, RESOURCE_DESCRIPTORS));
	part(&owner);
}

/* It is told, and its connection is gone: nothing of it stays, in the accounting or in the process. */
static void invariant_5_a_connection_without_descriptors_for_it_is_refused(void **state)
{
	struct peer peer = join();
	struct wire_message message;
	uint64_t before = used(geteuid(), RESOURCE_DESCRIPTORS);
	int sock;

	(void)state;
	assert_int_equal(before, 2);
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = before + 1;
	sock = dial();
	message = receive_message(sock);
	expect_text(&message, "may hold 3 descriptors, holds 2 and asks for 2 more");
	expect_end(sock);
	close(sock);
	assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), before);
	assert_int_equal(greeting(), 0);
	assert_int_equal(broker.counters.sessions_refused, 1);
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = before + 2;
	part(&peer);
	peer = join();
	part(&peer);
}

/* ---- which are bounded ---- */

static void test_where_there_is_one_user_it_may_have_all(void **state)
{
	(void)state;
	for (int i = 0; i < RESOURCES; i++)
		assert_true(!broker.accounting->capacity[i].all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_two_users_leave_words_of_the_board_for_a_third),
		ON(invariant_5_two_users_leave_places_of_the_board_for_a_third),
		ON(test_a_mapping_that_waits_for_its_process_has_no_place),
		ON(test_timelines_are_charged_to_whose_buffer_it_is),
		ON(invariant_5_a_connection_without_descriptors_for_it_is_refused),
		ON(test_where_there_is_one_user_it_may_have_all),
	};

	return cmocka_run_group_tests_name("shares", tests, harness_group_setup, harness_group_teardown);
}
