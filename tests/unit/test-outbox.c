/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-outbox.c - how much a session may leave unread: so much that what it asked for in good faith never cuts it off.
 *
 * Here it is messages with a descriptor, of which each costs the broker one; test-session.c has the others.
 * session-harness.h is the world.
 */
#include "session-harness.h"

#include <stdio.h>
#include <string.h>

#include "broker/grants.h"

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

/* From now on what is sent to it waits. */
static void fill_socket(struct peer *peer)
{
	const struct session *session = session_of(peer);
	struct wire_message message = named(WIRE_STAT, 1, "no-such");

	while (!session->outbox.first) {
		say(peer->sock, &message);
		turn();
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

/* This process goes on, which keeps the grants of a session that was cut off: so the books are helped along. */
static void bury(struct peer *peer)
{
	struct session *session = session_of(peer);

	while (session->grants) {
		broker.counters.grants_died++;
		grant_over(&broker.registry, &session->grants, session->grants);
	}
	part(peer);
}

static void invariant_5_unread_descriptors_are_bounded_by_what_is_used(void **state)
{
	struct peer owner = join(), peer = join();
	const struct session *session = session_of(&peer);
	unsigned most = ALLOWED + 1 + USES; /* a notice for each use, and one for their grant */

	(void)state;
	create_timelines(&owner);
	fill_socket(&peer);
	for (int i = 0; i < USES; i++)
		ask_unread(&peer, name_of(i));
	assert_int_equal(HASH_COUNT(session->grants), 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_unread_descriptors_are_bounded_by_what_is_used),
	};

	return cmocka_run_group_tests_name("outbox", tests, harness_group_setup, harness_group_teardown);
}
