/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-pool.c - freed memory that is kept for the next create: zeroed, within the limit, of exactly its size, nobody's
 * until then, and the device's again when that runs out of memory and at the broker's end.
 *
 * session-harness.h is the world. Its host device is called through a table of this test's, which counts what is
 * allocated and released, and has a gate before each zero at which the device's thread can be kept.
 */
#include "broker/request/manage.h"
#include "session-harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host.h"

#define OWNER 4001
#define OTHER 4002
#define LIMIT (3ull * SIZE)

/* ---- the device ---- */

static struct device gated;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool is_shut, is_broken;
static _Atomic unsigned allocated, refused, released, at_gate;

static int count_allocate(int ordinal, uint64_t size, unsigned kind, void **ptr)
{
	int error = device_host.allocate(ordinal, size, kind, ptr);

	allocated += !error;
	refused += error == -ENOMEM;
	return error;
}

static int count_release(int ordinal, void *ptr)
{
	released++;
	return device_host.release(ordinal, ptr);
}

static int zero_behind_gate(int ordinal, void *ptr, uint64_t size)
{
	bool fails;

	at_gate++;
	pthread_mutex_lock(&lock);
	while (is_shut)
		pthread_cond_wait(&opened, &lock);
	fails = is_broken;
	pthread_mutex_unlock(&lock);
	at_gate--;
	return fails ? -EIO : device_host.zero(ordinal, ptr, size);
}

static void gate_set(bool shut, bool broken)
{
	pthread_mutex_lock(&lock);
	is_shut = shut;
	is_broken = broken;
	pthread_cond_broadcast(&opened);
	pthread_mutex_unlock(&lock);
}

static int setup(void **state)
{
	int error = harness_setup(state);

	gate_set(false, false);
	allocated = refused = released = 0;
	gated = device_host;
	gated.allocate = count_allocate;
	gated.release = count_release;
	gated.zero = zero_behind_gate;
	use_device(&gated);
	broker_keep(&broker, LIMIT);
	return error;
}

/* After every test the device has all its memory back. */
static int teardown(void **state)
{
	gate_set(false, false);
	return harness_teardown(state) || allocated != released ? -1 : 0;
}

/* ---- shorthands ---- */

static struct wire_message creating(const char *name, uint64_t size)
{
	struct wire_message message = named(WIRE_CREATE, 77, name);

	message.create.size = size;
	return message;
}

static void create(struct peer *peer, const char *name, uint64_t size)
{
	struct wire_message message = creating(name, size);

	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static struct allocation *memory_of(const char *name)
{
	return registry_find(broker.registry, name)->allocation;
}

static void unlink_and_wait(struct peer *peer, const char *name)
{
	uint64_t before = broker.counters.allocations_freed;

	expect_done(peer, WIRE_UNLINK, name);
	EXPECT_SOON(broker.counters.allocations_freed == before + 1);
}

static uint64_t pooled(void)
{
	return broker.memory->usages.bytes[0][SPARE_POOLED];
}

static void expect_pooled(unsigned count, uint64_t bytes)
{
	assert_int_equal(broker.pool->count, count);
	assert_true(pooled() == bytes);
	assert_int_equal(broker.pool->slabs.shelves != NULL, count != 0);
}

static uint8_t *bytes_of(const struct allocation *allocation)
{
	void *ptr = address_of(allocation);

	assert_int_equal(host_map_owned(ptr), 0);
	return ptr;
}

static void fill(const struct allocation *allocation)
{
	memset(bytes_of(allocation), 0xee, allocation->span);
}

static void expect_bytes(const struct buffer *buffer, uint8_t value)
{
	const uint8_t *bytes = bytes_of(buffer->allocation) + buffer->offset;

	assert_true(bytes[0] == value && !memcmp(bytes, bytes + 1, buffer->size - 1));
}

/* ---- kept, and taken ---- */

static void invariant_6_freed_memory_serves_its_owner_and_nobody_else(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(OTHER);
	uint64_t memory;

	(void)state;
	create(&owner, "a", SIZE);
	memory = memory_of("a")->memory;
	unlink_and_wait(&owner, "a");
	/* for the registry it is freed */
	expect_pooled(1, SIZE);
	assert_true(registry_empty(broker.registry));
	assert_int_equal(used(OWNER, RESOURCE_BYTES), 0);
	assert_int_equal(released, 0);
	/* its owner may know the handle still, and it is good as long as the device has not got the memory back */
	create(&other, "b", SIZE);
	expect_pooled(1, SIZE);
	assert_int_not_equal(memory_of("b")->memory, memory);
	create(&owner, "c", SIZE);
	expect_pooled(0, 0);
	assert_int_equal(memory_of("c")->memory, memory);
	assert_int_equal(allocated, 2);
	assert_int_equal(broker.counters.buffers_recycled, 1);
	assert_int_equal(broker.counters.allocations_made, 3);
	assert_int_equal(used(OTHER, RESOURCE_BYTES), SIZE);
	part(&owner);
	part(&other);
}

/* What the last owner could open, the next one's sessions open too: a handle is of memory, and goes with it. */
static void test_what_serves_again_can_be_opened(void **state)
{
	struct peer peer = join();
	struct device_handle handle;

	(void)state;
	create(&peer, "a", SIZE);
	handle = memory_of("a")->handle;
	unlink_and_wait(&peer, "a");
	create(&peer, "b", SIZE);
	assert_memory_equal(&memory_of("b")->handle, &handle, sizeof handle);
	send_closed(peer.sock, acquire(&peer, "b").mapping);
	part(&peer);
}

static void test_only_memory_of_exactly_that_size_is_taken(void **state)
{
	struct peer peer = join();

	(void)state;
	create(&peer, "a", SIZE);
	unlink_and_wait(&peer, "a");
	create(&peer, "less", SIZE - 4096);
	create(&peer, "more", SIZE + 1);
	expect_pooled(1, SIZE);
	assert_int_equal(broker.counters.buffers_recycled, 0);
	create(&peer, "as-much", SIZE - 1); /* in whole granules */
	expect_pooled(0, 0);
	part(&peer);
}

static void invariant_6_pooled_memory_is_zeroed_first(void **state)
{
	struct peer peer = join();
	uint64_t memory;

	(void)state;
	create(&peer, "a", SIZE);
	memory = memory_of("a")->memory;
	fill(memory_of("a"));
	expect_bytes(registry_find(broker.registry, "a"), 0xee);
	gate_set(true, false);
	expect_done(&peer, WIRE_UNLINK, "a");
	EXPECT_SOON(at_gate == 1);
	run_passes();
	assert_null(broker.pool->slabs.shelves);
	assert_int_equal(broker.counters.allocations_freed, 0);
	gate_set(false, false);
	EXPECT_SOON(broker.pool->slabs.shelves);
	create(&peer, "b", SIZE);
	assert_int_equal(memory_of("b")->memory, memory);
	expect_bytes(registry_find(broker.registry, "b"), 0);
	part(&peer);
}

/* It counted as freed when the pool took it. */
static void test_pooled_memory_that_the_device_does_not_free_is_lost(void **state)
{
	struct peer peer = join();
	void *memory;

	(void)state;
	create(&peer, "a", SIZE);
	memory = address_of(memory_of("a"));
	unlink_and_wait(&peer, "a");
	assert_true(broker_balanced(&broker));
	host_fail_next(HOST_RELEASE, 1, EIO);
	broker_keep(&broker, 0);
	EXPECT_SOON(released == 1 && !broker.jobs->pending);
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_int_equal(broker.counters.bytes_freed, 0);
	assert_false(broker_balanced(&broker));
	assert_int_equal(device_host.release(0, memory), 0);
	broker.counters.allocations_freed++;
	broker.counters.bytes_freed += SIZE;
	part(&peer);
}

static void invariant_6_what_could_not_be_zeroed_is_freed(void **state)
{
	struct peer peer = join();

	(void)state;
	create(&peer, "a", SIZE);
	gate_set(false, true);
	unlink_and_wait(&peer, "a");
	expect_pooled(0, 0);
	assert_int_equal(released, 1);
	gate_set(false, false);
	create(&peer, "b", SIZE);
	assert_int_equal(allocated, 2);
	part(&peer);
}

/* Small ones side by side: through the device's thread and back. */
static void invariant_6_a_range_is_zeroed_before_it_serves_again(void **state)
{
	struct peer peer = join();
	struct allocation *allocation;
	uint64_t offset;

	(void)state;
	create(&peer, "a", 100);
	create(&peer, "b", SLAB_RANGE_MIN - HOST_MARGIN);
	allocation = memory_of("a");
	assert_ptr_equal(memory_of("b"), allocation);
	offset = registry_find(broker.registry, "b")->offset;
	fill(allocation);
	expect_done(&peer, WIRE_UNLINK, "b");
	EXPECT_SOON(broker.counters.ranges_cleaned == 1);
	create(&peer, "c", SLAB_RANGE_MIN - HOST_MARGIN);
	assert_ptr_equal(memory_of("c"), allocation);
	assert_true(registry_find(broker.registry, "c")->offset == offset);
	expect_bytes(registry_find(broker.registry, "c"), 0);
	/* and nothing of its neighbour's was touched */
	expect_bytes(registry_find(broker.registry, "a"), 0xee);
	part(&peer);
}

static void invariant_6_a_range_that_could_not_be_zeroed_is_never_reused(void **state)
{
	struct peer peer = join();

	(void)state;
	create(&peer, "a", SLAB_SPAN_MIN / 2 - HOST_MARGIN);
	create(&peer, "b", SLAB_SPAN_MIN / 2 - HOST_MARGIN);
	gate_set(false, true);
	expect_done(&peer, WIRE_UNLINK, "b");
	EXPECT_SOON(!broker.jobs->pending);
	gate_set(false, false);
	create(&peer, "c", SLAB_SPAN_MIN / 2 - HOST_MARGIN);
	assert_ptr_not_equal(memory_of("c"), memory_of("a"));
	assert_int_equal(broker.counters.ranges_cleaned, 0);
	part(&peer);
}

/* ---- within the limit ---- */

static void test_what_exceeds_the_limit_is_freed(void **state)
{
	struct peer peer = join();

	(void)state;
	create(&peer, "a", 2 * SIZE);
	create(&peer, "b", 2 * SIZE);
	create(&peer, "c", SIZE);
	create(&peer, "large", LIMIT + 1);
	unlink_and_wait(&peer, "large");
	expect_pooled(0, 0);
	unlink_and_wait(&peer, "a");
	unlink_and_wait(&peer, "b");
	expect_pooled(1, 2 * SIZE);
	unlink_and_wait(&peer, "c");
	expect_pooled(2, LIMIT);
	EXPECT_SOON(released == 2);
	part(&peer);
}

/* All are on their way at once. */
static void test_the_limit_holds_for_what_is_freed_together(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
	struct peer peer = join();

	(void)state;
	for (int i = 0; i < 6; i++)
		create(&peer, names[i], SIZE);
	gate_set(true, false);
	for (int i = 0; i < 6; i++)
		expect_done(&peer, WIRE_UNLINK, names[i]);
	gate_set(false, false);
	EXPECT_SOON(broker.counters.allocations_freed == 6);
	EXPECT_SOON(!broker.jobs->pending);
	assert_true(pooled() <= LIMIT);
	assert_true(pooled() > 0);
	part(&peer);
}

/* Memory that a session maps yet and in which no buffer is counts too. */
static void test_idle_memory_counts_against_the_limit(void **state)
{
	struct peer peer = join();
	struct wire_message idle;
	struct wire_grant grant;

	(void)state;
	create(&peer, "a", 2 * SIZE);
	create(&peer, "b", SIZE);
	create(&peer, "c", SIZE);
	grant = acquire(&peer, "a");
	unlink_and_wait(&peer, "b");
	unlink_and_wait(&peer, "c");
	expect_pooled(2, 2 * SIZE);
	expect_done(&peer, WIRE_UNLINK, "a");
	wire_init(&idle, WIRE_QUIESCED, 0);
	idle.grant_id.mapping = grant.mapping;
	idle.grant_id.serial = grant.serial;
	say(peer.sock, &idle);
	EXPECT_SOON(broker.memory->usages.bytes[0][SPARE_IDLE] == 2 * SIZE);
	EXPECT_SOON(!broker.jobs->pending);
	expect_pooled(1, SIZE);
	send_closed(peer.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 3);
	assert_true(broker.memory->usages.bytes[0][SPARE_IDLE] == 0);
	expect_pooled(2, LIMIT);
	part(&peer);
}

static void test_a_lower_limit_frees_the_oldest(void **state)
{
	struct peer peer = join();

	(void)state;
	create(&peer, "a", SIZE);
	create(&peer, "b", 2 * SIZE);
	unlink_and_wait(&peer, "a");
	unlink_and_wait(&peer, "b");
	expect_pooled(2, LIMIT);
	broker_keep(&broker, LIMIT - 1);
	EXPECT_SOON(released == 1);
	expect_pooled(1, 2 * SIZE);
	broker_keep(&broker, 0);
	EXPECT_SOON(released == 2);
	expect_pooled(0, 0);
	create(&peer, "c", SIZE);
	unlink_and_wait(&peer, "c");
	expect_pooled(0, 0);
	part(&peer);
}

/* ---- given back ---- */

#define LARGE (160ull << 20) /* of 256 MiB */

static void test_a_device_without_memory_gets_back_what_is_kept(void **state)
{
	struct peer peer = join();

	(void)state;
	broker_keep(&broker, 2 * LARGE);
	create(&peer, "a", LARGE);
	unlink_and_wait(&peer, "a");
	expect_pooled(1, LARGE);
	create(&peer, "b", LARGE + SIZE); /* at once, without a timeout */
	expect_pooled(0, 0);
	assert_int_equal(released, 1);
	part(&peer);
}

/* In many pieces: the create waits for the last that it needs. */
static void test_a_device_without_memory_gets_back_as_much_as_is_needed(void **state)
{
	struct peer peer = join();
	char name[8];

	(void)state;
	broker_keep(&broker, 2 * LARGE);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "n%d", i);
		create(&peer, name, LARGE / 8);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "n%d", i);
		unlink_and_wait(&peer, name);
	}
	expect_pooled(8, LARGE);
	create(&peer, "b", 200ull << 20);
	assert_int_equal(released, 6);
	expect_pooled(2, LARGE / 4);
	part(&peer);
}

/* Without a pool, and without waiting for the free: what was unlinked before is there. */
static void test_nobody_is_refused_for_what_is_about_to_be_freed(void **state)
{
	struct peer peer = join();
	struct wire_message large = creating("large", 200ull << 20), answer;
	char name[8];

	(void)state;
	broker_keep(&broker, 0);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "n%d", i);
		create(&peer, name, LARGE / 8);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "n%d", i);
		manage_unlink(&broker, registry_find(broker.registry, name));
	}
	answer = answer_to(&peer, &large);
	assert_int_equal(answer.refused.error, 0);
	assert_int_equal(answer.type, WIRE_DONE);
	part(&peer);
}

/*
 * It is on its way into the pool when another user's create, which came later, finds the device without memory: that
 * was given back already, and nobody shall be refused for want of it (workers.h).
 */
static void test_nobody_is_refused_for_what_is_about_to_be_kept(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(OTHER);
	struct wire_message first = creating("first", SIZE), second = creating("second", SIZE),
			    third = creating("third", LARGE + SIZE), message;

	(void)state;
	broker_keep(&broker, 2 * LARGE);
	create(&owner, "a", LARGE);
	gate_set(true, false);
	say(owner.sock, &first);
	EXPECT_SOON(at_gate == 1);
	say(owner.sock, &second);
	EXPECT_SOON(registry_find(broker.registry, "second"));
	manage_unlink(&broker, registry_find(broker.registry, "a"));
	say(other.sock, &third);
	EXPECT_SOON(registry_find(broker.registry, "third"));
	gate_set(false, false);
	message = receive_message(other.sock);
	assert_int_equal(message.refused.error, 0);
	assert_int_equal(message.type, WIRE_DONE);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	part(&owner);
	part(&other);
}

/* Another's memory that is on its way back to the device as long as the test says. */
static struct allocation release_begun(void)
{
	struct allocation allocation = { .span = LARGE };

	pool_accept(&broker, &allocation, false);
	return allocation;
}

/* A create that finds the device full, and that memory on its way back to it. */
static struct allocation fall_short(const struct peer *peer)
{
	struct wire_message large = creating("large", LARGE);
	struct allocation allocation = release_begun();

	say(peer->sock, &large);
	EXPECT_SOON(broker.pool->device[0].shortages);
	assert_int_equal(refused, 1);
	return allocation;
}

/* There is always some: a create waits for what is on its way when it is refused, twice, and no longer. */
static void invariant_5_endless_frees_do_not_keep_a_create_trying(void **state)
{
	struct peer peer = join();
	struct allocation first, second, third;

	(void)state;
	create(&peer, "a", LARGE);
	first = fall_short(&peer);
	assert_int_equal(registry_find(broker.registry, "large")->state, BUFFER_CREATING);
	second = release_begun();
	/* each time, others have taken it first */
	pool_returned(&broker, &first, 0);
	EXPECT_SOON(refused == 2 && broker.pool->device[0].shortages);
	third = release_begun();
	pool_returned(&broker, &second, 0);
	assert_int_equal(receive_message(peer.sock).refused.error, -ENOMEM);
	assert_int_equal(refused, 3);
	pool_returned(&broker, &third, 0);
	assert_null(broker.pool->device[0].shortages);
	assert_true(!broker.pool->device[0].claimed && !broker.pool->device[0].returning);
	part(&peer);
}

/* What came later may be there sooner; only what it found on its way counts. And the device is not asked meanwhile. */
static void test_a_create_waits_for_memory_that_is_being_freed(void **state)
{
	struct peer peer = join();
	struct allocation first, later;

	(void)state;
	create(&peer, "a", LARGE);
	first = fall_short(&peer);
	later = release_begun();
	pool_returned(&broker, &later, 0);
	manage_unlink(&broker, registry_find(broker.registry, "a"));
	EXPECT_SOON(released == 1 && broker.counters.allocations_freed == 1);
	run_passes();
	assert_int_equal(refused, 1);
	/* now it is there */
	pool_returned(&broker, &first, 0);
	assert_int_equal(receive_message(peer.sock).type, WIRE_DONE);
	part(&peer);
}

static void note_idle(void *context)
{
	*(bool *)context = true;
}

static void test_a_stopping_broker_gives_all_back(void **state)
{
	struct peer peer = join();
	bool is_idle = false;

	(void)state;
	create(&peer, "a", SIZE);
	create(&peer, "b", SIZE);
	unlink_and_wait(&peer, "a");
	expect_pooled(1, SIZE);
	part(&peer);
	broker_stop(&broker, note_idle, &is_idle);
	EXPECT_SOON(is_idle);
	expect_pooled(0, 0);
	assert_int_equal(released, 2);
	assert_true(broker_balanced(&broker));
}

/* It was to be kept when the broker still went on. */
static void test_what_was_about_to_be_kept_is_given_back_by_a_stopping_broker(void **state)
{
	struct peer peer = join();
	bool is_idle = false;

	(void)state;
	create(&peer, "a", SIZE);
	gate_set(true, false);
	expect_done(&peer, WIRE_UNLINK, "a");
	EXPECT_SOON(at_gate == 1);
	part(&peer);
	broker_stop(&broker, note_idle, &is_idle);
	run_passes();
	assert_false(is_idle);
	gate_set(false, false);
	EXPECT_SOON(is_idle);
	expect_pooled(0, 0);
	assert_int_equal(released, 1);
}

/* Any order of creates and unlinks of few sizes: within the limit, and the device has what registry and pool have. */
static void invariant_10_registry_and_pool_have_what_the_device_gave(void **state)
{
	struct peer peer = join();
	unsigned seed = 5;
	char name[8];

	(void)state;
	for (int i = 0; i < 400; i++) {
		uint64_t size = (1 + (unsigned)rand_r(&seed) % 3) * (SIZE / 2) + 4096;

		snprintf(name, sizeof name, "n%u", (unsigned)rand_r(&seed) % 6);
		if (registry_find(broker.registry, name))
			expect_done(&peer, WIRE_UNLINK, name);
		else
			create(&peer, name, size);
		assert_true(pooled() <= LIMIT);
		if (i % 10)
			continue;
		EXPECT_SOON(!broker.jobs->pending);
		assert_int_equal(allocated - released, broker.counters.allocations_made -
							       broker.counters.allocations_freed + broker.pool->count);
	}
	assert_true(broker.counters.buffers_recycled > 0);
	part(&peer);
}

#define HERE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(invariant_6_freed_memory_serves_its_owner_and_nobody_else),
		HERE(test_what_serves_again_can_be_opened),
		HERE(test_only_memory_of_exactly_that_size_is_taken),
		HERE(invariant_6_pooled_memory_is_zeroed_first),
		HERE(test_pooled_memory_that_the_device_does_not_free_is_lost),
		HERE(invariant_6_what_could_not_be_zeroed_is_freed),
		HERE(invariant_6_a_range_is_zeroed_before_it_serves_again),
		HERE(invariant_6_a_range_that_could_not_be_zeroed_is_never_reused),
		HERE(test_what_exceeds_the_limit_is_freed),
		HERE(test_the_limit_holds_for_what_is_freed_together),
		HERE(test_idle_memory_counts_against_the_limit),
		HERE(test_a_lower_limit_frees_the_oldest),
		HERE(test_a_device_without_memory_gets_back_what_is_kept),
		HERE(test_a_device_without_memory_gets_back_as_much_as_is_needed),
		HERE(test_nobody_is_refused_for_what_is_about_to_be_freed),
		HERE(test_nobody_is_refused_for_what_is_about_to_be_kept),
		HERE(invariant_5_endless_frees_do_not_keep_a_create_trying),
		HERE(test_a_create_waits_for_memory_that_is_being_freed),
		HERE(test_a_stopping_broker_gives_all_back),
		HERE(test_what_was_about_to_be_kept_is_given_back_by_a_stopping_broker),
		HERE(invariant_10_registry_and_pool_have_what_the_device_gave),
	};

	return cmocka_run_group_tests_name("pool", tests, harness_group_setup, harness_group_teardown);
}
