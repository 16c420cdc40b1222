/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session.c - sessions over real sockets: who is let in, and what is served.
 *
 * One user's sessions: what is about several is test-dispatch-users.c's. Sessions that misbehave are
 * test-session-packets.c's, test-session-cut.c's, test-outbox.c's and test-discard.c's; what is kept until a process
 * died is test-session-death.c's. session-harness.h is the world.
 */
#include "session-harness.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- greeting ---- */

static void test_greeting(void **state)
{
	static const uint8_t zeros[WIRE_KEY_SIZE];
	struct peer first = join(), second = join();

	(void)state;
	assert_int_not_equal(first.session, second.session);
	assert_memory_not_equal(first.welcome.key, zeros, WIRE_KEY_SIZE);
	assert_memory_not_equal(first.welcome.key, second.welcome.key, WIRE_KEY_SIZE);
	assert_memory_equal(first.board.header->instance_id, broker.board->header->instance_id, 16);
	assert_int_equal(broker.counters.sessions_opened, 2);
	assert_int_equal(greeting(), 0);
	part(&first);
	part(&second);
	EXPECT_SOON(broker.counters.sessions_left == 2);
}

static void test_wrong_nonce_is_turned_away(void **state)
{
	int sock = dial(), other = dial();
	struct wire_message hello = receive_message(sock), others = receive_message(other);

	(void)state;
	assert_memory_not_equal(hello.hello.nonce, others.hello.nonce, WIRE_NONCE_SIZE);
	close(other);
	hello = hello_to(&hello);
	/* also the right answer to another's challenge */
	memcpy(hello.hello.nonce, others.hello.nonce, WIRE_NONCE_SIZE);
	say(sock, &hello);
	expect_turned_away(sock);
	sock = dial();
	hello = receive_message(sock);
	hello = hello_to(&hello);
	hello.hello.nonce[WIRE_NONCE_SIZE - 1] ^= 1;
	say(sock, &hello);
	expect_turned_away(sock);
}

static void test_wrong_version_is_turned_away(void **state)
{
	int sock = dial();
	struct wire_message hello = receive_message(sock);

	(void)state;
	hello = hello_to(&hello);
	hello.version++;
	say(sock, &hello);
	expect_turned_away(sock);
}

/* Greets with the revisions `oldest` to `newest`, and returns the broker's answer. */
static struct wire_message greeted_with(int sock, uint32_t oldest, uint32_t newest)
{
	struct wire_message hello = receive_message(sock);

	assert_int_equal(hello.hello.oldest, WIRE_REVISION_OLDEST);
	assert_int_equal(hello.hello.newest, WIRE_REVISION);
	hello = hello_to(&hello);
	hello.hello.oldest = oldest;
	hello.hello.newest = newest;
	say(sock, &hello);
	return receive_message(sock);
}

static void test_a_library_without_a_common_revision_is_refused(void **state)
{
	int older = dial(), newer = dial();
	struct wire_message answer = greeted_with(older, 0, WIRE_REVISION_OLDEST - 1);

	(void)state;
	assert_int_equal(answer.type, WIRE_REFUSED);
	assert_non_null(strstr(answer.refused.text, "upgrade the library"));
	close(older);
	answer = greeted_with(newer, WIRE_REVISION + 1, WIRE_REVISION + 1);
	assert_int_equal(answer.type, WIRE_REFUSED);
	assert_non_null(strstr(answer.refused.text, "upgrade the broker"));
	close(newer);
	assert_int_equal(broker.counters.sessions_opened, 0);
}

static void test_a_newer_library_is_served_by_the_common_revision(void **state)
{
	int sock = dial();

	(void)state;
	assert_int_equal(greeted_with(sock, WIRE_REVISION, WIRE_REVISION + 7).type, WIRE_WELCOME);
	assert_int_equal(broker.sessions->by_id->revision, WIRE_REVISION);
	close(sock);
	EXPECT_SOON(!broker.sessions->by_id);
}

static void test_requests_before_the_greeting_are_turned_away(void **state)
{
	struct wire_message message = named(WIRE_CREATE, 1, "early");
	int sock = dial();

	(void)state;
	receive_message(sock);
	say(sock, &message);
	expect_turned_away(sock);
	assert_null(registry_find(broker.registry, "early"));
}

/* It was never charged to anybody, so it must not stay: descriptors would run out for all (invariant 5). */
static void invariant_5_garbage_instead_of_a_greeting_keeps_nothing(void **state)
{
	char garbage[WIRE_SIZE];

	(void)state;
	memset(garbage, 0xee, sizeof garbage);
	for (size_t length = 0; length <= sizeof garbage; length += 64) {
		int sock = dial();

		receive_message(sock);
		assert_int_equal(send(sock, garbage, length, 0), length);
		expect_turned_away(sock);
	}
}

static void test_half_closed_before_the_greeting(void **state)
{
	int sock = dial();

	(void)state;
	receive_message(sock);
	assert_int_equal(shutdown(sock, SHUT_WR), 0);
	expect_turned_away(sock);
}

/* Connections that send nothing take no more than the places there are, and give them back when they end. */
static void invariant_5_greetings_are_bounded(void **state)
{
	enum { MANY = 256 };
	struct wire_message message;
	int sock[MANY], one;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_GREETINGS] = MANY;
	for (int i = 0; i < MANY; i++) {
		sock[i] = dial();
		run_pass();
	}
	EXPECT_SOON(greeting() == MANY);
	one = dial();
	message = receive_message(one);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EDQUOT);
	close(one);
	for (int i = 0; i < MANY; i++)
		close(sock[i]);
	EXPECT_SOON(!greeting());
}

static void test_sessions_over_the_quota_are_refused(void **state)
{
	struct peer first;
	struct wire_message message;
	int sock;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_SESSIONS] = 1;
	first = join();
	sock = dial();
	message = receive_message(sock);
	message = hello_to(&message);
	say(sock, &message);
	message = receive_message(sock);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EDQUOT);
	expect_end(sock);
	close(sock);
	part(&first);
	EXPECT_SOON(!broker.sessions->by_id);
	first = join();
	part(&first);
}

/* ---- serving ---- */

static void test_a_buffers_whole_life(void **state)
{
	struct peer owner = join(), user = join();
	struct wire_message message;
	struct wire_grant grant;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	assert_int_equal(ask(&owner, WIRE_CREATE, "a").refused.error, -EEXIST);
	message = ask(&user, WIRE_STAT, "a");
	assert_int_equal(message.type, WIRE_INFO);
	assert_int_equal(message.info.size, SIZE);
	grant = acquire(&user, "a");
	assert_true(atomic_load(&user.board.words[grant.buffer]) == BOARD_WORD(grant.serial, BOARD_LIVE));
	expect_done(&owner, WIRE_UNLINK, "a");
	assert_true(atomic_load(&user.board.words[grant.buffer]) == BOARD_WORD(grant.serial, BOARD_DRAINING));
	message = receive_message(user.sock);
	assert_int_equal(message.type, WIRE_NOTICE);
	assert_true(message.grant_id.mapping == grant.mapping);
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_int_equal(ask(&user, WIRE_ACQUIRE, "a").refused.error, -ENOENT);
	send_closed(user.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	part(&owner);
	part(&user);
}

static void create_small(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_CREATE, 77, name);

	message.create.size = 100;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

/* What is mapped already needs no sealed handle, also not for the small buffer beside it. */
static void test_a_second_acquire_gets_the_same_mapping_and_no_handle(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_grant first, again, beside, others;

	(void)state;
	create_small(&peer, "a");
	create_small(&peer, "b");
	first = acquire(&peer, "a");
	again = acquire(&peer, "a");
	beside = acquire(&peer, "b");
	others = acquire(&other, "a");
	assert_true(first.place != WIRE_NO_HANDLE && others.place != WIRE_NO_HANDLE);
	assert_true(again.place == WIRE_NO_HANDLE && beside.place == WIRE_NO_HANDLE);
	assert_true(again.mapping == first.mapping && beside.mapping == first.mapping);
	assert_true(others.mapping != first.mapping);
	assert_true(again.serial == first.serial && beside.serial != first.serial);
	assert_true(beside.offset != first.offset && beside.span == first.span);
	assert_int_equal(broker.counters.mappings_opened, 2);
	assert_int_equal(broker.counters.acquires_answered, 4);
	assert_int_equal(ask(&peer, WIRE_STAT, "a").info.grants, 2);
	send_closed(peer.sock, first.mapping);
	EXPECT_SOON(broker.counters.mappings_closed == 1);
	assert_int_equal(ask(&other, WIRE_STAT, "a").info.grants, 1);
	assert_int_equal(ask(&other, WIRE_STAT, "b").info.grants, 0);
	send_closed(other.sock, others.mapping);
	part(&peer);
	part(&other);
}

static void say_quiesced(struct peer *peer, uint64_t mapping, uint64_t serial)
{
	struct wire_message message;

	wire_init(&message, WIRE_QUIESCED, 0);
	message.grant_id.mapping = mapping;
	message.grant_id.serial = serial;
	say(peer->sock, &message);
}

/* From others, of what is not used, or twice: counted, and no more. */
static void invariant_3_a_quiesced_ends_its_senders_grant_alone(void **state)
{
	struct peer holder = join(), attacker = join();
	struct wire_grant grant, beside;

	(void)state;
	create_small(&holder, "a");
	create_small(&holder, "b");
	grant = acquire(&holder, "a");
	beside = acquire(&attacker, "b");
	expect_done(&holder, WIRE_UNLINK, "a");
	say_quiesced(&attacker, grant.mapping, grant.serial);
	say_quiesced(&attacker, beside.mapping, grant.serial);
	say_quiesced(&attacker, UINT64_MAX, UINT64_MAX);
	say_quiesced(&attacker, 0, 0);
	say_quiesced(&holder, grant.mapping, beside.serial);
	expect_served(&attacker);
	EXPECT_SOON(broker.counters.quiesced_foreign == 5);
	assert_int_equal(broker.counters.grants_quiesced, 0);
	assert_int_equal(broker.counters.ranges_cleaned, 0);
	say_quiesced(&holder, grant.mapping, grant.serial);
	EXPECT_SOON(broker.counters.ranges_cleaned == 1);
	say_quiesced(&holder, grant.mapping, grant.serial);
	EXPECT_SOON(broker.counters.quiesced_foreign == 6);
	assert_int_equal(broker.counters.grants_quiesced, 1);
	assert_int_equal(broker.registry->mapping_count, 2);
	send_closed(holder.sock, grant.mapping);
	send_closed(attacker.sock, beside.mapping);
	part(&holder);
	part(&attacker);
}

static int unseal(const struct peer *peer, const struct wire_grant *grant, struct device_handle *handle)
{
	const struct board_header *header = peer->board.header;
	struct seal_terms terms = { .session = peer->session,
				      .mapping = grant->mapping,
				      .serial = grant->serial,
				      .size = grant->size,
				      .offset = grant->offset,
				      .rights = grant->rights,
				      .version = WIRE_VERSION };

	memcpy(terms.instance, header->instance_id, 16);
	memcpy(terms.device_uuid, header->device[grant->owner_device].uuid, 16);
	return handle_unseal(handle, &terms, &peer->board.handles[grant->place], peer->welcome.key);
}

static void invariant_4_a_sealed_handle_opens_for_its_session_alone(void **state)
{
	struct peer holder = join(), thief = join();
	struct device_handle handle, stolen;
	struct wire_grant grant;
	const struct buffer *buffer;

	(void)state;
	expect_done(&holder, WIRE_CREATE, "a");
	grant = acquire(&holder, "a");
	buffer = registry_find(broker.registry, "a");
	assert_int_equal(unseal(&holder, &grant, &handle), 0);
	assert_memory_equal(&handle, &buffer->allocation->handle, sizeof handle);
	assert_int_equal(unseal(&thief, &grant, &stolen), -EKEYREJECTED);
	/* nor with the thief's key under the holder's name */
	thief.session = holder.session;
	assert_int_equal(unseal(&thief, &grant, &stolen), -EKEYREJECTED);
	/* and the handle stands nowhere in what every client can read */
	assert_null(memmem(holder.board.base, holder.board.size, handle.bytes, 16));
	send_closed(holder.sock, grant.mapping);
	part(&holder);
	part(&thief);
}

static void invariant_3_another_sessions_mapping_cannot_be_closed(void **state)
{
	struct peer holder = join(), attacker = join();
	struct wire_grant grant;

	(void)state;
	expect_done(&holder, WIRE_CREATE, "a");
	grant = acquire(&holder, "a");
	expect_done(&attacker, WIRE_UNLINK, "a");
	for (uint64_t id = 0; id < 100; id++)
		send_closed(attacker.sock, id);
	send_closed(attacker.sock, UINT64_MAX);
	expect_served(&attacker);
	assert_int_equal(broker.counters.closed_foreign, 101);
	assert_int_equal(broker.registry->mapping_count, 1);
	assert_int_equal(broker.counters.allocations_freed, 0);
	send_closed(holder.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	/* said twice: counted, and no more */
	send_closed(holder.sock, grant.mapping);
	EXPECT_SOON(broker.counters.closed_foreign == 102);
	part(&holder);
	part(&attacker);
}

static void test_leaving(void **state)
{
	struct peer peer = join();
	struct wire_grant grant;
	struct wire_message leave;

	(void)state;
	expect_done(&peer, WIRE_CREATE, "a");
	grant = acquire(&peer, "a");
	wire_init(&leave, WIRE_LEAVE, 5);
	say(peer.sock, &leave);
	assert_int_equal(receive_message(peer.sock).type, WIRE_LEFT);
	/* only the last CLOSED may follow */
	send_closed(peer.sock, grant.mapping);
	EXPECT_SOON(!broker.registry->mapping_count);
	say(peer.sock, &leave);
	expect_end(peer.sock);
	assert_int_equal(broker.counters.sessions_cut, 1);
	part(&peer);
}

static void test_ephemeral_buffers_go_with_their_creator(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_message create = named(WIRE_CREATE, 1, "short-lived");

	(void)state;
	create.create.flags = GPUB_EPHEMERAL;
	say(peer.sock, &create);
	assert_int_equal(receive_message(peer.sock).type, WIRE_DONE);
	expect_done(&peer, WIRE_CREATE, "lasting");
	part(&peer);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_null(registry_find(broker.registry, "short-lived"));
	assert_non_null(registry_find(broker.registry, "lasting"));
	part(&other);
}

/* Absurd contents of well-formed requests are refused, and the session goes on. */
static void invariant_5_absurd_requests_are_refused(void **state)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_CREATE, 77, "a");

	(void)state;
	message.create.size = UINT64_MAX;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -ENOMEM);
	message.create.size = 0;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -EINVAL);
	message = named(WIRE_CREATE, 77, "a");
	message.create.device = UINT32_MAX;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -ENODEV);
	message = named(WIRE_CREATE, 77, "a");
	message.create.flags = UINT32_MAX;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -EINVAL);
	message = named(WIRE_ACQUIRE, 77, "a");
	message.acquire.rights = 1u << 31;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -EINVAL);
	message = named(WIRE_ACQUIRE, 77, "a");
	message.acquire.device = UINT32_MAX;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -ENODEV);
	assert_int_equal(ask(&peer, WIRE_UNLINK, "/no name").refused.error, -EINVAL);
	wire_init(&message, WIRE_WRITER, 77);
	message.grant_id.mapping = 12345;
	say(peer.sock, &message);
	assert_int_equal(receive_message(peer.sock).refused.error, -EINVAL);
	expect_served(&peer);
	assert_true(registry_empty(broker.registry));
	part(&peer);
}

static void test_hang_up_ends_a_session_without_mappings(void **state)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_ACQUIRE, 1, "never-made");

	(void)state;
	message.acquire.timeout_ms = -1;
	say(peer.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	part(&peer);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(broker.waiting->count, 0);
	assert_int_equal(broker.counters.sessions_left, 1);
	assert_int_equal(broker.counters.sessions_died, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_greeting),
		ON(test_wrong_nonce_is_turned_away),
		ON(test_wrong_version_is_turned_away),
		ON(test_a_library_without_a_common_revision_is_refused),
		ON(test_a_newer_library_is_served_by_the_common_revision),
		ON(test_requests_before_the_greeting_are_turned_away),
		ON(invariant_5_garbage_instead_of_a_greeting_keeps_nothing),
		ON(test_half_closed_before_the_greeting),
		ON(invariant_5_greetings_are_bounded),
		ON(test_sessions_over_the_quota_are_refused),
		ON(test_a_buffers_whole_life),
		ON(test_a_second_acquire_gets_the_same_mapping_and_no_handle),
		ON(invariant_3_a_quiesced_ends_its_senders_grant_alone),
		ON(invariant_4_a_sealed_handle_opens_for_its_session_alone),
		ON(invariant_3_another_sessions_mapping_cannot_be_closed),
		ON(test_leaving),
		ON(test_ephemeral_buffers_go_with_their_creator),
		ON(invariant_5_absurd_requests_are_refused),
		ON(test_hang_up_ends_a_session_without_mappings),
	};

	return cmocka_run_group_tests_name("sessions", tests, harness_group_setup, harness_group_teardown);
}
