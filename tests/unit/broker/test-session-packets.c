/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-packets.c - several wire messages in one packet: how they are read, how their answers are packed, and
 * which packets disconnect the client.
 *
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKET 16 /* messages: SOCKET_PACKET_MAX */

static void fill_packet(struct wire_message *packet, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		packet[i] = named(WIRE_STAT, 100 + i, "no-such");
}

/* Returns how many messages it held, each of which answers the next request. */
static unsigned receive_packet(int sock, uint64_t next)
{
	struct wire_message packet[PACKET + 1];
	ssize_t length = -1;

	for (int tries = 0; tries < PATIENCE_MS && length < 0; tries++) {
		run_pass();
		length = recv(sock, packet, sizeof packet, MSG_DONTWAIT);
	}
	assert_true(length > 0 && length % WIRE_SIZE == 0);
	for (unsigned i = 0; i < length / WIRE_SIZE; i++) {
		assert_int_equal(packet[i].type, WIRE_REFUSED);
		assert_int_equal(packet[i].request, next + i);
	}
	return (unsigned)(length / WIRE_SIZE);
}

/* Messages that come one by one are answered one by one, also if several wait. A packet is answered by a packet. */
static void test_a_packet_of_several_is_read_and_answered(void **state)
{
	struct wire_message packet[PACKET];
	struct peer peer = join();

	(void)state;
	fill_packet(packet, PACKET);
	for (unsigned i = 0; i < 3; i++)
		say(peer.sock, &packet[i]);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(receive_packet(peer.sock, 100 + i), 1);
	assert_int_equal(send(peer.sock, packet, sizeof packet, 0), sizeof packet);
	assert_int_equal(receive_packet(peer.sock, 100), PACKET);
	assert_int_equal(send(peer.sock, packet, 2 * WIRE_SIZE, 0), 2 * WIRE_SIZE);
	assert_int_equal(receive_packet(peer.sock, 100), 2);
	expect_served(&peer);
	part(&peer);
}

/* The kernel truncates what is longer than the longest packet, which its length shows. No message of it is handled. */
static void invariant_5_a_packet_of_no_whole_messages_disconnects(void **state)
{
	struct wire_message packet[PACKET + 1];

	(void)state;
	for (unsigned i = 0; i < PACKET + 1; i++)
		packet[i] = named(WIRE_CREATE, i, "ignored");
	expect_bytes_disconnect(packet, sizeof packet);
	expect_bytes_disconnect(packet, 2 * WIRE_SIZE + 1);
	expect_bytes_disconnect(packet, PACKET * WIRE_SIZE - 1);
}

/* The messages before it in the packet are handled. */
static void invariant_5_one_bad_message_of_a_packet_disconnects(void **state)
{
	struct wire_message packet[4];
	struct peer peer = join();

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		packet[i] = named(WIRE_CREATE, i, i < 2 ? "before" : "behind");
	packet[1].type = WIRE_NOTICE;
	assert_int_equal(send(peer.sock, packet, sizeof packet, 0), sizeof packet);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	EXPECT_SOON(registry_find(broker.registry, "before"));
	run_passes();
	assert_null(registry_find(broker.registry, "behind"));
	part(&peer);
}

/* Nothing is sent after the decision to disconnect, so the end looks the same whatever the client had asked before. */
static void test_what_comes_before_a_bad_message_is_not_answered(void **state)
{
	struct wire_message packet[2];
	struct peer peer = join();

	(void)state;
	packet[0] = named(WIRE_STAT, 1, "absent");
	packet[1] = named(WIRE_NOTICE, 2, "absent");
	assert_int_equal(send(peer.sock, packet, sizeof packet, 0), sizeof packet);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	expect_end(peer.sock);
	part(&peer);
}

static void invariant_5_a_greeting_comes_alone(void **state)
{
	struct wire_message packet[2];
	int sock = dial();

	(void)state;
	packet[0] = receive_message(sock);
	packet[0] = hello_to(&packet[0]);
	packet[1] = named(WIRE_CREATE, 1, "ignored");
	assert_int_equal(send(sock, packet, sizeof packet, 0), sizeof packet);
	assert_int_equal(receive_message(sock).refused.error, -EPROTO);
	expect_end(sock);
	close(sock);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_null(registry_find(broker.registry, "ignored"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_packet_of_several_is_read_and_answered),
		ON(invariant_5_a_packet_of_no_whole_messages_disconnects),
		ON(invariant_5_one_bad_message_of_a_packet_disconnects),
		ON(test_what_comes_before_a_bad_message_is_not_answered),
		ON(invariant_5_a_greeting_comes_alone),
	};

	return cmocka_run_group_tests_name("packets", tests, harness_group_setup, harness_group_teardown);
}
