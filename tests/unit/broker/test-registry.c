/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry.c - the registry: memory is freed when its name is gone and every mapping has ended, exactly once, in
 * whatever order these come. registry-harness.h is the world: what many buffers share, and what a session's acquires
 * do, is test-registry-shared.c's and test-mappings.c's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry-harness.h"
#include "broker/users/identity.h"
#include "common/error.h"

/* ---- a buffer's life ---- */

static void test_words_follow_a_buffers_life(void **state)
{
	struct buffer *buffer;
	struct mapping *mapping;
	uint32_t place;
	uint64_t serial;

	(void)state;
	assert_int_equal(reserve("a", &buffer), 0);
	place = buffer->place;
	serial = buffer->serial;
	assert_int_equal(words[place] & 3, BOARD_FREE);
	ready(buffer);
	expect_word(buffer, BOARD_LIVE);
	mapping = mapping_to(&mappings, buffer);
	registry_unlink(&registry, buffer);
	expect_word(buffer, BOARD_DRAINING);
	mapping_end(&registry, mapping);
	expect_word(buffer, BOARD_DRAINING);
	release_all();
	assert_true(words[place] == BOARD_WORD(serial, BOARD_FREE));
}

static void invariant_2_unlink_without_mappings_frees(void **state)
{
	struct buffer *buffer = live("a");

	(void)state;
	assert_int_equal(releases, 0);
	registry_unlink(&registry, buffer);
	assert_int_equal(releases, 1);
	assert_int_equal(notices, 0);
}

static void invariant_2_ended_mappings_without_unlink_do_not_free(void **state)
{
	struct buffer *buffer = live("a");

	(void)state;
	for (int i = 0; i < 3; i++)
		mapping_end(&registry, mapping_to(&mappings, buffer));
	assert_int_equal(releases, 0);
	registry_unlink(&registry, buffer);
	assert_int_equal(releases, 1);
}

/* Unlinked after none, one, two or three of three mappings have ended, in each of the six orders. */
static void end_in_order(const int order[3], int unlink_after)
{
	struct buffer *buffer = live("a");
	struct mapping *mapping[3];

	notices = 0;
	for (int i = 0; i < 3; i++)
		mapping[i] = mapping_to(i ? &mappings : &other_mappings, buffer);
	for (int i = 0; i <= 3; i++) {
		if (i == unlink_after)
			registry_unlink(&registry, buffer);
		assert_int_equal(releases, i == 3);
		if (i < 3)
			mapping_end(&registry, mapping[order[i]]);
	}
	release_all();
	assert_true(registry_empty(&registry));
}

static void invariant_2_freed_once_in_every_order(void **state)
{
	static const int orders[6][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
	};

	(void)state;
	for (int o = 0; o < 6; o++)
		for (int unlink_after = 0; unlink_after <= 3; unlink_after++)
			end_in_order(orders[o], unlink_after);
}

/* The name is free at once, though the memory lives; and the two buffers do not touch each other. */
static void invariant_8_a_new_generation_beside_a_draining_one(void **state)
{
	struct buffer *old = live("a"), *fresh;
	struct mapping *orphaned = mapping_to(&mappings, old);
	uint64_t serial = old->serial;
	struct mapping *newer;

	(void)state;
	registry_unlink(&registry, old);
	assert_null(registry_find(&registry, "a"));
	fresh = live("a");
	assert_true(fresh->serial > serial);
	assert_int_not_equal(fresh->place, old->place);
	newer = mapping_to(&mappings, fresh);
	mapping_end(&registry, newer);
	assert_int_equal(releases, 0);
	expect_word(old, BOARD_DRAINING);
	expect_word(fresh, BOARD_LIVE);
	mapping_end(&registry, orphaned);
	assert_int_equal(releases, 1);
	registry_unlink(&registry, fresh);
	assert_int_equal(releases, 2);
}

static void test_unlink_notices_each_open_mapping(void **state)
{
	struct buffer *buffer = live("a"), *other = live("b");
	struct mapping *mapping[4];

	(void)state;
	for (int i = 0; i < 3; i++)
		mapping[i] = mapping_to(&mappings, buffer);
	mapping[3] = mapping_to(&mappings, other);
	mapping_end(&registry, mapping[1]);
	registry_unlink(&registry, buffer);
	assert_int_equal(notices, 2);
	assert_true(noticed[0] == mapping[0]->id && noticed[1] == mapping[2]->id);
	mapping_end(&registry, mapping[0]);
	mapping_end(&registry, mapping[2]);
	mapping_end(&registry, mapping[3]);
	registry_unlink(&registry, other);
	assert_int_equal(notices, 2);
}

static void test_abandoned_buffer_leaves_nothing(void **state)
{
	struct buffer *buffer;

	(void)state;
	assert_int_equal(reserve("a", &buffer), 0);
	assert_ptr_equal(registry_find(&registry, "a"), buffer);
	assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == 1);
	registry_abandon(&registry, buffer);
	assert_null(registry_find(&registry, "a"));
	/* the device never made it: nothing to free */
	assert_int_equal(releases, 0);
	assert_true(used(RESOURCE_BYTES) == 0 && used(RESOURCE_BUFFERS) == 0);
}

/* ---- refusals ---- */

static void test_a_name_is_taken_once(void **state)
{
	struct buffer *buffer = live("a"), *second = NULL;

	(void)state;
	assert_int_equal(reserve("a", &second), -EEXIST);
	assert_null(second);
	assert_non_null(strstr(error_text(), "'a'"));
	registry_unlink(&registry, buffer);
	/* also while it is being made */
	assert_int_equal(reserve("b", &buffer), 0);
	assert_int_equal(reserve("b", &second), -EEXIST);
	registry_abandon(&registry, buffer);
}

static void test_board_full_of_buffers(void **state)
{
	struct buffer *buffer[BUFFERS], *more = NULL;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < BUFFERS; i++) {
		snprintf(name, sizeof name, "b%u", i);
		buffer[i] = live(name);
	}
	assert_int_equal(reserve("more", &more), -EDQUOT);
	assert_null(more);
	assert_true(used(RESOURCE_BYTES) == BUFFERS * (uint64_t)SPAN && used(RESOURCE_BUFFERS) == BUFFERS);
	/* a draining one still has its word */
	registry_unlink(&registry, buffer[3]);
	assert_int_equal(reserve("more", &more), -EDQUOT);
	release_all();
	more = live("more");
	registry_unlink(&registry, more);
	for (unsigned i = 0; i < BUFFERS; i++)
		if (i != 3)
			registry_unlink(&registry, buffer[i]);
}

static void test_board_full_of_sealed_handles(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *mapping[HANDLES], *more = NULL;

	(void)state;
	for (unsigned i = 0; i < HANDLES; i++)
		mapping[i] = mapping_to(&mappings, buffer);
	assert_int_equal(mapping_try(SESSION, OWNER, &mappings, buffer, &more), -ENOSPC);
	assert_null(more);
	assert_true(used(RESOURCE_GRANTS) == HANDLES);
	assert_int_equal(buffer->allocation->open, HANDLES);
	mapping_end(&registry, mapping[5]);
	mapping[5] = mapping_to(&mappings, buffer);
	for (unsigned i = 0; i < HANDLES; i++)
		mapping_end(&registry, mapping[i]);
	registry_unlink(&registry, buffer);
}

/* Each of the two charges of a create is refunded when the other is refused. */
static void test_quotas_are_charged_and_refunded(void **state)
{
	struct buffer *buffer = NULL;
	struct mapping *mapping = NULL;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_BYTES] = SPAN - 1;
	assert_int_equal(reserve("a", &buffer), -EDQUOT);
	assert_true(used(RESOURCE_BUFFERS) == 0);
	accounting.quotas.fallback.limit[RESOURCE_BYTES] = SPAN;
	accounting.quotas.fallback.limit[RESOURCE_BUFFERS] = 0;
	assert_int_equal(reserve("a", &buffer), -EDQUOT);
	assert_null(registry_find(&registry, "a"));
	assert_true(used(RESOURCE_BYTES) == 0);
	accounting.quotas.fallback.limit[RESOURCE_BUFFERS] = 1;
	buffer = live("a");
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 0;
	assert_int_equal(mapping_try(SESSION, OWNER, &mappings, buffer, &mapping), -EDQUOT);
	assert_null(mappings.by_id);
	/* the bytes are charged until they are freed, not until the name is gone */
	registry_unlink(&registry, buffer);
	assert_true(used(RESOURCE_BYTES) == SPAN);
	release_all();
	assert_true(used(RESOURCE_BYTES) == 0);
}

/* ---- mappings ---- */

static void invariant_3_another_sessions_mapping_is_not_found(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *mine = mapping_to(&mappings, buffer), *other = mapping_to(&other_mappings, buffer);
	uint64_t id = mine->id;

	(void)state;
	assert_ptr_equal(mappings_find(&mappings, mine->id), mine);
	assert_null(mappings_find(&other_mappings, mine->id));
	assert_null(mappings_find(&mappings, other->id));
	assert_null(mappings_find(&mappings, 0));
	assert_null(mappings_find(&mappings, UINT64_MAX));
	assert_null(mappings_find(&(struct session_mappings){ 0 }, mine->id));
	mapping_end(&registry, mine);
	assert_null(mappings_find(&mappings, id));
	mapping_end(&registry, other);
	registry_unlink(&registry, buffer);
}

static void invariant_8_serials_and_mappings_are_never_reused(void **state)
{
	uint64_t serial = 0, id = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct buffer *buffer = live("a");
		struct mapping *mapping = mapping_to(&mappings, buffer);

		assert_true(buffer->serial > serial && mapping->id > id);
		serial = buffer->serial;
		id = mapping->id;
		mapping_end(&registry, mapping);
		registry_unlink(&registry, buffer);
		release_all();
	}
}

static void test_grants_are_found_by_mapping_and_serial(void **state)
{
	struct buffer *buffer = live("a"), *other = live("b");
	struct mapping *mapping = mapping_to(&mappings, buffer), *second = mapping_to(&mappings, buffer);
	uint64_t serial = buffer->serial;

	(void)state;
	assert_ptr_equal(mapping_find_grant(mapping, serial), mapping->grants);
	assert_ptr_equal(mapping_find_grant(second, serial), second->grants);
	assert_null(mapping_find_grant(mapping, other->serial));
	assert_null(mapping_find_grant(mapping, UINT64_MAX));
	assert_null(mapping_find_grant(mapping, 0));
	registry_unlink(&registry, buffer);
	registry_unlink(&registry, other);
	/* its name is gone, its grant is not */
	assert_ptr_equal(mapping_find_grant(mapping, serial), mapping->grants);
	mapping_end(&registry, mapping);
	mapping_end(&registry, second);
}

static unsigned rights(const struct buffer *buffer, uid_t uid, gid_t gid)
{
	struct identity identity = { .uid = uid, .gid = gid };

	return buffer_rights(buffer, &identity);
}

static void test_mode_bits_give_rights(void **state)
{
	struct buffer buffer = { .owner = 10, .group = 20, .mode = 0640 };

	(void)state;
	assert_int_equal(rights(&buffer, 10, 99), GPUB_READ | GPUB_WRITE);
	assert_int_equal(rights(&buffer, 11, 20), GPUB_READ);
	assert_int_equal(rights(&buffer, 11, 21), 0);
	assert_int_equal(rights(&buffer, 0, 0), GPUB_READ | GPUB_WRITE);
	/* the first class that fits decides: an owner without rights has none as one of the others */
	buffer.mode = 0066;
	assert_int_equal(rights(&buffer, 10, 20), 0);
	buffer.mode = 0602;
	assert_int_equal(rights(&buffer, 11, 20), 0);
	assert_int_equal(rights(&buffer, 11, 21), GPUB_WRITE);
	buffer.mode = 0111;
	assert_int_equal(rights(&buffer, 10, 20), 0);
}

static void test_only_live_buffers_are_found_by_serial(void **state)
{
	struct buffer *buffer;
	struct mapping *mapping;
	uint64_t serial;

	(void)state;
	assert_int_equal(reserve("a", &buffer), 0);
	serial = buffer->serial;
	assert_null(registry_find_serial(&registry, serial));
	ready(buffer);
	assert_ptr_equal(registry_find_serial(&registry, serial), buffer);
	assert_null(registry_find_serial(&registry, serial + 1));
	assert_null(registry_find_serial(&registry, 0));
	mapping = mapping_to(&mappings, buffer);
	registry_unlink(&registry, buffer);
	assert_null(registry_find_serial(&registry, serial));
	/* nor is the next of that name */
	buffer = live("a");
	assert_null(registry_find_serial(&registry, serial));
	assert_ptr_equal(registry_find_serial(&registry, buffer->serial), buffer);
	registry_unlink(&registry, buffer);
	mapping_end(&registry, mapping);
}

/* ---- another owner ---- */

static void test_another_owner_pays_from_now_on(void **state)
{
	struct buffer *buffer = live("a"), *other = live("b");

	(void)state;
	assert_int_equal(registry_change_owner(&registry, buffer, HEIR), 0);
	assert_int_equal(buffer->owner, HEIR);
	assert_true(used_by(HEIR, RESOURCE_BYTES) == SPAN && used_by(HEIR, RESOURCE_BUFFERS) == 1);
	assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == 1);
	registry_unlink(&registry, buffer);
	registry_unlink(&registry, other);
	release_all();
	assert_null(accounting.accounts);
}

static void test_an_owner_who_cannot_pay_gets_nothing(void **state)
{
	static const enum resource resources[] = { RESOURCE_BUFFERS, RESOURCE_BYTES };
	struct buffer *buffer = live("a");

	(void)state;
	for (int i = 0; i < 2; i++) {
		quota_init(&accounting.quotas.fallback);
		accounting.quotas.fallback.limit[resources[i]] = 0;
		assert_int_equal(registry_change_owner(&registry, buffer, HEIR), -EDQUOT);
		assert_int_equal(buffer->owner, OWNER);
		assert_true(used_by(HEIR, RESOURCE_BYTES) == 0 && used_by(HEIR, RESOURCE_BUFFERS) == 0);
		assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == 1);
	}
	registry_unlink(&registry, buffer);
}

/* ---- orphaned mappings ---- */

static void invariant_2_a_mapping_closed_by_another_user_is_orphaned(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *mine = mapping_to(&mappings, buffer), *orphaned = mapping_of_other(buffer);
	uint64_t id = orphaned->id;

	(void)state;
	assert_false(mapping_closed(&registry, orphaned));
	assert_true(orphaned->orphaned);
	/* it cannot be closed any more; its place in the board is free, and it stays charged */
	assert_null(mappings_find(&other_mappings, id));
	assert_int_equal(registry.handles.free, HANDLES - 1);
	assert_int_equal(registry.mapping_count, 1);
	assert_true(used_by(HEIR, RESOURCE_GRANTS) == 1);
	assert_int_equal(buffer->allocation->open, 2);
	assert_int_equal(buffer->allocation->orphaned, 1);
	registry_unlink(&registry, buffer);
	/* a notice goes to open mappings alone */
	assert_int_equal(notices, 1);
	assert_true(noticed[0] == mine->id);
	assert_true(mapping_closed(&registry, mine));
	assert_int_equal(releases, 0);
	mapping_end(&registry, orphaned);
	assert_int_equal(releases, 1);
	assert_true(!used_by(HEIR, RESOURCE_GRANTS));
}

/* It opens and closes again and again, and keeps one orphaned mapping on the allocation: it has seen the handle. */
static void invariant_5_orphaned_mappings_do_not_accumulate(void **state)
{
	struct buffer *buffer = live("a"), *other = live("b");
	struct mapping *orphaned = mapping_of_other(buffer), *second;

	(void)state;
	assert_false(mapping_closed(&registry, orphaned));
	for (int i = 0; i < 1000; i++)
		assert_true(mapping_closed(&registry, mapping_of_other(buffer)));
	assert_int_equal(buffer->allocation->orphaned, 1);
	assert_int_equal(HASH_COUNT(other_mappings.by_id), 1);
	/* of each allocation, and each session */
	second = mapping_of_other(other);
	assert_false(mapping_closed(&registry, second));
	registry_unlink(&registry, buffer);
	registry_unlink(&registry, other);
	assert_int_equal(releases, 0);
	mapping_end(&registry, orphaned);
	mapping_end(&registry, second);
	assert_int_equal(releases, 2);
}

static void invariant_2_an_orphaned_mapping_belongs_to_one_session(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *first = mapping_of_other(buffer), *second = NULL;

	(void)state;
	assert_int_equal(mapping_try(SESSION, HEIR, &mappings, buffer, &second), 0);
	assert_false(mapping_closed(&registry, first));
	assert_false(mapping_closed(&registry, second));
	registry_unlink(&registry, buffer);
	mapping_end(&registry, first);
	assert_int_equal(releases, 0);
	mapping_end(&registry, second);
	assert_int_equal(releases, 1);
}

static void invariant_2_trust_nobody_applies_to_the_owner(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *mapping = mapping_to(&mappings, buffer);

	(void)state;
	registry.trust = TRUST_NOBODY;
	assert_false(mapping_closed(&registry, mapping));
	registry_unlink(&registry, buffer);
	assert_int_equal(releases, 0);
	mapping_end(&registry, mapping);
	assert_int_equal(releases, 1);
}

/* The present owner is trusted, and the previous one is not. */
static void invariant_2_trust_follows_the_owner_of_the_memory(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *mine = mapping_to(&mappings, buffer), *heirs = mapping_of_other(buffer);

	(void)state;
	assert_int_equal(registry_change_owner(&registry, buffer, HEIR), 0);
	assert_true(mapping_closed(&registry, heirs));
	assert_false(mapping_closed(&registry, mine));
	registry_unlink(&registry, buffer);
	assert_int_equal(releases, 0);
	mapping_end(&registry, mine);
}

/* A broker that goes while mappings are open forgets them, and tells nobody to free. */
static void test_deinit_frees_nothing_that_is_granted(void **state)
{
	struct buffer *granted = live("a"), *draining = live("b"), *creating;

	(void)state;
	mapping_to(&mappings, granted);
	mapping_to(&mappings, draining);
	registry_unlink(&registry, draining);
	assert_int_equal(reserve("c", &creating), 0);
	mappings_free(&registry, &mappings);
	registry_deinit(&registry);
	memory_deinit(&memory);
	assert_int_equal(releases, 0);
	assert_null(accounting.accounts);
	assert_int_equal(setup(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_words_follow_a_buffers_life),
		ON(invariant_2_unlink_without_mappings_frees),
		ON(invariant_2_ended_mappings_without_unlink_do_not_free),
		ON(invariant_2_freed_once_in_every_order),
		ON(invariant_8_a_new_generation_beside_a_draining_one),
		ON(test_unlink_notices_each_open_mapping),
		ON(test_abandoned_buffer_leaves_nothing),
		ON(test_a_name_is_taken_once),
		ON(test_board_full_of_buffers),
		ON(test_board_full_of_sealed_handles),
		ON(test_quotas_are_charged_and_refunded),
		ON(invariant_3_another_sessions_mapping_is_not_found),
		ON(invariant_8_serials_and_mappings_are_never_reused),
		ON(test_grants_are_found_by_mapping_and_serial),
		ON(test_only_live_buffers_are_found_by_serial),
		ON(test_another_owner_pays_from_now_on),
		ON(test_an_owner_who_cannot_pay_gets_nothing),
		ON(invariant_2_a_mapping_closed_by_another_user_is_orphaned),
		ON(invariant_5_orphaned_mappings_do_not_accumulate),
		ON(invariant_2_an_orphaned_mapping_belongs_to_one_session),
		ON(invariant_2_trust_nobody_applies_to_the_owner),
		ON(invariant_2_trust_follows_the_owner_of_the_memory),
		ON(test_mode_bits_give_rights),
		ON(test_deinit_frees_nothing_that_is_granted),
	};

	return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
