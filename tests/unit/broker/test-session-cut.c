/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-cut.c - a session that is cut off while it is heard, while it is sent to, or while answers to it are
 * staged: that is its end there and then, and nobody else's.
 *
 * How much may be left unread before is test-outbox.c's. session-harness.h is the world.
 */
#include "session-harness.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* ---- heard ---- */

static void invariant_5_garbage_is_cut_off(void **state)
{
	struct wire_message good = named(WIRE_STAT, 1, "a"), bad;
	char garbage[2 * WIRE_SIZE];

	(void)state;
	memset(garbage, 0xee, sizeof garbage);
	expect_bytes_cut(garbage, WIRE_SIZE);
	expect_bytes_cut(garbage, sizeof garbage);
	expect_bytes_cut(&good, WIRE_SIZE - 1);
	expect_bytes_cut(&good, 0);
	bad = good;
	bad.version++;
	expect_bytes_cut(&bad, sizeof bad);
	bad = good;
	memset(bad.name.name, 'x', sizeof bad.name.name);
	expect_bytes_cut(&bad, sizeof bad);
}

/* Well-formed, but not a client's to say, or not now. */
static void invariant_5_messages_out_of_place_are_cut_off(void **state)
{
	static const enum wire_type types[] = { WIRE_CHALLENGE, WIRE_HELLO, WIRE_WELCOME, WIRE_DONE,
						WIRE_INFO,      WIRE_GRANT, WIRE_NOTICE,  WIRE_LEFT };
	struct wire_message message;

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		wire_init(&message, types[i], 1);
		expect_bytes_cut(&message, sizeof message);
	}
	wire_refuse(&message, 1, -EIO, "a client refuses");
	expect_bytes_cut(&message, sizeof message);
}

/* ---- sent to ---- */

static struct wire_message large(const char *name, unsigned flags, int timeout_ms)
{
	struct wire_message message = named(WIRE_CREATE, 1, name);

	message.create.size = 160u << 20;
	message.create.flags = flags;
	message.create.timeout_ms = timeout_ms;
	return message;
}

/*
 * The notice of an unlink cuts its reader off, whose own request for memory is thereby over: all in the middle of that
 * unlink.
 */
static void invariant_5_a_notice_that_cuts_off_leaves_the_books_alone(void **state)
{
	struct peer creator = join(), reader = join(), other = join();
	struct wire_message message = large("held", GPUB_EPHEMERAL, 0);

	(void)state;
	say(creator.sock, &message);
	assert_int_equal(hear(creator.sock).type, WIRE_DONE);
	acquire(&reader, "held");
	message = large("wanted", 0, -1);
	say(reader.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	/* what can never be is said before what may come in time */
	message = large("of others", 0, 0);
	say(other.sock, &message);
	assert_int_equal(hear(other.sock).refused.error, -EINVAL);
	message = large("huge", 0, 0);
	message.create.size = 1ull << 40;
	say(other.sock, &message);
	assert_non_null(strstr(hear(other.sock).refused.text, "larger than the whole device"));
	message = large("late", 0, 0);
	say(other.sock, &message);
	assert_non_null(strstr(hear(other.sock).refused.text, "wait for memory"));
	fill_queue(&reader, 1024 + 2); /* the notices that are due to it: one of its use, one of its grant */
	part(&creator);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	EXPECT_SOON(!broker.waiting->count);
	assert_null(registry_find(broker.registry, "wanted"));
	assert_null(registry_find(broker.registry, "held"));
	expect_served(&other);
	part(&other);
	bury(&reader);
}

/*
 * The answers to what it said in one go are sent together, behind the last of them: it is cut off there, and is as little
 * watched or heard from then on as one that is cut off earlier. libevent's debug mode (session-harness.c) sees to it.
 */
static void invariant_5_answers_that_cut_off_are_the_end(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_message message = named(WIRE_STAT, 1, "no-such");

	(void)state;
	fill_queue(&peer, 1024);
	for (int i = 0; i < 3; i++)
		say(peer.sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	turn_some();
	assert_int_equal(session_find(&broker, peer.session)->outbox.count, 0);
	expect_served(&other);
	part(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	expect_served(&other);
	part(&other);
}

/* Nor does it wait to be heard on when with them its user's share of the pass was used up. */
static void invariant_5_answers_that_cut_off_leave_nobody_in_line(void **state)
{
	struct wire_message packet[SOCKET_PACKET_MAX];
	struct peer peer = join();

	(void)state;
	for (int i = 0; i < SOCKET_PACKET_MAX; i++)
		packet[i] = named(WIRE_STAT, 1, "no-such");
	fill_queue(&peer, 1024);
	assert_int_equal(send(peer.sock, packet, sizeof packet, 0), sizeof packet);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	EXPECT_SOON(!session_find(&broker, peer.session)->place.waits);
	turn_some();
	assert_false(session_find(&broker, peer.session)->place.waits);
	part(&peer);
}

/* The answer that has a descriptor has those before it sent first; they cut it off, and so nothing is sent behind them. */
static void invariant_5_nothing_is_sent_behind_what_cut_off(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_message packet[4];

	(void)state;
	packet[0] = named(WIRE_CREATE, 1, "page");
	packet[0].create.flags = GPUB_TIMELINE;
	say(other.sock, packet);
	assert_int_equal(hear(other.sock).type, WIRE_DONE);
	fill_queue(&peer, 1024);
	for (int i = 0; i < 3; i++)
		packet[i] = named(WIRE_STAT, 2, "no-such"); /* one more than the notices that the grant makes due */
	packet[3] = named(WIRE_ACQUIRE, 3, "page");
	assert_int_equal(send(peer.sock, packet, sizeof packet, 0), sizeof packet);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_int_equal(session_find(&broker, peer.session)->outbox.count, 0);
	assert_false(event_pending(session_find(&broker, peer.session)->outbox.writing, EV_WRITE, NULL));
	expect_served(&other);
	part(&other);
	bury(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_garbage_is_cut_off),
		ON(invariant_5_messages_out_of_place_are_cut_off),
		ON(invariant_5_a_notice_that_cuts_off_leaves_the_books_alone),
		ON(invariant_5_answers_that_cut_off_are_the_end),
		ON(invariant_5_answers_that_cut_off_leave_nobody_in_line),
		ON(invariant_5_nothing_is_sent_behind_what_cut_off),
	};

	return cmocka_run_group_tests_name("cutting", tests, harness_group_setup, harness_group_teardown);
}
