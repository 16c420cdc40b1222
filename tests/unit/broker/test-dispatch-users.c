/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-dispatch-users.c - several users at one broker: who may do what with whose buffers, and which CLOSED is trusted.
 *
 * session-harness.h is the world; its peers take other users' names. What managers ask for is test-manage.c's.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/session/session-end.h"

/* ---- rights ---- */

static void test_only_its_owner_or_root_unlinks_a_buffer(void **state)
{
	struct peer owner = join_as(4001), other = join_as(4002), root = join_as(0);
	struct wire_message unlinking = named(WIRE_UNLINK, 1, "a");

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	expect_refused(&other, &unlinking, -EACCES);
	expect_done(&owner, WIRE_UNLINK, "a");
	expect_done(&owner, WIRE_CREATE, "a");
	expect_done(&root, WIRE_UNLINK, "a");
	EXPECT_SOON(broker.counters.allocations_freed == 2);
	part(&owner);
	part(&other);
	part(&root);
}

static void test_who_may_only_read_writes_no_timeline(void **state)
{
	struct peer owner = join_as(4001), reader = join_as(4002);
	struct wire_message create = named(WIRE_CREATE, 1, "a"), acquiring = named(WIRE_ACQUIRE, 1, "a"), writer;
	struct wire_grant grant;

	(void)state;
	create.create.flags = GPUB_TIMELINE;
	create.create.mode = 0604;
	say(owner.sock, &create);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	acquiring.acquire.rights = GPUB_WRITE;
	expect_refused(&reader, &acquiring, -EACCES);
	grant = acquire(&reader, "a");
	assert_int_equal(grant.rights, GPUB_READ);
	wire_init(&writer, WIRE_WRITER, 1);
	writer.grant_id.mapping = grant.mapping;
	writer.grant_id.serial = grant.serial;
	expect_refused(&reader, &writer, -EACCES);
	expect_done(&owner, WIRE_UNLINK, "a");
	part(&owner);
	hang_up_dying(&reader);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
}

/* Who may not unlink a buffer is not told to. */
static void test_a_taken_name_comes_with_advice_that_works(void **state)
{
	struct peer owner = join_as(4001), other = join_as(4002), root = join_as(0);
	struct wire_message create = named(WIRE_CREATE, 1, "a"), beyond = named(WIRE_CREATE, 2, "b"), rename;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	expect_refused_saying(&owner, &create, -EEXIST, "'a' is taken: unlink it first, or choose another");
	expect_refused_saying(&root, &create, -EEXIST, "'a' is taken: unlink it first, or choose another");
	expect_refused_saying(&other, &create, -EEXIST, "'a' is taken by a buffer of another user: choose another");
	expect_done(&other, WIRE_CREATE, "c");
	wire_init(&rename, WIRE_RENAME, 3);
	strcpy(rename.rename.name, "c");
	strcpy(rename.rename.to, "a");
	expect_refused_saying(&other, &rename, -EEXIST, "'a' is taken by a buffer of another user: choose another");
	expect_refused_saying(&root, &rename, -EEXIST, "'a' is taken: unlink it first, or replace it");
	beyond.create.device = 1;
	expect_refused_saying(&owner, &beyond, -ENODEV, "there is no device 1: the broker has 1, numbered from 0");
	beyond = named(WIRE_ACQUIRE, 4, "a");
	beyond.acquire.device = 1;
	expect_refused_saying(&owner, &beyond, -ENODEV, "the broker has 1, numbered from 0");
	expect_done(&owner, WIRE_UNLINK, "a");
	expect_done(&other, WIRE_UNLINK, "c");
	part(&owner);
	part(&other);
	part(&root);
}

/* The middle mode bits are for those in the buffer's group, by their primary group or another. */
static void test_a_group_has_its_bits(void **state)
{
	struct peer owner = join_as(4001), member = join_as(4002), other = join_as(4003);
	struct wire_message writing = named(WIRE_ACQUIRE, 1, "a"), reading = named(WIRE_ACQUIRE, 2, "a");
	struct identity *who = &session_of(&member)->who;

	(void)state;
	create_with_mode(&owner, "a", 0640);
	assert_int_equal(ask(&owner, WIRE_STAT, "a").info.group, 4001);
	expect_refused(&member, &reading, -EACCES);
	who->groups = calloc(2, sizeof *who->groups);
	assert_non_null(who->groups);
	who->group_count = 2;
	who->groups[1] = 4001;
	writing.acquire.rights = GPUB_WRITE;
	expect_refused(&member, &writing, -EACCES);
	assert_int_equal(acquire(&member, "a").rights, GPUB_READ);
	expect_refused(&other, &reading, -EACCES);
	expect_done(&owner, WIRE_UNLINK, "a");
	part(&owner);
	part(&other);
	hang_up_dying(&member);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
}

static void test_only_creators_create(void **state)
{
	static const uid_t named_users[] = { 4001 };
	const struct access_list creators = { .restricted = true, .users = named_users, .user_count = 1 }, all = { 0 };
	struct peer creator = join_as(4001), other = join_as(4002);
	struct wire_message create = named(WIRE_CREATE, 1, "b");

	(void)state;
	broker_configure(&broker, &broker.config->quotas, &creators);
	expect_done(&creator, WIRE_CREATE, "a");
	expect_refused(&other, &create, -EACCES);
	assert_null(registry_find(broker.registry, "b"));
	/* nor may they less than before with what others made */
	create = named(WIRE_ACQUIRE, 1, "a");
	expect_refused(&other, &create, -EACCES);
	broker_configure(&broker, &broker.config->quotas, &all);
	expect_done(&other, WIRE_CREATE, "b");
	part(&creator);
	part(&other);
}

/* ---- quotas ---- */

static void test_each_user_has_its_quota(void **state)
{
	static struct user_quota large = { .uid = 4002 };
	struct quotas quotas = { .users = &large, .count = 1 };
	struct peer small = join_as(4001), favoured = join_as(4002);
	struct wire_message create = named(WIRE_CREATE, 1, "b");

	(void)state;
	quota_init(&quotas.fallback);
	quota_init(&large.quota);
	quotas.fallback.limit[RESOURCE_BUFFERS] = 1;
	large.quota.limit[RESOURCE_BUFFERS] = 2;
	broker_configure(&broker, &quotas, &broker.config->creators);
	expect_done(&small, WIRE_CREATE, "a");
	expect_refused(&small, &create, -EDQUOT);
	expect_done(&favoured, WIRE_CREATE, "b");
	expect_done(&favoured, WIRE_CREATE, "c");
	create = named(WIRE_CREATE, 1, "d");
	expect_refused(&favoured, &create, -EDQUOT);
	/* a smaller one takes nothing away */
	large.quota.limit[RESOURCE_BUFFERS] = 0;
	assert_int_equal(ask(&favoured, WIRE_STAT, "c").type, WIRE_INFO);
	expect_done(&favoured, WIRE_UNLINK, "c");
	EXPECT_SOON(used(4002, RESOURCE_BUFFERS) == 1);
	expect_refused(&favoured, &create, -EDQUOT);
	part(&small);
	part(&favoured);
}

/* The quota lacks memory that a session maps which cannot be notified: the answer is still about the quota. */
static void test_a_refusal_says_what_was_refused(void **state)
{
	struct peer deaf = join_as(4001), peer = join_as(4001);
	struct wire_message create = named(WIRE_CREATE, 1, "b"), answer, idle;
	struct wire_grant grant;

	(void)state;
	broker_keep(&broker, 4 * SIZE);
	expect_done(&deaf, WIRE_CREATE, "a");
	grant = acquire(&deaf, "a");
	expect_done(&peer, WIRE_UNLINK, "a");
	wire_init(&idle, WIRE_QUIESCED, 0);
	idle.grant_id.mapping = grant.mapping;
	idle.grant_id.serial = grant.serial;
	say(deaf.sock, &idle);
	EXPECT_SOON(broker.memory->usages.bytes[0][SPARE_IDLE]);
	assert_int_equal(shutdown(deaf.sock, SHUT_RD), 0);
	broker.accounting->quotas.fallback.limit[RESOURCE_BYTES] = used(4001, RESOURCE_BYTES);
	create.create.size = 3 * SIZE;
	answer = answer_to(&peer, &create);
	assert_int_equal(answer.refused.error, -EDQUOT);
	assert_non_null(strstr(answer.refused.text, "quota"));
	send_closed(deaf.sock, grant.mapping);
	part(&peer);
	hang_up_dying(&deaf);
}

/* A user does not get what exceeds its quota, and the present owner keeps it. */
static void invariant_5_a_grant_over_the_quota_is_refused(void **state)
{
	struct peer peer = join_as(4001);
	struct wire_message acquiring = named(WIRE_ACQUIRE, 1, "b");
	struct wire_grant grant;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_GRANTS] = 1;
	expect_done(&peer, WIRE_CREATE, "a");
	expect_done(&peer, WIRE_CREATE, "b");
	grant = acquire(&peer, "a");
	expect_refused(&peer, &acquiring, -EDQUOT);
	assert_int_equal(broker.counters.refused_quota, 1);
	send_closed(peer.sock, grant.mapping);
	grant = acquire(&peer, "a");
	send_closed(peer.sock, grant.mapping);
	part(&peer);
}

/* All or nothing: the owner's next small buffer still goes beside it. */
static void test_a_gift_over_the_quota_changes_nothing(void **state)
{
	struct peer owner = join_as(4001), root = join_as(0);
	struct wire_message create = named(WIRE_CREATE, 1, "a"), giving = named(WIRE_CHANGE, 2, "a");
	const struct buffer *a;

	(void)state;
	create.create.size = 100;
	assert_int_equal(answer_to(&owner, &create).type, WIRE_DONE);
	a = registry_find(broker.registry, "a");
	giving.change.what = WIRE_CHANGE_OWNER | WIRE_CHANGE_MODE;
	giving.change.owner = 4002;
	giving.change.mode = 0640;
	broker.accounting->quotas.fallback.limit[RESOURCE_BYTES] = a->allocation->span - 1;
	expect_refused(&root, &giving, -EDQUOT);
	assert_int_equal(a->mode, 0600);
	assert_int_equal(a->owner, 4001);
	strcpy(create.create.name, "b");
	assert_int_equal(answer_to(&owner, &create).type, WIRE_DONE);
	assert_ptr_equal(registry_find(broker.registry, "b")->allocation, a->allocation);
	part(&owner);
	part(&root);
}

/* ---- the trust policy ---- */

static void invariant_2_closed_of_another_user_is_not_trusted(void **state)
{
	struct peer owner = join_as(4001), other = join_as(4002);
	struct wire_grant first, second;

	(void)state;
	create_with_mode(&owner, "a", 0606);
	first = acquire(&other, "a");
	send_closed(other.sock, first.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	second = acquire(&other, "a");
	/* one orphaned mapping is enough, and stays charged to that user until its process is dead */
	send_closed(other.sock, second.mapping);
	EXPECT_SOON(broker.counters.mappings_closed == 1);
	assert_int_equal(used(4002, RESOURCE_GRANTS), 1);
	send_closed(other.sock, first.mapping);
	EXPECT_SOON(broker.counters.closed_foreign == 1);
	expect_done(&owner, WIRE_UNLINK, "a");
	part(&owner);
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_int_equal(used(4001, RESOURCE_BYTES), SIZE);
	hang_up_dying(&other);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_int_equal(used(4002, RESOURCE_GRANTS), 0);
}

/* What a process closed and is not trusted with counts against its user's quota as what it has open. */
static void invariant_5_orphaned_grants_count_against_the_quota(void **state)
{
	struct peer owner = join_as(4001), other = join_as(4002);
	struct wire_message third = named(WIRE_ACQUIRE, 9, "c");

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_GRANTS] = 2;
	create_with_mode(&owner, "a", 0606);
	create_with_mode(&owner, "b", 0606);
	create_with_mode(&owner, "c", 0606);
	send_closed(other.sock, acquire(&other, "a").mapping);
	send_closed(other.sock, acquire(&other, "b").mapping);
	expect_refused(&other, &third, -EDQUOT);
	hang_up_dying(&other);
	EXPECT_SOON(!used(4002, RESOURCE_GRANTS));
	part(&owner);
}

/* Its session ends cleanly, and its process goes on: nothing is known of its mapping. */
static void invariant_2_another_users_leaving_frees_nothing(void **state)
{
	struct peer owner = join_as(4001), other = join_as(4002);
	struct wire_message leave;
	struct wire_grant grant;
	struct session *left;

	(void)state;
	create_with_mode(&owner, "a", 0606);
	grant = acquire(&other, "a");
	wire_init(&leave, WIRE_LEAVE, 5);
	say(other.sock, &leave);
	assert_int_equal(receive_message(other.sock).type, WIRE_LEFT);
	send_closed(other.sock, grant.mapping);
	part(&other);
	expect_done(&owner, WIRE_UNLINK, "a");
	part(&owner);
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	left = session_find(&broker, other.session);
	assert_non_null(left);
	assert_true(left->hung_up);
	left->place.dead = true;
	session_prove(left);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
}

/* Where processes are not trusted to close, not even the owner's are. */
static void invariant_2_trust_nobody_applies_to_every_user(void **state)
{
	struct peer owner = join();
	struct wire_grant grant;
	struct wire_message info;

	(void)state;
	broker.registry->trust = TRUST_NOBODY;
	expect_done(&owner, WIRE_CREATE, "a");
	grant = acquire(&owner, "a");
	send_closed(owner.sock, grant.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	info = ask(&owner, WIRE_STAT, "a");
	assert_int_equal(info.info.grants, 0);
	assert_int_equal(info.info.orphaned, 1);
	expect_done(&owner, WIRE_UNLINK, "a");
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	hang_up_dying(&owner);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
}

/* It can open the memory no more through the broker, so it may not write its timeline either. */
static void invariant_2_an_orphaned_mapping_gives_no_rights(void **state)
{
	struct peer owner = join_as(4001), other = join_as(4002);
	struct wire_message create = named(WIRE_CREATE, 1, "a"), acquiring = named(WIRE_ACQUIRE, 2, "a"), writer;
	struct wire_grant grant;

	(void)state;
	create.create.mode = 0606;
	create.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(&owner, &create).type, WIRE_DONE);
	acquiring.acquire.rights = GPUB_WRITE;
	grant = answer_to(&other, &acquiring).grant;
	send_closed(other.sock, grant.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	wire_init(&writer, WIRE_WRITER, 3);
	writer.grant_id.mapping = grant.mapping;
	writer.grant_id.serial = grant.serial;
	expect_refused(&other, &writer, -EINVAL);
	/* and it receives no notice of the unlink: it has nothing to close */
	expect_done(&owner, WIRE_UNLINK, "a");
	expect_served(&other);
	assert_int_equal(broker.counters.notices_sent, 0);
	part(&owner);
	hang_up_dying(&other);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_only_its_owner_or_root_unlinks_a_buffer),
		ON(test_who_may_only_read_writes_no_timeline),
		ON(test_a_taken_name_comes_with_advice_that_works),
		ON(test_a_group_has_its_bits),
		ON(test_only_creators_create),
		ON(test_each_user_has_its_quota),
		ON(test_a_refusal_says_what_was_refused),
		ON(invariant_5_a_grant_over_the_quota_is_refused),
		ON(test_a_gift_over_the_quota_changes_nothing),
		ON(invariant_2_closed_of_another_user_is_not_trusted),
		ON(invariant_5_orphaned_grants_count_against_the_quota),
		ON(invariant_2_another_users_leaving_frees_nothing),
		ON(invariant_2_trust_nobody_applies_to_every_user),
		ON(invariant_2_an_orphaned_mapping_gives_no_rights),
	};

	return cmocka_run_group_tests_name("users", tests, harness_group_setup, harness_group_teardown);
}
