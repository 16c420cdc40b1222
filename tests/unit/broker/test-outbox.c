/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-outbox.c - what a session leaves unread: so much may wait that what it asked for in good faith never cuts it
 * off, and what waits stays whole.
 *
 * What is cut off in the middle of something is test-session-cut.c's. session-harness.h is the world.
 */
#include "session-harness.h"

#include <stdio.h>
#include <sys/resource.h>

/* ---- messages with a descriptor, of which each costs the broker one ---- */

#define ALLOWED 16 /* messages with a descriptor, beside the notices that are due to the session */
#define USES    30 /* more than that, all under one grant */

static const char *name_of(int i)
{
	static char name[16];

	snprintf(name, sizeof name, "t%d", i);
	return name;
}

/* Small ones, in one memory, each with a page of its own that its grant carries. */
static void create_timelines(struct peer *peer)
{
	for (int i = 0; i < USES; i++) {
		struct wire_message message = named(WIRE_CREATE, 1, name_of(i));

		message.create.size = 100;
		message.create.flags = GPUB_TIMELINE;
		assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
	}
}

static void ask_unread(struct peer *peer, const char *name)
{
	const struct session *session = session_of(peer);
	struct wire_message message = named(WIRE_ACQUIRE, 1, name);
	uint64_t opened = broker.counters.uses_opened;

	say(peer->sock, &message);
	EXPECT_SOON(broker.counters.uses_opened == opened + 1 || session->state != SESSION_OPEN);
}

static void invariant_5_unread_descriptors_are_bounded_by_what_is_used(void **state)
{
	struct peer owner = join(), peer = join();
	const struct session *session = session_of(&peer);
	unsigned most = ALLOWED + 1 + USES; /* a notice for each use, and one for their grant */

	(void)state;
	create_timelines(&owner);
	fill_queue(&peer, 1);
	for (int i = 0; i < USES; i++)
		ask_unread(&peer, name_of(i));
	assert_int_equal(HASH_COUNT(session->grants.by_id), 1);
	assert_int_equal(session->outbox.descriptors, USES);
	/* what it has already is sent as often as it asks, and nothing else becomes due for it */
	while (session->state == SESSION_OPEN && session->outbox.descriptors < most)
		ask_unread(&peer, name_of(0));
	assert_int_equal(session->state, SESSION_OPEN);
	ask_unread(&peer, name_of(0));
	assert_int_equal(broker.counters.sessions_cut, 1);
	assert_int_equal(session->outbox.descriptors, 0);
	expect_served(&owner);
	part(&owner);
	bury(&peer);
}

/* A grant of a timeline carries its page: it is not sent without. */
static void test_a_message_never_goes_without_its_descriptor(void **state)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_CREATE, 1, "a");
	struct rlimit limit, none;

	(void)state;
	message.create.flags = GPUB_TIMELINE;
	say(peer.sock, &message);
	assert_int_equal(hear(peer.sock).type, WIRE_DONE);
	fill_queue(&peer, 3);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	message = named(WIRE_ACQUIRE, 2, "a");
	say(peer.sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	turn_some();
	assert_null(session_find(&broker, peer.session)->outbox.first);
	bury(&peer);
}

/* ---- messages without ---- */

/* Sends until the broker does not take more, or it is cut; true while it is not. */
static bool flood(int sock)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	int error = 0;

	for (int i = 0; i < 64 && !error; i++)
		error = socket_send(sock, &message, -1, MSG_DONTWAIT);
	turn();
	return !broker.counters.sessions_cut;
}

static void invariant_5_who_never_reads_is_cut_off(void **state)
{
	struct peer peer = join(), other = join();
	int turns = 0;

	(void)state;
	while (turns < PATIENCE_MS && flood(peer.sock))
		if (++turns % 16 == 0)
			expect_served(&other);
	assert_int_equal(broker.counters.sessions_cut, 1);
	assert_null(session_find(&broker, peer.session)->outbox.first);
	expect_served(&other);
	part(&peer);
	part(&other);
}

/* ---- what a user is charged with ---- */

#define USER 4001

/* Whoever leaves many sessions unread has no more for that than with one. */
static void invariant_5_what_waits_is_charged_to_its_user_and_refunded_once(void **state)
{
	struct peer peers[3], other = join_as(USER + 1);
	struct wire_message message;
	uint64_t each;

	(void)state;
	for (int i = 0; i < 3; i++)
		peers[i] = join_as(USER);
	fill_queue(&peers[0], 10);
	each = used(USER, RESOURCE_QUEUED) / 10;
	assert_in_range(each, WIRE_SIZE, 4 * WIRE_SIZE);
	broker.accounting->quotas.fallback.limit[RESOURCE_QUEUED] = 50 * each;
	fill_queue(&peers[1], 40);
	assert_true(used(USER, RESOURCE_QUEUED) == 50 * each);
	/* what another user does not read is another matter, and what is read is refunded */
	fill_queue(&other, 40);
	while (session_of(&peers[0])->outbox.count)
		hear(peers[0].sock);
	assert_true(used(USER, RESOURCE_QUEUED) == 40 * each);
	fill_queue(&peers[2], 10);
	message = named(WIRE_STAT, 1, "no-such");
	say(peers[2].sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_true(used(USER, RESOURCE_QUEUED) == 40 * each);
	/* those of it that read are served as before */
	while (heard_already(peers[0].sock, &message))
		;
	expect_served(&peers[0]);
	for (int i = 0; i < 3; i++)
		part(&peers[i]);
	EXPECT_SOON(!used(USER, RESOURCE_QUEUED));
	part(&other);
}

static void invariant_5_descriptors_that_wait_are_charged_to_their_user(void **state)
{
	struct peer owner = join(), peer = join_as(USER);
	const struct session *session = session_of(&peer);

	(void)state;
	create_timelines(&owner);
	session_of(&peer)->who.uid = 0; /* root, so that it may; it is charged as before */
	fill_queue(&peer, 1);
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = 5;
	for (int i = 0; i < 5; i++)
		ask_unread(&peer, name_of(i));
	assert_int_equal(used(USER, RESOURCE_DESCRIPTORS), 5);
	assert_int_equal(session->state, SESSION_OPEN);
	ask_unread(&peer, name_of(5));
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_int_equal(used(USER, RESOURCE_DESCRIPTORS), 0);
	assert_int_equal(used(USER, RESOURCE_QUEUED), 0);
	session_of(&peer)->who.uid = USER;
	part(&owner);
	bury(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_unread_descriptors_are_bounded_by_what_is_used),
		ON(test_a_message_never_goes_without_its_descriptor),
		ON(invariant_5_who_never_reads_is_cut_off),
		ON(invariant_5_what_waits_is_charged_to_its_user_and_refunded_once),
		ON(invariant_5_descriptors_that_wait_are_charged_to_their_user),
	};

	return cmocka_run_group_tests_name("outbox", tests, harness_group_setup, harness_group_teardown);
}
