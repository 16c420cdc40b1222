/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-outbox.c - what a client leaves unread: enough may wait that a client is never disconnected for what it asked
 * for in good faith, and what waits stays whole.
 *
 * Disconnections in the middle of something are test-session-cut.c's. session-harness.h makes the broker and its
 * clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- messages with a descriptor: each grants one of the broker's ---- */

#define ALLOWED 512 /* messages with a descriptor */
#define GRANTS    30 /* all under one mapping */

static const char *name_of(int i)
{
	static char name[16];

	snprintf(name, sizeof name, "t%d", i);
	return name;
}

/* Small buffers in one allocation. Each has a page of its own, whose descriptor comes with its mapping. */
static void create_timelines(struct peer *peer)
{
	for (int i = 0; i < GRANTS; i++) {
		struct wire_message message = named(WIRE_CREATE, 1, name_of(i));

		message.create.size = 100;
		message.create.flags = GPUB_TIMELINE;
		assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
	}
}

static void ask_unread(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_ACQUIRE, 1, name);
	uint64_t opened = broker.counters.acquires_answered;

	say(peer->sock, &message);
	EXPECT_SOON(broker.counters.acquires_answered == opened + 1);
}

/* One more is refused, and the session goes on. */
static void ask_too_many(struct peer *peer, const char *name)
{
	const struct session *session = session_of(peer);
	struct wire_message message = named(WIRE_ACQUIRE, 1, name);
	uint64_t refused = broker.counters.refused_quota, opened = broker.counters.acquires_answered;

	say(peer->sock, &message);
	EXPECT_SOON(broker.counters.refused_quota == refused + 1);
	assert_int_equal(broker.counters.acquires_answered, opened);
	assert_int_equal(session->state, SESSION_OPEN);
}

static struct wire_message receive_page(int sock, int *page)
{
	struct wire_message message;
	struct socket_extra extra;

	assert_int_equal(receive_with(sock, &message, &extra), 0);
	*page = extra.fd;
	return message;
}

static void invariant_5_unread_descriptors_are_bounded_by_what_is_used(void **state)
{
	struct peer owner = join(), peer = join();
	const struct session *session = session_of(&peer);

	(void)state;
	create_timelines(&owner);
	fill_queue(&peer, 1);
	for (int i = 0; i < GRANTS; i++)
		ask_unread(&peer, name_of(i));
	assert_int_equal(HASH_COUNT(session->mappings.by_id), 1);
	assert_int_equal(session->outbox.descriptors, GRANTS);
	/* what it has already is sent again as often as it asks */
	while (session->outbox.descriptors < ALLOWED)
		ask_unread(&peer, name_of(0));
	ask_too_many(&peer, name_of(0));
	ask_too_many(&peer, name_of(1));
	assert_int_equal(session->outbox.descriptors, ALLOWED);
	expect_served(&owner);
	part(&owner);
	bury(&peer);
}

/* The kernel counts what is on its way to all sessions against the broker's limit of open files. */
static void invariant_5_few_descriptors_are_on_their_way_to_a_session(void **state)
{
	struct peer owner = join(), peer = join();
	const struct session *session = session_of(&peer);
	struct wire_message message;

	(void)state;
	create_timelines(&owner);
	for (int i = 0; i < GRANTS; i++)
		ask_unread(&peer, name_of(i));
	assert_int_equal(session->outbox.unread, OUTBOX_UNREAD);
	assert_int_equal(session->outbox.descriptors, GRANTS - OUTBOX_UNREAD);
	for (int i = 0; i < GRANTS; i++) { /* who reads gets them all, in order, each with its own */
		int page;

		message = receive_page(peer.sock, &page);
		assert_true(message.type == WIRE_GRANT && page >= 0 && message.request == (uint64_t)1);
		close(page);
	}
	assert_int_equal(session->outbox.descriptors, 0);
	expect_served(&peer);
	send_closed(peer.sock, message.grant.mapping);
	part(&owner);
	part(&peer);
}

/* A mapping of a timeline is not sent without the descriptor of its page. */
static void test_a_message_never_goes_without_its_descriptor(void **state)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_CREATE, 1, "a");
	struct rlimit limit, none;

	(void)state;
	message.create.flags = GPUB_TIMELINE;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).type, WIRE_DONE);
	fill_queue(&peer, 3);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	message = named(WIRE_ACQUIRE, 2, "a");
	say(peer.sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	run_passes();
	assert_null(session_find(&broker, peer.session)->outbox.first);
	bury(&peer);
}

/* ---- messages without ---- */

/* Sends until the broker takes no more. Returns false when it is disconnected. */
static bool flood(int sock)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	int error = 0;

	for (int i = 0; i < 64 && !error; i++)
		error = socket_send(sock, &message, -1, MSG_DONTWAIT);
	run_pass();
	return !broker.counters.sessions_cut;
}

static void invariant_5_a_client_that_never_reads_is_disconnected(void **state)
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

/* ---- what a user is charged for ---- */

#define USER 4001

/* With many sessions a user may leave no more unread than with one. */
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
	/* another user has its own quota, and what is read is refunded */
	fill_queue(&other, 40);
	while (session_of(&peers[0])->outbox.count)
		receive_message(peers[0].sock);
	assert_true(used(USER, RESOURCE_QUEUED) == 40 * each);
	fill_queue(&peers[2], 10);
	message = named(WIRE_STAT, 1, "no-such");
	say(peers[2].sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_true(used(USER, RESOURCE_QUEUED) == 40 * each);
	/* its sessions that read are served as before */
	while (received_already(peers[0].sock, &message))
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
	session_of(&peer)->who.uid = 0; /* root may acquire them; the user is charged as before */
	fill_queue(&peer, 1);
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = 5;
	for (int i = 0; i < 5; i++)
		ask_unread(&peer, name_of(i));
	assert_int_equal(used(USER, RESOURCE_DESCRIPTORS), 5);
	ask_too_many(&peer, name_of(5));
	assert_int_equal(used(USER, RESOURCE_DESCRIPTORS), 5);
	assert_int_equal(session->mappings.grant_count, 5);
	/* what it reads makes room */
	while (session->outbox.count)
		receive_message(peer.sock);
	assert_int_equal(used(USER, RESOURCE_DESCRIPTORS), 0);
	ask_unread(&peer, name_of(5));
	session_of(&peer)->who.uid = USER;
	part(&owner);
	bury(&peer);
	EXPECT_SOON(!used(USER, RESOURCE_DESCRIPTORS) && !used(USER, RESOURCE_QUEUED));
}

/* What the peer has read makes room, also where an answer of the same packet leaves before the descriptor. */
static void test_an_acquire_that_was_checked_is_sent(void **state)
{
	struct peer owner = join(), peer = join_as(USER);
	struct wire_message messages[] = { named(WIRE_STAT, 1, name_of(0)), named(WIRE_ACQUIRE, 2, "t2") };
	uint64_t opened;

	(void)state;
	create_timelines(&owner);
	session_of(&peer)->who.uid = 0; /* as above */
	for (int i = 0; i < OUTBOX_UNREAD; i++)
		ask_unread(&peer, name_of(i));
	for (int i = 0; i < OUTBOX_UNREAD; i++)
		receive_message(peer.sock);
	opened = broker.counters.acquires_answered;
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = used(USER, RESOURCE_DESCRIPTORS);
	assert_true(socket_send_many(peer.sock, messages, 2, 2, 0) > 0);
	EXPECT_SOON(broker.counters.acquires_answered == opened + 1);
	run_passes();
	assert_int_equal(broker.counters.sessions_cut, 0);
	assert_int_equal(receive_message(peer.sock).type, WIRE_INFO);
	assert_int_equal(receive_message(peer.sock).type, WIRE_GRANT);
	session_of(&peer)->who.uid = USER;
	part(&owner);
	bury(&peer);
}

/* A writer's page and a pidfd are sent as those of memory are: nothing is done for an answer that could not be sent. */
static void invariant_5_a_page_and_a_pidfd_need_a_descriptor(void **state)
{
	struct peer owner = join(), peer = join_as(USER);
	const struct grant *grant;
	struct wire_message writer, evict;

	(void)state;
	create_timelines(&owner);
	session_of(&peer)->who.uid = 0; /* as above */
	for (int i = 0; i < OUTBOX_UNREAD; i++)
		ask_unread(&peer, name_of(i));
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = used(USER, RESOURCE_DESCRIPTORS);
	grant = session_of(&peer)->mappings.grants;
	session_of(&peer)->mappings.grants->rights |= GPUB_WRITE;
	wire_init(&writer, WIRE_WRITER, 8);
	writer.grant_id.mapping = grant->mapping->id;
	writer.grant_id.serial = grant->buffer->serial;
	say(peer.sock, &writer);
	EXPECT_SOON(broker.counters.refused_quota == 1);
	assert_int_equal(grant->buffer->timeline->writer, 0);
	wire_init(&evict, WIRE_EVICT, 9);
	evict.evict.session = owner.session;
	say(peer.sock, &evict);
	EXPECT_SOON(broker.counters.refused_quota == 2);
	assert_int_equal(session_of(&owner)->state, SESSION_OPEN);
	session_of(&peer)->who.uid = USER;
	part(&owner);
	bury(&peer);
}

/* Reads all that has come, while the broker does nothing. Returns the number of the last request that is answered. */
static uint64_t read_all(int sock)
{
	struct wire_message message;
	struct socket_extra extra;
	uint64_t last = 0;

	while (!socket_receive(sock, &message, &extra, true, MSG_DONTWAIT))
		last = message.request;
	return last;
}

/*
 * The last answers of an outbox that waits for room may be of this pass, and what they tell of not published yet: an
 * event that the socket has room sends nothing, and the pass ends with a publication.
 */
static void invariant_12_what_waits_for_room_is_sent_after_it_is_published(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	while (!session->outbox.blocked) {
		session_done(session, 1, -1);
		run_pass();
	}
	session_done(session, 77, -1);
	assert_int_equal(read_all(peer.sock), 1);
	event_base_loop(broker.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(read_all(peer.sock), 0);
	run_pass();
	assert_int_equal(read_all(peer.sock), 77);
	expect_served(&peer);
	part(&peer);
}

/*
 * Who waits for room is told by the event alone: a message that the socket takes meanwhile may be sent when nothing
 * looks at who waits any more.
 */
static void test_room_is_told_when_the_peer_has_read(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	while (outbox_has_room(&session->outbox)) {
		session_done(session, 1, -1);
		sessions_send(&broker);
	}
	session_done(session, 1, -1);
	sessions_send(&broker);
	assert_int_equal(session->outbox.count, 0);
	assert_true(session->outbox.wanted);
	assert_int_equal(read_all(peer.sock), 1);
	run_pass();
	assert_false(session->outbox.wanted);
	part(&peer);
}

static bool has_no_room;

static int more_room(void *context, uint32_t slots)
{
	(void)context;
	(void)slots;
	return has_no_room ? -ENOMEM : 0;
}

/* Whoever has reserved none finds no slot, rather than one that is promised to an answer. */
static void test_promised_slots_are_kept_for_answers(void **state)
{
	static struct tracked tracked[200];
	struct tracking tracking = { .reserve = more_room };
	unsigned begun = 0;

	(void)state;
	memset(tracked, 0, sizeof tracked);
	has_no_room = false;
	assert_int_equal(tracking_reserve(&tracking, 2), 0);
	tracking.promised = 2;
	has_no_room = true;
	for (unsigned i = 0; i < 100; i++) {
		tracked_begin(&tracking, &tracked[i], TRACKED_WAIT);
		begun += tracked[i].number != 0;
	}
	assert_int_equal(begun, tracking.room - 2);
	assert_int_equal(tracking_reserve(&tracking, 1), -ENOMEM);
	for (unsigned i = 0; i < 2; i++) {
		tracking.promised--;
		tracked_begin(&tracking, &tracked[100 + i], TRACKED_OWED);
		assert_int_not_equal(tracked[100 + i].number, 0);
	}
	tracking_deinit(&tracking);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_unread_descriptors_are_bounded_by_what_is_used),
		ON(invariant_5_few_descriptors_are_on_their_way_to_a_session),
		ON(test_a_message_never_goes_without_its_descriptor),
		ON(invariant_5_a_client_that_never_reads_is_disconnected),
		ON(invariant_5_what_waits_is_charged_to_its_user_and_refunded_once),
		ON(invariant_5_descriptors_that_wait_are_charged_to_their_user),
		ON(test_an_acquire_that_was_checked_is_sent),
		ON(invariant_12_what_waits_for_room_is_sent_after_it_is_published),
		ON(test_room_is_told_when_the_peer_has_read),
		ON(test_promised_slots_are_kept_for_answers),
		ON(invariant_5_a_page_and_a_pidfd_need_a_descriptor),
	};

	return cmocka_run_group_tests_name("outbox", tests, harness_group_setup, harness_group_teardown);
}
