/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-resize.c - a buffer that grows: what its owner is charged with, what each session is given of it, and what the
 * seals say.
 *
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/memory/allocation.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/registry/registry.h"
#include "broker/request/waiting.h"
#include "common/error.h"
#include "common/sealed.h"
#include "device/host.h"

#define RESERVE (8 * (uint64_t)SIZE)

static struct wire_message create_growing(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_CREATE, 7, name);

	message.create.reserve = RESERVE;
	message.create.mode = 0666;
	return answer_to(peer, &message);
}

/* 0, or the refusal's errno. */
static int resize(struct peer *peer, const char *name, uint64_t size)
{
	struct wire_message message = named(WIRE_RESIZE, 8, name);

	message.resize.size = size;
	message = answer_to(peer, &message);
	return message.type == WIRE_DONE ? 0 : message.refused.error;
}

static const struct allocation *memory_of(const char *name)
{
	return registry_find(broker.registry, name)->allocation;
}

/* ---- what an acquire brings ---- */

struct brought {
	unsigned            count; /* chunks */
	struct wire_memory  chunk[EXPORT_CHUNKS_MAX];
	struct wire_grant   grant;
};

static struct brought acquired(const struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_ACQUIRE, 5, name);
	struct brought brought = { 0 };
	struct socket_extra extra;

	say(peer->sock, &message);
	for (;;) {
		assert_int_equal(receive_with(peer->sock, &message, &extra), 0);
		if (message.type == WIRE_NOTICE)
			continue;
		if (message.type != WIRE_MEMORY)
			break;
		assert_true(extra.fd >= 0 && brought.count < EXPORT_CHUNKS_MAX);
		close(extra.fd);
		brought.chunk[brought.count++] = message.memory;
	}
	assert_int_equal(message.type, WIRE_GRANT);
	brought.grant = message.grant;
	for (unsigned i = 0; i < brought.count; i++)
		assert_int_equal(brought.chunk[i].mapping, brought.grant.mapping);
	return brought;
}

static void invariant_4_a_chunk_comes_once_to_each_session(void **state)
{
	struct peer holder = join(), other = join();
	struct brought first, next, none, all;

	(void)state;
	assert_int_equal(create_growing(&holder, "a").type, WIRE_DONE);
	first = acquired(&holder, "a");
	assert_true(first.count == 1 && !first.chunk[0].offset && first.chunk[0].span == SIZE &&
		    first.grant.reserve == RESERVE);
	assert_int_equal(resize(&other, "a", 2 * SIZE), 0);
	assert_int_equal(resize(&other, "a", 4 * SIZE), 0);
	next = acquired(&holder, "a");
	assert_true(next.grant.place == WIRE_NO_HANDLE && next.grant.mapping == first.grant.mapping &&
		    next.grant.serial > first.grant.serial);
	assert_true(next.grant.size == 4 * SIZE && next.grant.span == 4 * SIZE);
	assert_true(next.count == 2 && next.chunk[0].offset == SIZE && next.chunk[1].offset == 2 * SIZE &&
		    next.chunk[1].span == 2 * SIZE);
	none = acquired(&holder, "a");
	assert_int_equal(none.count, 0); /* what it has does not come again */
	all = acquired(&other, "a");
	assert_true(all.count == 3 && all.grant.place != WIRE_NO_HANDLE && !all.chunk[0].offset &&
		    all.chunk[2].offset == 2 * SIZE);
	send_closed(holder.sock, first.grant.mapping);
	send_closed(other.sock, all.grant.mapping);
	part(&holder);
	part(&other);
}

/* ---- what it costs ---- */

static void invariant_10_what_a_growth_took_is_given_back(void **state)
{
	struct peer owner = join();
	uid_t uid = getuid();
	uint64_t bytes = used(uid, RESOURCE_BYTES), open_before = used(uid, RESOURCE_DESCRIPTORS), one;
	struct quotas quotas = broker.accounting->quotas;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	assert_int_equal(used(uid, RESOURCE_BYTES), bytes + SIZE); /* the reserve costs nothing */
	one = used(uid, RESOURCE_DESCRIPTORS) - open_before;
	assert_true(one);
	assert_int_equal(resize(&owner, "a", 3 * SIZE), 0);
	assert_int_equal(used(uid, RESOURCE_BYTES), bytes + 3 * SIZE);
	assert_int_equal(used(uid, RESOURCE_DESCRIPTORS), open_before + 2 * one);
	broker.accounting->quotas.fallback.limit[RESOURCE_BYTES] = bytes + 4 * SIZE;
	assert_int_equal(resize(&owner, "a", 5 * SIZE), -EDQUOT);
	broker.accounting->quotas = quotas;
	assert_int_equal(used(uid, RESOURCE_BYTES), bytes + 3 * SIZE);
	assert_int_equal(registry_find(broker.registry, "a")->size, 3 * SIZE);
	assert_int_equal(resize(&owner, "a", SIZE / 2), 0);
	EXPECT_SOON(used(uid, RESOURCE_BYTES) == bytes + SIZE);
	assert_int_equal(used(uid, RESOURCE_DESCRIPTORS), open_before + one);
	assert_int_equal(broker.memory->bytes, memory_of("a")->span);
	part(&owner);
}

/* What the device has made for the user is what it could give back: a create that waits counts on it. */
static void invariant_10_made_chunks_are_counted_for_their_user(void **state)
{
	struct peer owner = join();
	struct wire_message messages[] = { named(WIRE_RESIZE, 8, "a"), named(WIRE_SEAL, 9, "a") };
	const struct usage *usage;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	usage = memory_of("a")->usage;
	assert_int_equal(usage->made, SIZE);
	assert_int_equal(resize(&owner, "a", 3 * SIZE), 0);
	assert_int_equal(usage->made, 3 * SIZE);
	assert_int_equal(resize(&owner, "a", SIZE), 0);
	EXPECT_SOON(usage->made == SIZE);
	/* the device makes a chunk that the buffer does not get, since it is sealed by then */
	messages[0].resize.size = 2 * SIZE;
	assert_true(socket_send_many(owner.sock, messages, 2, 2, 0) > 0);
	for (int i = 0; i < 2; i++)
		receive_message(owner.sock);
	EXPECT_SOON(usage->made == SIZE && broker.memory->bytes == SIZE);
	assert_int_equal(registry_find(broker.registry, "a")->size, SIZE);
	part(&owner);
}

/* A session that does not read, or whose user has too few, is refused, and has no part of it. */
static void invariant_5_chunks_need_as_many_descriptors(void **state)
{
	struct peer owner = join(), peer = join();
	struct quotas quotas = broker.accounting->quotas;
	struct wire_message acquire = named(WIRE_ACQUIRE, 5, "a");
	uint64_t before;
	struct brought brought;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	for (unsigned i = 2; i < 6; i++)
		assert_int_equal(resize(&owner, "a", i * SIZE), 0);
	before = used(getuid(), RESOURCE_DESCRIPTORS);
	/* five come, and two may be on their way */
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = before + 2;
	expect_refused(&peer, &acquire, -EDQUOT);
	assert_true(!session_of(&peer)->mappings.by_id && !memory_of("a")->open);
	broker.accounting->quotas.fallback.limit[RESOURCE_DESCRIPTORS] = before + 3;
	brought = acquired(&peer, "a");
	assert_int_equal(brought.count, 5);
	assert_int_equal(used(getuid(), RESOURCE_DESCRIPTORS), before);
	broker.accounting->quotas = quotas;
	send_closed(peer.sock, brought.grant.mapping);
	part(&peer);
	part(&owner);
}

static void invariant_5_each_chunk_is_a_request_of_its_user(void **state)
{
	struct peer owner = join(), peer = join();
	struct fair_user *user = session_of(&peer)->place.user;
	struct brought brought;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	for (unsigned i = 2; i < 6; i++)
		assert_int_equal(resize(&owner, "a", i * SIZE), 0);
	/* a second: so few that the time of this test adds less than one */
	broker.accounting->quotas.fallback.requests = 1;
	user->tokens = 1;
	brought = acquired(&peer, "a");
	assert_int_equal(brought.count, 5);
	assert_true(user->tokens >= -4 && user->tokens < -3); /* of the acquire and of four chunks behind the first */
	broker.accounting->quotas.fallback.requests = QUOTA_NONE;
	send_closed(peer.sock, brought.grant.mapping);
	part(&peer);
	part(&owner);
}

/* ---- what a shrink leaves ---- */

static void fill(const struct allocation *memory, char value)
{
	char bytes[4096];

	memset(bytes, value, sizeof bytes);
	for (off_t at = 0; at < SIZE; at += (off_t)sizeof bytes)
		assert_int_equal(pwrite(memory->descriptor, bytes, sizeof bytes, at), sizeof bytes);
}

/* How many of its bytes, from the first on, have that value; all behind them are zero. */
static off_t filled(const struct allocation *memory, char value)
{
	char byte = value;
	off_t end = 0;

	for (; end < SIZE && byte == value; end++)
		assert_int_equal(pread(memory->descriptor, &byte, 1, end), 1);
	end -= byte != value;
	for (off_t at = end; at < SIZE; at++) {
		assert_int_equal(pread(memory->descriptor, &byte, 1, at), 1);
		assert_int_equal(byte, 0);
	}
	return end;
}

/* Whoever may map the buffer next could read it behind the end. */
static void invariant_6_what_is_cut_off_is_zero_when_the_shrink_is_answered(void **state)
{
	struct peer owner = join();
	const struct allocation *memory;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	assert_int_equal(resize(&owner, "a", 2 * SIZE), 0);
	memory = memory_of("a");
	fill(memory, 1);
	fill(memory->chunks, 2);
	assert_int_equal(resize(&owner, "a", SIZE + 1000), 0);
	assert_int_equal(filled(memory->chunks, 2), 1000);
	assert_int_equal(filled(memory, 1), SIZE);
	assert_int_equal(resize(&owner, "a", 10), 0);
	assert_int_equal(filled(memory, 1), 10);
	assert_int_equal(memory->busy, 0);
	part(&owner);
}

/* ---- a device that fails ---- */

static unsigned failures;

static void note_failure(struct broker *of, const struct broker_event *event)
{
	(void)of;
	failures += event->kind == EVENT_DEVICE_FAILED;
}

/*
 * The buffer is as it was when a growth fails, and has its new size when a shrink does. Each failure is told once, and
 * nothing else is.
 */
static void test_a_device_that_cannot_zero(void **state)
{
	struct peer owner = join();

	(void)state;
	failures = 0;
	broker.events->record = note_failure;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	assert_int_equal(resize(&owner, "a", 2 * SIZE), 0);
	assert_int_equal(resize(&owner, "a", SIZE + 10), 0);
	assert_int_equal(resize(&owner, "a", SIZE + 20), 0);
	assert_int_equal(failures, 0);
	host_fail_next(HOST_ZERO, 1, EIO);
	assert_int_equal(resize(&owner, "a", 3 * SIZE), -EIO);
	assert_int_equal(registry_find(broker.registry, "a")->size, SIZE + 20);
	assert_int_equal(used(getuid(), RESOURCE_BYTES), 2 * SIZE);
	assert_int_equal(failures, 1);
	host_fail_next(HOST_ZERO, 1, EIO);
	assert_int_equal(resize(&owner, "a", SIZE + 5), -EIO);
	assert_int_equal(registry_find(broker.registry, "a")->size, SIZE + 5);
	assert_int_equal(failures, 2);
	assert_int_equal(resize(&owner, "a", 3 * SIZE), 0);
	assert_int_equal(failures, 2);
	broker.events->record = NULL;
	part(&owner);
}

static void test_a_new_owner_is_charged_with_all_of_it(void **state)
{
	struct peer owner = join();
	uid_t uid = getuid(), heir = uid + 1;
	uint64_t bytes = used(uid, RESOURCE_BYTES);
	struct buffer *buffer;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	assert_int_equal(resize(&owner, "a", 2 * SIZE), 0);
	assert_int_equal(resize(&owner, "a", 3 * SIZE), 0);
	buffer = registry_find(broker.registry, "a");
	memory_hold(buffer->allocation); /* as a growth does, which goes on */
	assert_int_equal(registry_change_owner(broker.registry, buffer, heir), -EBUSY);
	assert_non_null(strstr(error_text(), "'a' is being resized"));
	memory_unhold(broker.memory, buffer->allocation);
	broker.accounting->quotas.fallback.limit[RESOURCE_BYTES] = bytes + 3 * SIZE - 1;
	assert_int_equal(registry_change_owner(broker.registry, buffer, heir), -EDQUOT);
	assert_true(used(uid, RESOURCE_BYTES) == bytes + 3 * SIZE && !used(heir, RESOURCE_BYTES));
	broker.accounting->quotas.fallback.limit[RESOURCE_BYTES] = QUOTA_NONE;
	assert_int_equal(registry_change_owner(broker.registry, buffer, heir), 0);
	assert_true(used(uid, RESOURCE_BYTES) == bytes && used(heir, RESOURCE_BYTES) == 3 * SIZE);
	part(&owner);
}

/* ---- growths that nobody needs any more ---- */

/* A device that is full, and a growth of "a" that first zeroes, and then would wait for memory without limit. */
static struct wire_message grow_without_room(struct peer *owner)
{
	struct wire_message large = named(WIRE_CREATE, 7, "large"), grow = named(WIRE_RESIZE, 8, "a");

	assert_int_equal(create_growing(owner, "a").type, WIRE_DONE);
	large.create.size = 252u << 20;
	assert_int_equal(answer_to(owner, &large).type, WIRE_DONE);
	assert_int_equal(resize(owner, "a", SIZE / 2), 0);
	grow.resize.size = RESERVE;
	grow.resize.timeout_ms = -1;
	return grow;
}

static void test_a_seal_while_a_growth_zeroes_ends_it(void **state)
{
	struct peer owner = join();
	struct wire_message messages[] = { grow_without_room(&owner), named(WIRE_SEAL, 9, "a") }, answer;
	bool refused = false;

	(void)state;
	assert_true(socket_send_many(owner.sock, messages, 2, 2, 0) > 0);
	for (int i = 0; i < 2; i++) {
		answer = receive_message(owner.sock);
		refused |= answer.type == WIRE_REFUSED && answer.request == 8 && answer.refused.error == -EROFS;
	}
	assert_true(refused);
	assert_int_equal(broker.waiting->count, 0);
	part(&owner);
}

static void test_a_growth_does_not_wait_for_who_has_left(void **state)
{
	struct peer owner = join(), other = join();
	struct wire_message messages[] = { grow_without_room(&owner), { .type = WIRE_LEAVE } };

	(void)state;
	wire_init(&messages[1], WIRE_LEAVE, 9);
	assert_true(socket_send_many(owner.sock, messages, 2, 2, 0) > 0);
	assert_int_equal(receive_message(owner.sock).type, WIRE_LEFT);
	EXPECT_SOON(!memory_of("a")->busy);
	assert_int_equal(broker.waiting->count, 0);
	assert_int_equal(resize(&other, "a", SIZE), 0);
	part(&owner);
	part(&other);
}

/* ---- tickets ---- */

static void test_tickets_end_with_the_size(void **state)
{
	struct peer owner = join();
	struct wire_message issue = named(WIRE_ISSUE, 9, "a"), redeem, answer;

	(void)state;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	issue.issue.rights = GPUB_READ;
	issue.issue.uid = TICKET_ANY_USER;
	issue.issue.once = 1;
	answer = answer_to(&owner, &issue);
	assert_int_equal(answer.type, WIRE_TICKET);
	assert_int_equal(used(getuid(), RESOURCE_TICKETS), 1);
	assert_int_equal(resize(&owner, "a", 2 * SIZE), 0);
	assert_int_equal(used(getuid(), RESOURCE_TICKETS), 0);
	wire_init(&redeem, WIRE_REDEEM, 10);
	redeem.redeem.ticket = answer.ticket;
	expect_refused(&owner, &redeem, -ESTALE);
	part(&owner);
}

/* ---- the pool ---- */

/* Who mapped pooled memory keeps its handle, and the buffer may be for fewer by now. */
static void invariant_6_a_chunk_is_no_pooled_memory(void **state)
{
	struct peer owner = join();
	struct wire_message dedicated = named(WIRE_CREATE, 9, "pooled");
	uint64_t recycled;

	(void)state;
	broker.memory->exported = EXPORT_VMM;
	usages_limit(&broker.memory->usages, RESERVE);
	dedicated.create.flags = GPUB_DEDICATED;
	dedicated.create.mode = 0666;
	assert_int_equal(answer_to(&owner, &dedicated).type, WIRE_DONE);
	expect_done(&owner, WIRE_UNLINK, "pooled");
	EXPECT_SOON(broker.pool->count == 1);
	recycled = broker.counters.buffers_recycled;
	assert_int_equal(create_growing(&owner, "a").type, WIRE_DONE);
	assert_int_equal(resize(&owner, "a", 2 * SIZE), 0);
	assert_int_equal(broker.counters.buffers_recycled, recycled);
	assert_int_equal(broker.pool->count, 1);
	part(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_4_a_chunk_comes_once_to_each_session),
		ON(invariant_10_what_a_growth_took_is_given_back),
		ON(invariant_10_made_chunks_are_counted_for_their_user),
		ON(invariant_5_chunks_need_as_many_descriptors),
		ON(invariant_5_each_chunk_is_a_request_of_its_user),
		ON(invariant_6_what_is_cut_off_is_zero_when_the_shrink_is_answered),
		ON(test_a_device_that_cannot_zero),
		ON(test_a_new_owner_is_charged_with_all_of_it),
		ON(test_a_seal_while_a_growth_zeroes_ends_it),
		ON(test_a_growth_does_not_wait_for_who_has_left),
		ON(test_tickets_end_with_the_size),
		ON(invariant_6_a_chunk_is_no_pooled_memory),
	};

	return cmocka_run_group_tests_name("resize", tests, harness_group_setup, harness_group_teardown);
}
