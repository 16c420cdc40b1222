/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-reclaim.c - a drain is answered when the buffer's memory is as free as it gets: freed, or zeroed for its owner's
 * next buffer. session-harness.h is the world.
 */
#include "session-harness.h"

#include <errno.h>

#include "device/host.h"

#define ROUNDS 20

static struct wire_message drain_of(const char *name)
{
	struct wire_message message = named(WIRE_DRAIN, 1, name);

	message.drain.timeout_ms = -1;
	return message;
}

static struct wire_message small(const char *name)
{
	struct wire_message message = named(WIRE_CREATE, 1, name);

	message.create.size = 1;
	return message;
}

/* When the drain of its neighbour is answered, the buffer has its memory for itself: its mode may change then. */
static void test_a_drain_of_a_small_buffer_is_answered_when_its_range_is_clean(void **state)
{
	struct wire_message drain = drain_of("drained"), create = small("drained"), stays = small("stays");
	struct peer peer = join();

	(void)state;
	assert_int_equal(answer_to(&peer, &stays).type, WIRE_DONE);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		assert_int_equal(answer_to(&peer, &create).type, WIRE_DONE);
		assert_int_equal(answer_to(&peer, &drain).type, WIRE_DONE);
		assert_int_equal(broker.counters.ranges_cleaned, round);
	}
	part(&peer);
}

static void test_a_drain_of_a_large_buffer_is_answered_when_its_memory_is_freed(void **state)
{
	struct wire_message drain = drain_of("drained");
	struct peer peer = join();

	(void)state;
	expect_done(&peer, WIRE_CREATE, "drained");
	assert_int_equal(answer_to(&peer, &drain).type, WIRE_DONE);
	assert_int_equal(broker.counters.allocations_freed, 1);
	part(&peer);
}

/* It is lost: the account says so, and no more counts as free. */
static void test_memory_that_the_device_does_not_free_is_not_counted_as_freed(void **state)
{
	struct peer peer = join();
	uint64_t room;
	void *memory;

	(void)state;
	expect_done(&peer, WIRE_CREATE, "lost");
	memory = address_of(registry_find(broker.registry, "lost")->allocation);
	room = broker.pool->device[0].room;
	host_fail_next(HOST_RELEASE, 1, EIO);
	expect_done(&peer, WIRE_UNLINK, "lost");
	EXPECT_SOON(events_of(EVENT_DEVICE_FAILED));
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_int_equal(broker.counters.bytes_freed, 0);
	assert_int_equal(broker.pool->device[0].room, room);
	assert_false(broker_balanced(&broker));
	assert_int_equal(broker.device->release(0, memory), 0);
	broker.counters.allocations_freed++;
	broker.counters.bytes_freed = broker.counters.bytes_made;
	part(&peer);
}

/* The answer is on its way with the range that is being zeroed. */
static void test_the_broker_may_end_meanwhile(void **state)
{
	struct wire_message drain = drain_of("drained"), create = small("drained"), stays = small("stays");
	struct peer peer = join();

	(void)state;
	assert_int_equal(answer_to(&peer, &stays).type, WIRE_DONE);
	assert_int_equal(answer_to(&peer, &create).type, WIRE_DONE);
	say(peer.sock, &drain);
	run_pass();
	broker_end_now();
	part(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_drain_of_a_small_buffer_is_answered_when_its_range_is_clean),
		ON(test_a_drain_of_a_large_buffer_is_answered_when_its_memory_is_freed),
		ON(test_memory_that_the_device_does_not_free_is_not_counted_as_freed),
		ON(test_the_broker_may_end_meanwhile),
	};

	return cmocka_run_group_tests(tests, harness_group_setup, harness_group_teardown);
}
