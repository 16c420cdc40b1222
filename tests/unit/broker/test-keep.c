/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-keep.c - what is sent to the keeper, in which order, and what waits for the keeper. test-load-random.c compares
 * what is kept with the ledger after each step. successor.h is the world.
 */
#include <unistd.h>

#include "successor.h"

#include "broker/session/session-end.h"

static int setup(void **state)
{
	int error;

	harness_exported = EXPORT_VMM;
	error = harness_setup(state);
	if (!error)
		successor_note();
	return error;
}

static int teardown(void **state)
{
	keeper_hang(false);
	successor_forget();
	return harness_teardown(state);
}

/* A MEMORY with the descriptor comes before the GRANT. */
static void map(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_ACQUIRE, 77, name);

	say(peer->sock, &message);
	do
		message = receive_message(peer->sock);
	while (message.type == WIRE_MEMORY);
	assert_int_equal(message.type, WIRE_GRANT);
}

static uint64_t key_of_only_memory(void)
{
	const struct allocation *allocation = broker.memory->allocations;

	assert_non_null(allocation);
	assert_null(allocation->next);
	return keep_key(KEPT_MEMORY, allocation->memory);
}

static bool is_kept(uint64_t key)
{
	return kept_find(keeper_kept(), key) >= 0;
}

static void test_keys_name_kind_and_number(void **state)
{
	uint64_t key = keep_key(KEPT_PIDFD, 12345);

	(void)state;
	assert_int_equal(keep_kind_of(key), KEPT_PIDFD);
	assert_int_equal(keep_number_of(key), 12345);
	assert_int_equal(keep_key(KEPT_PIDFD, 0), 0);
	assert_int_equal(keep_key(KEPT_PIDFD, UINT64_MAX), 0); /* of no object, and no other object's */
}

static void test_memory_stays_kept_in_the_pool_and_is_put_once(void **state)
{
	struct peer peer = join();
	unsigned before;
	uint64_t key;

	(void)state;
	broker_keep(&broker, 64u << 20);
	create_with_mode(&peer, "a", 0600);
	key = key_of_only_memory();
	EXPECT_SOON(is_kept(key));
	before = keeper_puts();
	map(&peer, "a");
	expect_done(&peer, WIRE_UNLINK, "a");
	send_closed(peer.sock, session_of(&peer)->mappings.by_id->id);
	EXPECT_SOON(broker.pool->count == 1);
	assert_true(is_kept(key));
	create_with_mode(&peer, "b", 0600);
	assert_int_equal(broker.counters.buffers_recycled, 1);
	assert_int_equal(key_of_only_memory(), key);
	broker_publish(&broker);
	keeper_read();
	assert_true(is_kept(key));
	assert_int_equal(keeper_puts(), before);
	expect_equal_successor();
	expect_done(&peer, WIRE_UNLINK, "b");
	part(&peer);
}

/* The owner, which has a duplicate by the RELEASE, makes the last close. */
static void test_a_release_waits_until_the_keeper_has_dropped(void **state)
{
	struct peer peer = join();
	uint64_t key;

	(void)state;
	broker_keep(&broker, 0);
	create_with_mode(&peer, "a", 0600);
	key = key_of_only_memory();
	run_passes();
	keeper_hang(true);
	expect_done(&peer, WIRE_UNLINK, "a");
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_true(is_kept(key));
	keeper_hang(false);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_false(is_kept(key));
	part(&peer);
}

static void test_a_socket_is_closed_after_the_keeper_has_dropped_it(void **state)
{
	struct peer peer = join(), other = join();
	uint64_t key = keep_key(KEPT_SOCKET, peer.session);

	(void)state;
	run_passes();
	assert_true(is_kept(key) && is_kept(keep_key(KEPT_PIDFD, peer.session)));
	keeper_hang(true);
	part(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	run_passes();
	assert_int_equal(broker.discard->held_count, 1);
	part(&other); /* its DROP is sent behind the fence of the first one */
	EXPECT_SOON(!session_find(&broker, other.session));
	run_passes();
	assert_int_equal(broker.discard->held_count, 2);
	assert_true(is_kept(key));
	keeper_hang(false);
	EXPECT_SOON(!broker.discard->held_count);
	assert_int_equal(kept_count(keeper_kept()), 0);
}

/* A connection without a greeting has no record, so its end is no reason for a commit. */
static void test_what_was_never_kept_goes_without_a_commit(void **state)
{
	int sock = dial();
	uint64_t commit;

	(void)state;
	EXPECT_SOON(greeting() == 1);
	run_passes();
	commit = note.ledger.commit;
	close(sock);
	EXPECT_SOON(greeting() == 0);
	run_passes();
	assert_int_equal(broker.discard->held_count, 0);
	/* as for memory that is freed behind a fence, and was never kept */
	broker.jobs->let--;
	broker_publish(&broker);
	assert_int_equal(broker.jobs->let, broker.jobs->numbers);
	assert_int_equal(note.ledger.commit, commit);
}

/* The socket of a client that is dead stays the session's until the death is proven; the pidfd is still kept. */
static void test_who_hangs_up_with_mappings_is_kept_without_a_socket(void **state)
{
	struct peer peer = join(), other = join();

	(void)state;
	create_with_mode(&other, "a", 0600);
	map(&peer, "a");
	part(&peer);
	EXPECT_SOON(session_of(&peer)->fd < 0);
	run_passes();
	assert_false(is_kept(keep_key(KEPT_SOCKET, peer.session)));
	assert_true(is_kept(keep_key(KEPT_PIDFD, peer.session)));
	expect_equal_successor();
	expect_done(&other, WIRE_UNLINK, "a");
	session_of(&peer)->place.dead = true;
	session_on_death(-1, 0, session_of(&peer));
	EXPECT_SOON(!session_find(&broker, peer.session));
	part(&other);
}

static void test_a_broker_may_die_with_puts_in_the_line(void **state)
{
	struct peer peer = join();
	uint64_t key;

	(void)state;
	run_passes();
	keeper_hang(true);
	create_with_mode(&peer, "a", 0600);
	key = key_of_only_memory();
	assert_false(is_kept(key));
	expect_equal_successor(); /* whose keeper has read the line to its end */
	assert_true(is_kept(key));
	keeper_hang(false);
	expect_done(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

static void test_a_page_is_kept_as_long_as_its_timeline(void **state)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_CREATE, 7, "a");
	uint64_t key;

	(void)state;
	message.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
	key = keep_key(KEPT_PAGE, registry_find(broker.registry, "a")->first);
	EXPECT_SOON(is_kept(key));
	expect_done(&peer, WIRE_UNLINK, "a");
	EXPECT_SOON(!is_kept(key));
	part(&peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(test_keys_name_kind_and_number),
					    TEST(test_memory_stays_kept_in_the_pool_and_is_put_once),
					    TEST(test_a_release_waits_until_the_keeper_has_dropped),
					    TEST(test_what_was_never_kept_goes_without_a_commit),
					    TEST(test_a_socket_is_closed_after_the_keeper_has_dropped_it),
					    TEST(test_who_hangs_up_with_mappings_is_kept_without_a_socket),
					    TEST(test_a_broker_may_die_with_puts_in_the_line),
					    TEST(test_a_page_is_kept_as_long_as_its_timeline) };

	return cmocka_run_group_tests_name("keep", tests, harness_group_setup, harness_group_teardown);
}
