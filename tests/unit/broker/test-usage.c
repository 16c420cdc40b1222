/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-usage.c - what of the memory that is kept goes first: each user has a part of it that others cannot take; a
 * create that cannot succeed evicts nothing, and one that can no more than it needs; a create that waits for memory
 * that never comes does not disable the pool, and one that waits for memory that another program frees gets it.
 *
 * session-harness.h is the world. Its host device is called through a table of this test's, which counts what is
 * released and refused, and has another program hold some of the device's memory.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device/host.h"

#define ALICE 4001
#define BOB   4002
#define LIMIT (8ull * SIZE)
#define MIB   (1ull << 20) /* of 256 */

/* ---- the device ---- */

static struct device shared;
static _Atomic unsigned refused, released, scans;
static _Atomic uint64_t elsewhere; /* bytes that another program has */

static int room_beside_others(int ordinal, uint64_t *bytes)
{
	int error = device_host.room(ordinal, bytes);

	scans++;
	if (!error)
		*bytes -= elsewhere < *bytes ? elsewhere : *bytes;
	return error;
}

static int allocate_beside_others(int ordinal, uint64_t size, unsigned kind, void **ptr)
{
	uint64_t room = 0;
	int error = device_host.room(ordinal, &room);

	if (!error)
		error = size + elsewhere > room ? error_set(-ENOMEM, "others have it") :
						  device_host.allocate(ordinal, size, kind, ptr);
	refused += error == -ENOMEM;
	return error;
}

static int count_release(int ordinal, void *ptr)
{
	released++;
	return device_host.release(ordinal, ptr);
}

static int setup(void **state)
{
	int error = harness_setup(state);

	refused = released = scans = 0;
	elsewhere = 0;
	shared = device_host;
	shared.allocate = allocate_beside_others;
	shared.room = room_beside_others;
	shared.release = count_release;
	use_device(&shared);
	broker_keep(&broker, LIMIT);
	return error;
}

/* ---- shorthands ---- */

static uint64_t spare(enum spare_kind kind)
{
	return broker.memory->usages.bytes[0][kind];
}

static uint64_t kept_by(uid_t uid, enum spare_kind kind)
{
	const struct usage *usage = usage_find(&broker.memory->usages, 0, uid);

	return usage ? usage->bytes[kind] : 0;
}

static struct wire_message creating(const char *name, uint64_t size)
{
	struct wire_message message = named(WIRE_CREATE, 77, name);

	message.create.size = size;
	return message;
}

static int try_create(struct peer *peer, const char *name, uint64_t size)
{
	struct wire_message message = creating(name, size), answer = answer_to(peer, &message);

	return answer.type == WIRE_DONE ? 0 : answer.refused.error;
}

static void create(struct peer *peer, const char *name, uint64_t size)
{
	assert_int_equal(try_create(peer, name, size), 0);
}

/* Waits for memory until it comes; nothing is answered yet. */
static void create_waiting(struct peer *peer, const char *name, uint64_t size)
{
	struct wire_message message = creating(name, size);
	unsigned before = broker.waiting->count;

	message.create.timeout_ms = -1;
	say(peer->sock, &message);
	EXPECT_SOON(broker.waiting->count == before + 1);
}

static void drop(struct peer *peer, const char *name)
{
	uint64_t before = broker.counters.allocations_freed;

	expect_done(peer, WIRE_UNLINK, name);
	EXPECT_SOON(broker.counters.allocations_freed == before + 1 && !broker.jobs->pending);
}

/* So many buffers of that size, all there at once, then all freed. */
static void create_and_drop(struct peer *peer, unsigned count, uint64_t size)
{
	char name[32];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "drop%u", i);
		create(peer, name, size);
	}
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "drop%u", i);
		drop(peer, name);
	}
}

/* Memory that the peer maps yet, and in which no buffer is. Returns the id of the mapping. */
static uint64_t leave_quiesced(struct peer *peer, const char *name, uint64_t size)
{
	struct wire_message idle;
	struct wire_grant grant;
	uint64_t before = spare(SPARE_IDLE);

	create(peer, name, size);
	grant = acquire(peer, name);
	expect_done(peer, WIRE_UNLINK, name);
	wire_init(&idle, WIRE_QUIESCED, 0);
	idle.grant_id.mapping = grant.mapping;
	idle.grant_id.serial = grant.serial;
	say(peer->sock, &idle);
	EXPECT_SOON(spare(SPARE_IDLE) == before + size);
	return grant.mapping;
}

static void part_closing(struct peer *peer, uint64_t mapping)
{
	send_closed(peer->sock, mapping);
	EXPECT_SOON(!session_of(peer)->mappings.by_id);
	part(peer);
}

static void expect_recycled(struct peer *peer, const char *name, uint64_t size)
{
	uint64_t before = broker.counters.buffers_recycled;

	create(peer, name, size);
	assert_int_equal(broker.counters.buffers_recycled, before + 1);
}

/* ---- each user's part ---- */

/* The first user filled the pool; one that keeps less gets up to half of it all the same. */
static void invariant_5_one_user_cannot_fill_the_pool_for_others(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);

	(void)state;
	create_and_drop(&alice, 8, SIZE);
	assert_true(kept_by(ALICE, SPARE_POOLED) == LIMIT);
	create_and_drop(&bob, 1, SIZE);
	assert_true(kept_by(BOB, SPARE_POOLED) == SIZE && kept_by(ALICE, SPARE_POOLED) == LIMIT - SIZE);
	expect_recycled(&bob, "b", SIZE);
	drop(&bob, "b");
	create_and_drop(&bob, 8, SIZE);
	assert_true(kept_by(BOB, SPARE_POOLED) == LIMIT / 2 && kept_by(ALICE, SPARE_POOLED) == LIMIT / 2);
	/* and however much more it frees, that is what the others have */
	create_and_drop(&alice, 16, SIZE);
	create_and_drop(&alice, 1, LIMIT);
	assert_true(kept_by(BOB, SPARE_POOLED) == LIMIT / 2);
	part(&alice);
	part(&bob);
}

/* Memory that is mapped yet counts as what is in the pool does, and goes before it where it is older. */
static void invariant_5_one_user_cannot_fill_the_pool_with_mapped_memory(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	uint64_t mappings[2];

	(void)state;
	mappings[0] = leave_quiesced(&alice, "a", LIMIT / 2);
	mappings[1] = leave_quiesced(&alice, "b", LIMIT / 2 - SIZE);
	assert_true(kept_by(ALICE, SPARE_IDLE) == LIMIT - SIZE);
	create_and_drop(&bob, 2, SIZE);
	/* the oldest of the user that keeps the most */
	assert_true(kept_by(ALICE, SPARE_IDLE) == LIMIT / 2 - SIZE && kept_by(BOB, SPARE_POOLED) == 2ull * SIZE);
	send_closed(alice.sock, mappings[0]);
	EXPECT_SOON(released == 1); /* it is not kept in another way */
	assert_true(kept_by(ALICE, SPARE_POOLED) == 0 && !broker.memory->usages.leaving[0]);
	send_closed(alice.sock, mappings[1]);
	EXPECT_SOON(kept_by(ALICE, SPARE_POOLED) == LIMIT / 2 - SIZE);
	part(&alice);
	part(&bob);
}

/* A user's own oldest goes before its newest. */
static void test_the_oldest_of_a_user_goes_first(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);

	(void)state;
	create_and_drop(&alice, 1, SIZE);
	create_and_drop(&alice, 1, 7ull * SIZE);
	create_and_drop(&bob, 1, SIZE);
	expect_recycled(&alice, "large", 7ull * SIZE);
	expect_recycled(&bob, "small", SIZE);
	part(&alice);
	part(&bob);
}

/* ---- no more than is needed ---- */

static void test_a_create_takes_its_own_users_memory_first_and_as_much_as_it_needs(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);

	(void)state;
	create_and_drop(&alice, 3, SIZE);
	create_and_drop(&bob, 5, SIZE);
	create(&alice, "most", 240 * MIB);
	elsewhere = 8 * MIB; /* all that is left */
	create(&alice, "more", 2 * MIB);
	assert_int_equal(released, 2);
	assert_true(kept_by(ALICE, SPARE_POOLED) == SIZE && kept_by(BOB, SPARE_POOLED) == 5ull * SIZE);
	/* then that of the user that keeps the most */
	create(&alice, "yet-more", 3 * MIB);
	assert_int_equal(released, 5);
	assert_true(kept_by(ALICE, SPARE_POOLED) == 0 && kept_by(BOB, SPARE_POOLED) == 3ull * SIZE);
	assert_int_equal(broker.counters.refused_memory, 0);
	part(&alice);
	part(&bob);
}

/* A session that is asked to close may never do so: after a while other users' memory is reclaimed instead. */
static void invariant_5_memory_that_is_never_closed_keeps_nobody_from_others(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	uint64_t oldest, newer;

	(void)state;
	oldest = leave_quiesced(&bob, "i1", 2 * MIB);
	newer = leave_quiesced(&bob, "i2", 3 * MIB);
	elsewhere = 251 * MIB;
	broker.memory->usages.patience_ms = 0;
	assert_int_equal(try_create(&alice, "a", 2 * MIB), -ENOMEM);
	assert_true(kept_by(BOB, SPARE_IDLE) == 3 * MIB);
	assert_int_equal(try_create(&alice, "a", 2 * MIB), -ENOMEM);
	assert_true(kept_by(BOB, SPARE_IDLE) == 0);
	send_closed(bob.sock, newer);
	EXPECT_SOON(broker.counters.allocations_freed == 1 && !broker.jobs->pending);
	create(&alice, "a", 2 * MIB);
	part(&alice);
	part_closing(&bob, oldest);
}

/* On the host device each piece is an open object of the broker's, whoever made it. */
static void invariant_5_what_is_pooled_costs_few_descriptors(void **state)
{
	struct wire_message message = creating("piece", 1);
	struct peer alice = join_as(ALICE);

	(void)state;
	message.create.flags = GPUB_DEDICATED;
	for (unsigned mode = 0; mode < POOL_OBJECTS + 20; mode++) {
		message.create.mode = mode; /* each another kind, or one would serve them all */
		assert_int_equal(answer_to(&alice, &message).type, WIRE_DONE);
		expect_done(&alice, WIRE_UNLINK, "piece");
	}
	EXPECT_SOON(!broker.jobs->pending);
	assert_int_equal(broker.pool->count, POOL_OBJECTS);
	part(&alice);
}

/* As many as will do are asked to close, and not more when it is asked again before they have. */
static void test_idle_memory_is_reclaimed_as_far_as_is_needed(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	uint64_t oldest, newer;

	(void)state;
	oldest = leave_quiesced(&bob, "i1", 2 * MIB);
	newer = leave_quiesced(&bob, "i2", 3 * MIB);
	elsewhere = 251 * MIB;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(try_create(&alice, "a", 2 * MIB), -ENOMEM);
		assert_true(kept_by(BOB, SPARE_IDLE) == 3 * MIB);
	}
	send_closed(bob.sock, oldest);
	EXPECT_SOON(broker.counters.allocations_freed == 1 && !broker.jobs->pending);
	create(&alice, "a", 2 * MIB);
	assert_true(kept_by(BOB, SPARE_IDLE) == 3 * MIB);
	part(&alice);
	part_closing(&bob, newer);
}

static void invariant_5_a_create_that_cannot_succeed_evicts_nothing(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	uint64_t kept, mapping;

	(void)state;
	create_and_drop(&bob, 2, SIZE);
	mapping = leave_quiesced(&bob, "idle", 2ull * SIZE);
	create_and_drop(&alice, 2, SIZE);
	kept = spare(SPARE_IDLE) + spare(SPARE_POOLED);
	/* more than the device has; more than it has beside what is in use */
	assert_int_equal(try_create(&alice, "a", 257 * MIB), -ENOMEM);
	elsewhere = 200 * MIB;
	assert_int_equal(try_create(&alice, "a", 57 * MIB), -ENOMEM);
	assert_true(refused > 0);
	assert_int_equal(released, 0);
	assert_true(spare(SPARE_IDLE) + spare(SPARE_POOLED) == kept);
	part(&alice);
	part_closing(&bob, mapping);
}

/* ---- quotas ---- */

static void set_quota(enum resource resource, uint64_t limit)
{
	struct quotas quotas = broker.config->quotas;

	quotas.fallback.limit[resource] = limit;
	broker_configure(&broker, &quotas, &broker.config->creators);
}

static void test_a_quota_evicts_as_much_idle_memory_as_is_missing(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	uint64_t bobs, older, newer;

	(void)state;
	set_quota(RESOURCE_BYTES, 6 * MIB);
	bobs = leave_quiesced(&bob, "b", MIB);
	older = leave_quiesced(&alice, "i1", MIB);
	newer = leave_quiesced(&alice, "i2", 2 * MIB);
	create(&alice, "a", 3 * MIB);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(try_create(&alice, "more", MIB / 2), -EDQUOT);
		assert_true(kept_by(ALICE, SPARE_IDLE) == 2 * MIB);
	}
	assert_true(kept_by(BOB, SPARE_IDLE) == MIB);
	send_closed(alice.sock, older);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	create(&alice, "more", MIB / 2);
	part_closing(&alice, newer);
	part_closing(&bob, bobs);
}

/* More than the quota, more than idle memory would give, or not bytes at all. */
static void invariant_5_a_quota_that_cannot_be_met_takes_nothing_back(void **state)
{
	struct peer alice = join_as(ALICE);
	uint64_t mapping;

	(void)state;
	set_quota(RESOURCE_BYTES, 6 * MIB);
	mapping = leave_quiesced(&alice, "i", 2 * MIB);
	create(&alice, "a", MIB);
	assert_int_equal(try_create(&alice, "more", 7 * MIB), -EDQUOT);
	assert_int_equal(try_create(&alice, "more", 5 * MIB + SIZE / 2), -EDQUOT);
	set_quota(RESOURCE_BUFFERS, 1);
	assert_int_equal(try_create(&alice, "more", 4 * MIB), -EDQUOT);
	assert_true(kept_by(ALICE, SPARE_IDLE) == 2 * MIB);
	part_closing(&alice, mapping);
}

static void invariant_5_a_full_board_takes_nothing_back(void **state)
{
	struct peer alice = join_as(ALICE);
	uint64_t mapping;
	char name[16];

	(void)state;
	mapping = leave_quiesced(&alice, "i", 2 * MIB);
	for (unsigned i = 0; i < harness_buffers; i++) {
		snprintf(name, sizeof name, "b%u", i);
		create(&alice, name, 1);
	}
	set_quota(RESOURCE_BYTES, used(ALICE, RESOURCE_BYTES));
	assert_int_equal(try_create(&alice, "more", MIB), -EDQUOT);
	assert_true(kept_by(ALICE, SPARE_IDLE) == 2 * MIB);
	part_closing(&alice, mapping);
}

/* ---- creates that wait ---- */

/* It waits for ever, and everybody's creates come from the pool, its own user's too. */
static void invariant_5_a_create_that_never_succeeds_does_not_disable_the_pool(void **state)
{
	struct peer alice = join_as(ALICE), greedy = join_as(ALICE), bob = join_as(BOB);
	uint64_t made;
	unsigned before;

	(void)state;
	elsewhere = 100 * MIB;
	create_and_drop(&alice, 2, SIZE);
	create_and_drop(&bob, 2, SIZE);
	create_waiting(&greedy, "huge", 200 * MIB);
	made = broker.counters.allocations_made - broker.counters.buffers_recycled;
	before = refused;
	for (int i = 0; i < 10; i++) {
		expect_recycled(&bob, "b", SIZE);
		expect_recycled(&alice, "a", SIZE);
		drop(&bob, "b");
		drop(&alice, "a");
	}
	assert_true(broker.counters.allocations_made - broker.counters.buffers_recycled == made);
	assert_int_equal(refused, before); /* nor is the device asked each time */
	assert_int_equal(released, 0);
	part(&greedy);
	EXPECT_SOON(!broker.waiting->count);
	part(&alice);
	part(&bob);
}

/* When there is enough with what is kept, that goes; as much as it needs. */
static void test_a_create_that_waits_takes_what_it_can_use(void **state)
{
	struct peer alice = join_as(ALICE), waiting = join_as(ALICE), bob = join_as(BOB);

	(void)state;
	create(&alice, "a", 100 * MIB);
	create_and_drop(&bob, 4, SIZE);
	create_waiting(&waiting, "large", 254 * MIB);
	assert_int_equal(released, 0);
	drop(&alice, "a");
	assert_int_equal(receive_message(waiting.sock).type, WIRE_DONE);
	assert_int_equal(released, 1 + 2);
	assert_true(kept_by(BOB, SPARE_POOLED) == 2ull * SIZE);
	part(&alice);
	part(&waiting);
	part(&bob);
}

/* The driver tells nobody: the broker looks. */
static void test_memory_that_another_program_frees_is_noticed(void **state)
{
	struct peer alice = join_as(ALICE);

	(void)state;
	elsewhere = 200 * MIB;
	create_waiting(&alice, "large", 100 * MIB);
	EXPECT_SOON(scans >= 3);
	assert_int_equal(refused, 1); /* a look is not a try */
	assert_int_equal(registry_find(broker.registry, "large")->state, BUFFER_CREATING);
	elsewhere = 0;
	assert_int_equal(receive_message(alice.sock).type, WIRE_DONE);
	assert_int_equal(refused, 1);
	part(&alice);
}

/* Another program has what it needs: its user's small ones go on, waiting or not. */
static void test_small_creates_pass_one_that_waits_for_another_program(void **state)
{
	struct peer alice = join_as(ALICE), waiting = join_as(ALICE);

	(void)state;
	elsewhere = 200 * MIB;
	create_waiting(&waiting, "large", 200 * MIB);
	create(&alice, "small", 4 * MIB);
	create(&alice, "another", 50 * MIB);
	assert_int_equal(try_create(&alice, "too-large", 3 * MIB), -ENOMEM);
	elsewhere = 0;
	/* it is served, and what its own user took meanwhile is missing */
	EXPECT_SOON(create_must_wait(&broker, 0, ALICE) || received_already(waiting.sock, &(struct wire_message){ 0 }));
	assert_true(broker.waiting->count);
	assert_int_equal(try_create(&alice, "third", MIB), -ENOMEM);
	drop(&alice, "another");
	assert_int_equal(receive_message(waiting.sock).type, WIRE_DONE);
	part(&alice);
	part(&waiting);
}

/* Four that are refused together are not promised the same memory. */
static void test_memory_on_its_way_is_promised_once(void **state)
{
	struct peer alice = join_as(ALICE), peers[4];

	(void)state;
	create_and_drop(&alice, 8, SIZE);
	create(&alice, "most", 240 * MIB);
	elsewhere = 8 * MIB;
	for (int i = 0; i < 4; i++)
		peers[i] = join_as(BOB + (uid_t)i);
	for (int i = 0; i < 4; i++) {
		struct wire_message message = creating("", 2 * MIB);

		snprintf(message.create.name, sizeof message.create.name, "n%d", i);
		say(peers[i].sock, &message);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(receive_message(peers[i].sock).type, WIRE_DONE);
	assert_int_equal(released, 8);
	for (int i = 0; i < 4; i++)
		part(&peers[i]);
	part(&alice);
}

#define HERE(name) cmocka_unit_test_setup_teardown(name, setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(invariant_5_one_user_cannot_fill_the_pool_for_others),
		HERE(invariant_5_one_user_cannot_fill_the_pool_with_mapped_memory),
		HERE(test_the_oldest_of_a_user_goes_first),
		HERE(test_a_create_takes_its_own_users_memory_first_and_as_much_as_it_needs),
		HERE(test_idle_memory_is_reclaimed_as_far_as_is_needed),
		HERE(invariant_5_memory_that_is_never_closed_keeps_nobody_from_others),
		HERE(invariant_5_what_is_pooled_costs_few_descriptors),
		HERE(invariant_5_a_create_that_cannot_succeed_evicts_nothing),
		HERE(test_a_quota_evicts_as_much_idle_memory_as_is_missing),
		HERE(invariant_5_a_quota_that_cannot_be_met_takes_nothing_back),
		HERE(invariant_5_a_full_board_takes_nothing_back),
		HERE(invariant_5_a_create_that_never_succeeds_does_not_disable_the_pool),
		HERE(test_a_create_that_waits_takes_what_it_can_use),
		HERE(test_memory_that_another_program_frees_is_noticed),
		HERE(test_small_creates_pass_one_that_waits_for_another_program),
		HERE(test_memory_on_its_way_is_promised_once),
	};

	return cmocka_run_group_tests_name("pool-users", tests, harness_group_setup, harness_group_teardown);
}
