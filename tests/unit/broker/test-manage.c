/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-manage.c - changing a buffer's mode, owner and group: who may, and all or nothing.
 *
 * session-harness.h is the world; its peers take other users' names.
 */
#include "session-harness.h"

#include <errno.h>

#include "broker/base/events.h"
#include "broker/registry/mappings.h"

#define OWNER 4001
#define HEIR  4002

/* ---- chmod, chown ---- */

static struct wire_message change(const char *name, unsigned what)
{
	struct wire_message message = named(WIRE_CHANGE, 77, name);

	message.change.what = what;
	return message;
}

static struct wire_message mode_change(unsigned mode)
{
	struct wire_message message = change("a", WIRE_CHANGE_MODE);

	message.change.mode = mode;
	return message;
}

static struct wire_message owner_change(uid_t owner)
{
	struct wire_message message = change("a", WIRE_CHANGE_OWNER);

	message.change.owner = owner;
	return message;
}

static struct wire_message group_change(gid_t group)
{
	struct wire_message message = change("a", WIRE_CHANGE_GROUP);

	message.change.group = group;
	return message;
}

static void expect_changed(struct peer *peer, struct wire_message message)
{
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static void expect_not_changed(struct peer *peer, struct wire_message message, int error)
{
	const struct buffer *buffer = registry_find(broker.registry, "a");
	struct buffer before = *buffer;

	expect_refused(peer, &message, error);
	assert_int_equal(buffer->mode, before.mode);
	assert_int_equal(buffer->owner, before.owner);
	assert_int_equal(buffer->group, before.group);
}

/* ---- what is told of a change ---- */

#define TOLD_MAX 4

static struct broker_event told_events[TOLD_MAX];
static unsigned told_count;

static void note_event(struct broker *of, const struct broker_event *event)
{
	(void)of;
	assert_in_range(told_count, 0, TOLD_MAX - 1);
	told_events[told_count++] = *event;
}

static void expect_told_mode(unsigned i, uint32_t mode)
{
	assert_true(i < told_count);
	assert_int_equal(told_events[i].kind, EVENT_CHMOD);
	assert_int_equal(told_events[i].detail, mode);
}

static void expect_told_owner(unsigned i, uid_t owner, gid_t group)
{
	assert_true(i < told_count);
	assert_int_equal(told_events[i].kind, EVENT_CHOWN);
	assert_int_equal(told_events[i].other.uid, owner);
	assert_int_equal(told_events[i].detail, group);
}

/* A change of the mode is one event, of the owner or the group is another, and of both are both. */
static void test_a_change_is_told_as_what_it_is(void **state)
{
	struct peer owner = join_as(OWNER), root = join_as(0);
	struct wire_message both = owner_change(HEIR);

	(void)state;
	both.change.what |= WIRE_CHANGE_MODE;
	both.change.mode = 0640;
	create_with_mode(&owner, "a", 0600);
	told_count = 0;
	broker.events->record = note_event;
	expect_changed(&owner, mode_change(0604));
	assert_int_equal(told_count, 1);
	expect_told_mode(0, 0604);
	expect_changed(&owner, group_change(OWNER));
	assert_int_equal(told_count, 2);
	expect_told_owner(1, OWNER, OWNER);
	told_count = 0;
	expect_changed(&root, both);
	assert_int_equal(told_count, 2);
	expect_told_mode(0, 0640);
	expect_told_owner(1, HEIR, OWNER);
	broker.events->record = NULL;
	part(&owner);
	part(&root);
}

static void test_a_mode_holds_from_now_on(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(HEIR);
	struct wire_message acquiring = named(WIRE_ACQUIRE, 1, "a");
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	expect_refused(&other, &acquiring, -EACCES);
	expect_changed(&owner, mode_change(0604));
	assert_int_equal(ask(&other, WIRE_STAT, "a").info.mode, 0604);
	grant = acquire(&other, "a");
	/* what is mapped stays mapped */
	expect_changed(&owner, mode_change(0));
	assert_int_equal(broker.registry->mapping_count, 1);
	assert_non_null(mappings_find(&session_of(&other)->mappings, grant.mapping));
	expect_refused(&other, &acquiring, -EACCES);
	expect_refused(&owner, &acquiring, -EACCES);
	expect_changed(&owner, mode_change(0777));
	part(&owner);
	hang_up_dying(&other);
}

static void test_only_its_owner_or_root_changes_a_buffer(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(HEIR), root = join_as(0);
	struct wire_message absent = change("b", WIRE_CHANGE_MODE);

	(void)state;
	create_with_mode(&owner, "a", 0666);
	expect_not_changed(&other, mode_change(0600), -EACCES);
	expect_not_changed(&other, group_change(HEIR), -EACCES);
	expect_not_changed(&other, owner_change(HEIR), -EACCES);
	expect_changed(&root, mode_change(0640));
	assert_int_equal(registry_find(broker.registry, "a")->mode, 0640);
	expect_refused(&owner, &absent, -ENOENT);
	part(&owner);
	part(&other);
	part(&root);
}

static void test_a_change_makes_sense_or_is_refused(void **state)
{
	struct peer owner = join_as(OWNER);

	(void)state;
	create_with_mode(&owner, "a", 0600);
	expect_not_changed(&owner, mode_change(01000), -EINVAL);
	expect_not_changed(&owner, mode_change(UINT32_MAX), -EINVAL);
	expect_not_changed(&owner, change("a", 0), -EINVAL);
	expect_not_changed(&owner, change("a", 8), -EINVAL);
	expect_not_changed(&owner, change("a", UINT32_MAX), -EINVAL);
	/* a mode that is not to count may be anything */
	expect_changed(&owner, group_change(OWNER));
	part(&owner);
}

/* As with files: or a quota could be filled with what others made. */
static void test_an_owner_gives_to_its_own_groups_and_to_no_user(void **state)
{
	struct peer owner = join_as(OWNER), root = join_as(0);
	struct wire_message both = group_change(5001);
	gid_t group = 5001;
	struct identity *who = &session_of(&owner)->who;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	expect_not_changed(&owner, owner_change(HEIR), -EACCES);
	expect_changed(&owner, owner_change(OWNER));
	expect_not_changed(&owner, group_change(5001), -EACCES);
	who->groups = &group;
	who->group_count = 1;
	expect_changed(&owner, group_change(5001));
	who->groups = NULL;
	who->group_count = 0;
	/* it is not in that group any more, and may leave it as it is */
	both.change.what |= WIRE_CHANGE_MODE;
	both.change.mode = 0660;
	expect_changed(&owner, both);
	both.change.group = 5002;
	both.change.mode = 0666;
	expect_not_changed(&owner, both, -EACCES);
	expect_changed(&root, group_change(5002));
	assert_int_equal(registry_find(broker.registry, "a")->group, 5002);
	part(&owner);
	part(&root);
}

static void expect_charges(uid_t uid, uint64_t buffers)
{
	assert_int_equal(used(uid, RESOURCE_BUFFERS), buffers);
	assert_int_equal(used(uid, RESOURCE_BYTES), buffers * SIZE);
}

/* Each of the two charges may be what the heir cannot pay: then mode and group stay too. */
static void test_chown_is_all_or_nothing(void **state)
{
	static const enum resource resources[] = { RESOURCE_BUFFERS, RESOURCE_BYTES };
	struct peer owner = join_as(OWNER), root = join_as(0);
	struct wire_message all = owner_change(HEIR);

	(void)state;
	create_with_mode(&owner, "a", 0600);
	all.change.what = WIRE_CHANGE_OWNER | WIRE_CHANGE_MODE | WIRE_CHANGE_GROUP;
	all.change.mode = 0644;
	all.change.group = HEIR;
	for (int i = 0; i < 2; i++) {
		broker.accounting->quotas.fallback.limit[resources[i]] = 0;
		expect_not_changed(&root, all, -EDQUOT);
		expect_charges(OWNER, 1);
		expect_charges(HEIR, 0);
		quota_init(&broker.accounting->quotas.fallback);
	}
	expect_changed(&root, all);
	assert_int_equal(ask(&owner, WIRE_STAT, "a").info.owner, HEIR);
	assert_int_equal(ask(&owner, WIRE_STAT, "a").info.group, HEIR);
	assert_int_equal(ask(&owner, WIRE_STAT, "a").info.mode, 0644);
	expect_charges(OWNER, 0);
	expect_charges(HEIR, 1);
	/* to the user that owns it already: it is not charged twice, and no quota refuses it */
	broker.accounting->quotas.fallback.limit[RESOURCE_BUFFERS] = 1;
	expect_changed(&root, all);
	expect_charges(HEIR, 1);
	part(&owner);
	part(&root);
}

/* The memory belongs to another user from now on. Sessions that map it already are other users' to it. */
static void invariant_2_the_previous_owner_is_not_trusted(void **state)
{
	struct peer owner = join_as(OWNER), heir = join_as(HEIR), root = join_as(0);
	struct wire_grant before, after;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	before = acquire(&owner, "a");
	expect_changed(&root, owner_change(HEIR));
	after = acquire(&heir, "a");
	send_closed(heir.sock, after.mapping);
	EXPECT_SOON(broker.counters.mappings_closed == 1);
	send_closed(owner.sock, before.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	expect_done(&heir, WIRE_UNLINK, "a");
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	hang_up_dying(&owner);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	part(&heir);
	part(&root);
}

static void create_small(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_CREATE, 77, name);

	message.create.size = 100;
	message.create.mode = 0600;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static struct wire_message ticket_for(uid_t uid)
{
	struct wire_message message = named(WIRE_ISSUE, 77, "a");

	message.issue.rights = GPUB_READ;
	message.issue.uid = uid;
	return message;
}

/*
 * A user that maps it would map its neighbours, too. So no other user may, while there is a neighbour or a range that
 * was not cleaned.
 */
static void invariant_6_shared_memory_is_not_opened_to_other_users(void **state)
{
	struct peer owner = join_as(OWNER), root = join_as(0), heir = join_as(HEIR);
	struct wire_message message = ticket_for(HEIR), redeeming;

	(void)state;
	create_small(&owner, "a");
	create_small(&owner, "b");
	expect_not_changed(&owner, mode_change(0640), -EBUSY);
	expect_not_changed(&root, group_change(HEIR), -EBUSY);
	expect_not_changed(&root, owner_change(HEIR), -EBUSY);
	expect_refused(&owner, &message, -EBUSY);
	/* as it is already; for its owner; and for anybody, who has to be the owner then */
	expect_changed(&owner, mode_change(0600));
	message = ticket_for(OWNER);
	assert_int_equal(answer_to(&owner, &message).type, WIRE_TICKET);
	message = ticket_for(TICKET_ANY_USER);
	message = answer_to(&owner, &message);
	assert_int_equal(message.type, WIRE_TICKET);
	wire_init(&redeeming, WIRE_REDEEM, 77);
	redeeming.redeem.ticket = message.ticket;
	expect_refused(&heir, &redeeming, -EBUSY);
	assert_int_equal(registry_find(broker.registry, "a")->grant_count, 0);
	/* alone again, and for good */
	expect_done(&owner, WIRE_UNLINK, "b");
	EXPECT_SOON(broker.counters.ranges_cleaned == 1);
	expect_changed(&owner, mode_change(0640));
	create_small(&owner, "c");
	assert_ptr_not_equal(registry_find(broker.registry, "c")->allocation,
			     registry_find(broker.registry, "a")->allocation);
	part(&owner);
	part(&root);
	part(&heir);
}

static void invariant_6_nobody_joins_what_a_ticket_opens_for_others(void **state)
{
	struct peer owner = join_as(OWNER);
	struct wire_message message = ticket_for(HEIR);

	(void)state;
	create_small(&owner, "a");
	assert_int_equal(answer_to(&owner, &message).type, WIRE_TICKET);
	create_small(&owner, "b");
	assert_ptr_not_equal(registry_find(broker.registry, "b")->allocation,
			     registry_find(broker.registry, "a")->allocation);
	part(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_change_is_told_as_what_it_is),
		ON(test_a_mode_holds_from_now_on),
		ON(test_only_its_owner_or_root_changes_a_buffer),
		ON(test_a_change_makes_sense_or_is_refused),
		ON(test_an_owner_gives_to_its_own_groups_and_to_no_user),
		ON(test_chown_is_all_or_nothing),
		ON(invariant_2_the_previous_owner_is_not_trusted),
		ON(invariant_6_shared_memory_is_not_opened_to_other_users),
		ON(invariant_6_nobody_joins_what_a_ticket_opens_for_others),
	};

	return cmocka_run_group_tests_name("changes", tests, harness_group_setup, harness_group_teardown);
}
