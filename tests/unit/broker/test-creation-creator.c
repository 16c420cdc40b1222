/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-creation-creator.c - a create and who asked for it: what becomes of the buffer when the creator ends, or the
 * broker stops, while the device makes the memory; and what ties a buffer to its creator.
 *
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <unistd.h>

#include "broker/registry/timeline.h"
#include "broker/request/creation.h"
#include "broker/session/session-end.h"

static unsigned done_count;

static void done(void *context, int error, const char *text)
{
	(void)context, (void)text;
	assert_int_equal(error, 0);
	done_count++;
}

/* The broker creates it for itself. */
static int create(const char *name, const struct amount *amount, unsigned flags)
{
	done_count = 0;
	return broker_create(&broker, name, amount, flags, 0640, done, NULL);
}

static struct buffer *made(const char *name, const struct amount *amount, unsigned flags)
{
	assert_int_equal(create(name, amount, flags), 0);
	EXPECT_SOON(done_count);
	return registry_find(broker.registry, name);
}

/* Until the device was asked for the memory of a create. The device's answer is handled in a later pass. */
static void until_asked(void)
{
	for (int passes = 0; passes < 100 && !broker.jobs->pending; passes++)
		broker_pass(&broker, false);
	assert_int_equal(broker.jobs->pending, 1);
}

/* A create is sent, whose memory the device has not made yet, and the session is gone. */
static void create_and_end(const char *name, unsigned flags)
{
	struct wire_message message = named(WIRE_CREATE, 5, name);
	struct peer peer = join();

	message.create.flags = flags | GPUB_DEDICATED;
	say(peer.sock, &message);
	until_asked();
	assert_int_equal(registry_find(broker.registry, name)->state, BUFFER_CREATING);
	part(&peer);
	session_hang_up(session_of(&peer));
	assert_null(session_find(&broker, peer.session));
	assert_int_equal(registry_find(broker.registry, name)->state, BUFFER_CREATING);
	EXPECT_SOON(events_of(EVENT_CREATE) || events_of(EVENT_CREATE_REFUSED));
}

static void test_a_buffer_outlives_a_creator_that_ended_meanwhile(void **state)
{
	const struct broker_event *event;

	(void)state;
	create_and_end("a", 0);
	assert_int_equal(registry_find(broker.registry, "a")->state, BUFFER_LIVE);
	assert_int_equal(broker.counters.buffers_created, 1);
	/* who asked is told of without what is known of a session */
	event = event_last(EVENT_CREATE);
	assert_int_equal(event->actor.session, 1);
	assert_int_equal(event->actor.uid, geteuid());
	assert_int_equal(event->actor.pid, 0);
}

static void invariant_10_an_ephemeral_buffer_ends_with_a_creator_that_ended_meanwhile(void **state)
{
	struct wire_message message = named(WIRE_ACQUIRE, 9, "a");
	struct peer waiter = join();

	(void)state;
	message.acquire.timeout_ms = -1;
	say(waiter.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	create_and_end("a", GPUB_EPHEMERAL);
	assert_null(registry_find(broker.registry, "a"));
	assert_int_equal(broker.counters.buffers_created, 1);
	assert_int_equal(broker.counters.buffers_unlinked, 1);
	run_passes();
	assert_int_equal(broker.waiting->count, 1); /* a buffer that is gone at once wakes nobody */
	part(&waiter);
	EXPECT_SOON(registry_empty(broker.registry));
}

/* Its session is still there, with work left to do at its end. */
static void invariant_10_an_ephemeral_buffer_ends_with_a_creator_that_is_ending(void **state)
{
	struct wire_message message = named(WIRE_CREATE, 5, "a");
	struct peer peer = join();

	(void)state;
	message.create.flags = GPUB_EPHEMERAL;
	say(peer.sock, &message);
	until_asked();
	session_of(&peer)->ends = true;
	EXPECT_SOON(events_of(EVENT_CREATE));
	assert_null(registry_find(broker.registry, "a"));
	session_of(&peer)->ends = false;
	part(&peer);
	EXPECT_SOON(registry_empty(broker.registry));
}

static void test_an_ephemeral_buffer_of_a_living_creator_stays(void **state)
{
	struct wire_message message = named(WIRE_CREATE, 5, "a");
	const struct amount amount = { .size = SIZE };
	struct peer peer = join();

	(void)state;
	message.create.flags = GPUB_EPHEMERAL;
	assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
	run_passes();
	assert_int_equal(registry_find(broker.registry, "a")->state, BUFFER_LIVE);
	assert_ptr_equal(registry_find(broker.registry, "a")->ephemerals, &session_of(&peer)->ephemerals);
	/* the broker does not end before its buffers */
	made("b", &amount, GPUB_EPHEMERAL);
	assert_int_equal(registry_find(broker.registry, "b")->state, BUFFER_LIVE);
	part(&peer);
	EXPECT_SOON(!registry_find(broker.registry, "a"));
	assert_non_null(registry_find(broker.registry, "b"));
}

/* A timeline of a buffer whose creator dies is ended, so it knows its creator. */
static void test_a_timeline_knows_its_creator(void **state)
{
	struct wire_message message = named(WIRE_CREATE, 5, "a");
	const struct amount amount = { .size = SIZE };
	struct peer peer = join();
	const struct buffer *buffer;

	(void)state;
	message.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
	buffer = registry_find(broker.registry, "a");
	assert_ptr_equal(buffer->timeline->creator, &session_of(&peer)->timelines);
	assert_int_equal(buffer->timeline->serial, buffer->serial);
	assert_ptr_equal(buffer->timeline->end, &broker.board->board.ends[buffer->place]);
	assert_null(made("b", &amount, GPUB_TIMELINE)->timeline->creator);
	part(&peer);
}

/* A buffer that becomes live when the broker stops has nobody to unlink it later. */
static void test_a_broker_that_stops_meanwhile_unlinks_the_buffer(void **state)
{
	const struct amount amount = { .size = SIZE };

	(void)state;
	assert_int_equal(create("a", &amount, 0), 0);
	broker.stopping = true;
	EXPECT_SOON(done_count);
	assert_null(registry_find(broker.registry, "a"));
	EXPECT_SOON(registry_empty(broker.registry));
	broker.stopping = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_buffer_outlives_a_creator_that_ended_meanwhile),
		ON(invariant_10_an_ephemeral_buffer_ends_with_a_creator_that_ended_meanwhile),
		ON(invariant_10_an_ephemeral_buffer_ends_with_a_creator_that_is_ending),
		ON(test_an_ephemeral_buffer_of_a_living_creator_stays),
		ON(test_a_timeline_knows_its_creator),
		ON(test_a_broker_that_stops_meanwhile_unlinks_the_buffer),
	};

	return cmocka_run_group_tests_name("creators", tests, harness_group_setup, harness_group_teardown);
}
