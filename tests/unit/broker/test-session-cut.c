/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-cut.c - the broker disconnects a client while it reads from it, sends to it or has collected answers to
 * it: that takes effect at once, and on nobody else.
 *
 * How much a client may leave unread is test-outbox.c's. session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* ---- reading ---- */

static void invariant_5_garbage_disconnects(void **state)
{
	struct wire_message good = named(WIRE_STAT, 1, "a"), bad;
	char garbage[2 * WIRE_SIZE];

	(void)state;
	memset(garbage, 0xee, sizeof garbage);
	expect_bytes_disconnect(garbage, WIRE_SIZE);
	expect_bytes_disconnect(garbage, sizeof garbage);
	expect_bytes_disconnect(&good, WIRE_SIZE - 1);
	expect_bytes_disconnect(&good, 0);
	bad = good;
	bad.version++;
	expect_bytes_disconnect(&bad, sizeof bad);
	bad = good;
	memset(bad.name.name, 'x', sizeof bad.name.name);
	expect_bytes_disconnect(&bad, sizeof bad);
}

/* Well-formed, but no message of a client, or not at this time. */
static void invariant_5_messages_out_of_place_disconnect(void **state)
{
	static const enum wire_type types[] = { WIRE_CHALLENGE, WIRE_HELLO, WIRE_WELCOME, WIRE_DONE,
						WIRE_INFO,      WIRE_GRANT, WIRE_NOTICE,  WIRE_LEFT };
	struct wire_message message;

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		wire_init(&message, types[i], 1);
		expect_bytes_disconnect(&message, sizeof message);
	}
	wire_refuse(&message, 1, -EIO, "a client refuses");
	expect_bytes_disconnect(&message, sizeof message);
}

/* ---- sending ---- */

static struct wire_message large(const char *name, unsigned flags, int timeout_ms)
{
	struct wire_message message = named(WIRE_CREATE, 1, name);

	message.create.size = 160u << 20;
	message.create.flags = flags;
	message.create.timeout_ms = timeout_ms;
	return message;
}

/*
 * The notice of an unlink disconnects its reader, whose own request for memory ends with that: all during that unlink.
 */
static void invariant_5_a_notice_that_disconnects_does_not_change_the_registry(void **state)
{
	struct peer creator = join(), reader = join(), other = join();
	struct wire_message message = large("used", GPUB_EPHEMERAL, 0);

	(void)state;
	say(creator.sock, &message);
	assert_int_equal(receive_message(creator.sock).type, WIRE_DONE);
	acquire(&reader, "used");
	message = large("wanted", 0, -1);
	say(reader.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	/* a request that can never succeed is refused before one that may wait */
	message = large("of others", 0, 0);
	say(other.sock, &message);
	assert_int_equal(receive_message(other.sock).refused.error, -EINVAL);
	message = large("huge", 0, 0);
	message.create.size = 1ull << 40;
	say(other.sock, &message);
	assert_non_null(strstr(receive_message(other.sock).refused.text, "larger than the whole device"));
	message = large("late", 0, 0);
	say(other.sock, &message);
	assert_non_null(strstr(receive_message(other.sock).refused.text, "wait for memory"));
	fill_queue(&reader, 1024 + 2); /* two notices are due to it: one for its grant, one for its mapping */
	part(&creator);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	EXPECT_SOON(!broker.waiting->count);
	assert_null(registry_find(broker.registry, "wanted"));
	assert_null(registry_find(broker.registry, "used"));
	expect_served(&other);
	part(&other);
	bury(&reader);
}

/*
 * The answers fill its queue. From then on its socket is not read; libevent's debug mode (session-harness.c) finds
 * stale events.
 */
static void invariant_5_answers_that_disconnect_are_the_last(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_message message = named(WIRE_STAT, 1, "no-such");

	(void)state;
	fill_queue(&peer, 1024);
	for (int i = 0; i < 3; i++)
		say(peer.sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	run_passes();
	assert_int_equal(session_find(&broker, peer.session)->outbox.count, 0);
	expect_served(&other);
	part(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	expect_served(&other);
	part(&other);
}

/* Also when the packet used up its user's share: the session does not stay in the fair queue to be read. */
static void invariant_5_answers_that_disconnect_leave_nobody_in_the_queue(void **state)
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
	run_passes();
	assert_false(session_find(&broker, peer.session)->place.waits);
	part(&peer);
}

/*
 * Before an answer with a descriptor, the collected answers are sent. They disconnect the client, so that answer is not
 * sent.
 */
static void invariant_5_nothing_is_sent_after_a_disconnection(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_message packet[4];

	(void)state;
	packet[0] = named(WIRE_CREATE, 1, "page");
	packet[0].create.flags = GPUB_TIMELINE;
	say(other.sock, packet);
	assert_int_equal(receive_message(other.sock).type, WIRE_DONE);
	fill_queue(&peer, 1024);
	for (int i = 0; i < 3; i++)
		/* one more than the notices that are due for the mapping and its grant */
		packet[i] = named(WIRE_STAT, 2, "no-such");
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
		ON(invariant_5_garbage_disconnects),
		ON(invariant_5_messages_out_of_place_disconnect),
		ON(invariant_5_a_notice_that_disconnects_does_not_change_the_registry),
		ON(invariant_5_answers_that_disconnect_are_the_last),
		ON(invariant_5_answers_that_disconnect_leave_nobody_in_the_queue),
		ON(invariant_5_nothing_is_sent_after_a_disconnection),
	};

	return cmocka_run_group_tests_name("cutting", tests, harness_group_setup, harness_group_teardown);
}
