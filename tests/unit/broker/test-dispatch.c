/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-dispatch.c - each row of the table of messages (common/wire.h) against the broker: who may send what when, and
 * what answers it.
 *
 * session-harness.h makes the broker and its clients. A row that is added is tested without a change here.
 */
#include "session-harness.h"

#include <sys/socket.h>

#include "broker/session/session.h"

#define REQUEST 900

static bool is_a_request(unsigned type)
{
	const struct wire_row *row = wire_row(type);

	return row->sender == WIRE_CLIENT && !(row->traits & (WIRE_GREETS | WIRE_OWED));
}

static bool is_cut(const struct peer *peer)
{
	return session_of(peer)->state == SESSION_DISCONNECTED;
}

static void send_type(const struct peer *peer, unsigned type)
{
	struct wire_message message = named(type, REQUEST, "no-such");

	say(peer->sock, &message);
	run_passes();
}

/*
 * One answer comes, of the type that the row has, or a refusal; or none does. A SNAPSHOT's PARTs come before its
 * answer.
 */
static void expect_answered(const struct peer *peer, const struct wire_row *row)
{
	static struct socket_packet packet;
	unsigned answers = 0;

	while (!socket_receive_packet(peer->sock, &packet, true, MSG_DONTWAIT)) {
		for (unsigned i = 0; i < packet.count; i++) {
			unsigned type = packet.message[i].type;

			if (type == WIRE_PART)
				continue;
			assert_int_equal(packet.message[i].request, REQUEST);
			assert_true(type == WIRE_REFUSED || type == row->answer);
			answers++;
		}
		run_passes();
	}
	assert_int_equal(answers, row->answer != WIRE_NONE);
}

static void test_each_request_has_a_handler_and_an_answer(void **state)
{
	(void)state;
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		struct peer peer;

		if (!is_a_request(type))
			continue;
		peer = join();
		send_type(&peer, type);
		assert_false(is_cut(&peer));
		if (type != WIRE_REFRESH) /* answered when others have answered */
			expect_answered(&peer, wire_row(type));
		part(&peer);
	}
}

static void test_any_other_message_disconnects(void **state)
{
	(void)state;
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		struct peer peer;

		if (is_a_request(type))
			continue;
		peer = join();
		send_type(&peer, type);
		assert_true(is_cut(&peer));
		part(&peer);
	}
}

static void test_after_a_leave_only_late_messages_are_in_place(void **state)
{
	(void)state;
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		struct peer peer;

		if (!is_a_request(type))
			continue;
		peer = join();
		send_type(&peer, WIRE_LEAVE);
		send_type(&peer, type);
		assert_int_equal(is_cut(&peer), !(wire_row(type)->traits & WIRE_LATE));
		part(&peer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_each_request_has_a_handler_and_an_answer),
		ON(test_any_other_message_disconnects),
		ON(test_after_a_leave_only_late_messages_are_in_place),
	};

	return cmocka_run_group_tests_name("dispatch", tests, harness_group_setup, harness_group_teardown);
}
