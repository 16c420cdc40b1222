/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-manage-publish.c - seals, renames, rights that are asked for later, questions for a newer buffer: who may, and
 * all or nothing.
 *
 * session-harness.h is the world; its peers take other users' names.
 */
#include "session-harness.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "broker/memory/allocation.h"
#include "broker/registry/registry.h"

#define OWNER    4001
#define STRANGER 4002
#define BOTH     (GPUB_READ | GPUB_WRITE)

static struct wire_message rename_of(const char *name, const char *to, unsigned flags)
{
	struct wire_message message = named(WIRE_RENAME, 77, name);

	strcpy(message.rename.to, to);
	message.rename.flags = flags;
	return message;
}

static void expect_renamed(struct peer *peer, const char *name, const char *to, unsigned flags)
{
	struct wire_message message = rename_of(name, to, flags);

	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

/* What has these names keeps them, and nobody is told anything. */
static void expect_not_renamed(struct peer *peer, const char *name, const char *to, unsigned flags, int error)
{
	const struct buffer *from = registry_find(broker.registry, name), *there = registry_find(broker.registry, to);
	struct wire_message message = rename_of(name, to, flags);
	uint64_t serial = from ? from->serial : 0, notices = broker.counters.notices_sent,
		 unlinked = broker.counters.buffers_unlinked;

	expect_refused(peer, &message, error);
	assert_ptr_equal(registry_find(broker.registry, name), from);
	assert_ptr_equal(registry_find(broker.registry, to), there);
	assert_true(!from || from->serial == serial);
	assert_int_equal(broker.counters.notices_sent, notices);
	assert_int_equal(broker.counters.buffers_unlinked, unlinked);
}

static struct wire_message rights_of(const struct wire_grant *grant, unsigned rights)
{
	struct wire_message message;

	wire_init(&message, WIRE_RIGHTS, 77);
	message.rights = (struct wire_rights){ .mapping = grant->mapping, .serial = grant->serial, .rights = rights };
	return message;
}

static void expect_rights(struct peer *peer, const struct wire_grant *grant, unsigned rights)
{
	struct wire_message message = rights_of(grant, rights);

	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static void expect_no_rights(struct peer *peer, const struct wire_grant *grant, unsigned rights, int error)
{
	struct wire_message message = rights_of(grant, rights);

	expect_refused(peer, &message, error);
}

/* ---- who may ---- */

static void test_its_owner_or_root_publishes_a_buffer(void **state)
{
	struct peer owner = join_as(OWNER), stranger = join_as(STRANGER), root = join_as(0);
	struct wire_message seal = named(WIRE_SEAL, 77, "a");

	(void)state;
	create_with_mode(&owner, "a", 0666);
	create_with_mode(&stranger, "s", 0666);
	expect_refused(&stranger, &seal, -EACCES);
	expect_not_renamed(&stranger, "a", "b", 0, -EACCES);
	expect_not_renamed(&stranger, "s", "a", GPUB_REPLACE, -EACCES);
	expect_not_renamed(&owner, "a", "s", GPUB_REPLACE, -EACCES);
	expect_renamed(&root, "s", "a", GPUB_REPLACE);
	assert_int_equal(ask(&owner, WIRE_STAT, "a").info.owner, STRANGER);
	expect_refused(&owner, &seal, -EACCES);
	expect_done(&root, WIRE_SEAL, "a");
	assert_int_equal(ask(&owner, WIRE_STAT, "a").info.flags, GPUB_SEALED);
	part(&owner);
	part(&stranger);
	part(&root);
}

static void test_a_rename_makes_sense_or_is_refused(void **state)
{
	struct peer owner = join_as(OWNER);

	(void)state;
	create_with_mode(&owner, "a", 0600);
	create_with_mode(&owner, "b", 0600);
	expect_not_renamed(&owner, "a", "b", 0, -EEXIST);
	expect_not_renamed(&owner, "a", "b", 4, -EINVAL);
	expect_not_renamed(&owner, "a", "b", UINT32_MAX, -EINVAL);
	expect_not_renamed(&owner, "a", "", GPUB_REPLACE, -EINVAL);
	expect_not_renamed(&owner, "a", "/b", GPUB_REPLACE, -EINVAL);
	expect_not_renamed(&owner, "c", "b", GPUB_REPLACE, -ENOENT);
	part(&owner);
}

/* It has that name already: it keeps its generation, and its leases stay good. */
static void test_a_rename_to_its_own_name_changes_nothing(void **state)
{
	struct peer owner = join_as(OWNER);
	uint64_t serial;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	acquire(&owner, "a");
	serial = registry_find(broker.registry, "a")->serial;
	expect_renamed(&owner, "a", "a", 0);
	expect_renamed(&owner, "a", "a", GPUB_REPLACE);
	assert_int_equal(registry_find(broker.registry, "a")->serial, serial);
	assert_int_equal(broker.counters.notices_sent, 0);
	hang_up_dying(&owner);
}

/* A ticket says which generation of the buffer it is for: no later one is, and it costs its issuer nothing any more. */
static void test_tickets_end_with_the_name(void **state)
{
	struct peer owner = join();
	struct wire_message issue = named(WIRE_ISSUE, 9, "a"), redeem, answer;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	issue.issue.rights = GPUB_READ;
	issue.issue.uid = TICKET_ANY_USER;
	issue.issue.once = 1;
	answer = answer_to(&owner, &issue);
	assert_int_equal(answer.type, WIRE_TICKET);
	assert_int_equal(used(getuid(), RESOURCE_TICKETS), 1);
	expect_renamed(&owner, "a", "b", 0);
	assert_int_equal(used(getuid(), RESOURCE_TICKETS), 0);
	wire_init(&redeem, WIRE_REDEEM, 10);
	redeem.redeem.ticket = answer.ticket;
	expect_refused(&owner, &redeem, -ESTALE);
	part(&owner);
}

/* Its creator has been promised the name. */
static void test_what_is_being_made_is_not_replaced(void **state)
{
	struct peer owner = join_as(OWNER);
	struct buffer *made;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	create_with_mode(&owner, "b", 0600);
	made = registry_find(broker.registry, "b");
	made->state = BUFFER_CREATING;
	expect_not_renamed(&owner, "a", "b", GPUB_REPLACE, -EBUSY);
	expect_not_renamed(&owner, "b", "c", 0, -ENOENT);
	made->state = BUFFER_LIVE;
	part(&owner);
}

/* ---- rights ---- */

static struct wire_grant redeemed(struct peer *from, struct peer *to, unsigned rights)
{
	struct wire_message message = named(WIRE_ISSUE, 77, "a"), redeem;

	message.issue.rights = rights;
	message.issue.uid = TICKET_ANY_USER;
	message = answer_to(from, &message);
	assert_int_equal(message.type, WIRE_TICKET);
	wire_init(&redeem, WIRE_REDEEM, 77);
	redeem.redeem.ticket = message.ticket;
	message = answer_to(to, &redeem);
	assert_int_equal(message.type, WIRE_GRANT);
	return message.grant;
}

/* Not to what its ticket does not say: only the mode can add that. */
static void invariant_6_a_ticket_to_read_is_none_to_write(void **state)
{
	struct peer owner = join_as(OWNER), stranger = join_as(STRANGER);
	struct wire_message mode = named(WIRE_CHANGE, 77, "a");
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	grant = redeemed(&owner, &stranger, GPUB_READ);
	expect_no_rights(&stranger, &grant, GPUB_WRITE, -EACCES);
	expect_no_rights(&stranger, &grant, BOTH, -EACCES);
	assert_int_equal(registry_find(broker.registry, "a")->writers, 0);
	mode.change.what = WIRE_CHANGE_MODE;
	mode.change.mode = 0606;
	assert_int_equal(answer_to(&owner, &mode).type, WIRE_DONE);
	expect_rights(&stranger, &grant, GPUB_WRITE);
	assert_int_equal(registry_find(broker.registry, "a")->writers, 1);
	part(&owner);
	hang_up_dying(&stranger);
}

static void test_rights_of_what_is_gone_are_stale(void **state)
{
	struct peer owner = join_as(OWNER);
	struct wire_grant grant, none;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	grant = acquire(&owner, "a");
	none = grant;
	none.mapping++;
	expect_no_rights(&owner, &none, GPUB_READ, -ESTALE);
	expect_renamed(&owner, "a", "b", 0);
	expect_no_rights(&owner, &grant, GPUB_WRITE, -ESTALE);
	grant = acquire(&owner, "b");
	expect_done(&owner, WIRE_UNLINK, "b");
	expect_no_rights(&owner, &grant, GPUB_READ, -ESTALE);
	hang_up_dying(&owner);
}

/* A writer of before a rename writes the same memory. It ends under the earlier serial, or with its mapping. */
static void test_a_writer_under_an_earlier_name_is_in_the_way(void **state)
{
	struct peer owner = join_as(OWNER), writer = join_as(OWNER);
	struct wire_message seal = named(WIRE_SEAL, 77, "b");
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	grant = acquire(&writer, "a");
	expect_rights(&writer, &grant, GPUB_WRITE);
	expect_renamed(&owner, "a", "b", 0);
	acquire(&writer, "b");
	expect_refused(&owner, &seal, -EBUSY);
	expect_refused(&writer, &seal, -EBUSY);
	send_closed(writer.sock, grant.mapping);
	EXPECT_SOON(!registry_find(broker.registry, "b")->writers);
	expect_done(&owner, WIRE_SEAL, "b");
	expect_done(&owner, WIRE_SEAL, "b");
	part(&owner);
	part(&writer);
}

static void test_a_buffer_is_not_born_sealed(void **state)
{
	struct peer owner = join_as(OWNER);
	struct wire_message create = named(WIRE_CREATE, 77, "a");

	(void)state;
	create.create.flags = GPUB_SEALED;
	expect_refused(&owner, &create, -EINVAL);
	part(&owner);
}

/* ---- a newer buffer ---- */

static struct wire_message newer_than(const char *name, uint64_t generation, int timeout_ms)
{
	struct wire_message message = named(WIRE_NEWER, 77, name);

	message.newer.generation = generation;
	message.newer.timeout_ms = timeout_ms;
	return message;
}

static void test_a_question_that_cannot_wait_is_answered_at_once(void **state)
{
	struct peer owner = join_as(OWNER);
	struct wire_message message;
	uint64_t serial;

	(void)state;
	message = newer_than("a", 0, 0);
	expect_refused(&owner, &message, -ENOENT);
	create_with_mode(&owner, "a", 0600);
	serial = registry_find(broker.registry, "a")->serial;
	assert_true(answer_to(&owner, &message).info.generation == serial);
	message = newer_than("a", serial, 0);
	expect_refused(&owner, &message, -ETIMEDOUT);
	/* the answer does not tell which generations there have been */
	message = newer_than("a", serial + 1, 0);
	expect_refused(&owner, &message, -ETIMEDOUT);
	message = newer_than("a", UINT64_MAX, 0);
	expect_refused(&owner, &message, -ETIMEDOUT);
	message = newer_than("b", UINT64_MAX, 0);
	expect_refused(&owner, &message, -ENOENT);
	message = newer_than("", 0, -1);
	expect_refused(&owner, &message, -EINVAL);
	assert_int_equal(broker.waiting->count, 0);
	part(&owner);
}

/* A create answers only who asked for less than its generation; who asked for more waits on. */
static void test_a_question_for_a_far_generation_waits_until_it_is_reached(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(OWNER);
	struct wire_message message;
	uint64_t serial;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	serial = registry_find(broker.registry, "a")->serial;
	message = newer_than("a", serial + 1, -1);
	say(other.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	message = newer_than("a", serial, -1);
	say(other.sock, &message);
	EXPECT_SOON(broker.waiting->count == 2);
	expect_done(&owner, WIRE_UNLINK, "a");
	create_with_mode(&owner, "a", 0600);
	assert_int_equal(receive_message(other.sock).info.generation, serial + 1);
	run_passes();
	assert_int_equal(received_already(other.sock, &message), 0);
	assert_int_equal(broker.waiting->count, 1);
	expect_done(&owner, WIRE_UNLINK, "a");
	create_with_mode(&owner, "a", 0600);
	assert_int_equal(receive_message(other.sock).info.generation, serial + 2);
	part(&owner);
	part(&other);
}

/* None is made any more: as an acquire, the question must not keep a client until the broker ends. */
static void test_a_stopping_broker_lets_nobody_wait(void **state)
{
	struct peer owner = join_as(OWNER), holder = join_as(OWNER);
	struct wire_message message = newer_than("a", 0, -1);
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	grant = acquire(&holder, "a");
	message.newer.generation = grant.serial;
	say(owner.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	broker_stop(&broker, NULL, NULL);
	assert_int_equal(receive_message(owner.sock).refused.error, -ENOENT);
	expect_refused(&owner, &message, -ENOENT);
	assert_int_equal(broker.waiting->count, 0);
	send_closed(holder.sock, grant.mapping);
	part(&owner);
	part(&holder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_its_owner_or_root_publishes_a_buffer),
		ON(test_a_rename_makes_sense_or_is_refused),
		ON(test_a_rename_to_its_own_name_changes_nothing),
		ON(test_tickets_end_with_the_name),
		ON(test_what_is_being_made_is_not_replaced),
		ON(invariant_6_a_ticket_to_read_is_none_to_write),
		ON(test_rights_of_what_is_gone_are_stale),
		ON(test_a_writer_under_an_earlier_name_is_in_the_way),
		ON(test_a_buffer_is_not_born_sealed),
		ON(test_a_question_that_cannot_wait_is_answered_at_once),
		ON(test_a_question_for_a_far_generation_waits_until_it_is_reached),
		ON(test_a_stopping_broker_lets_nobody_wait),
	};

	return cmocka_run_group_tests_name("publishing", tests, harness_group_setup, harness_group_teardown);
}
