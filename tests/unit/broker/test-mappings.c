/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-mappings.c - the mappings of memory that several buffers share: one for each session and allocation, the grants
 * under it, and what a QUIESCED, a CLOSED or a death ends. mappings-harness.h is the world.
 */
#include <errno.h>
#include <stdlib.h>

#include "mappings-harness.h"

/* ---- one mapping a session and allocation ---- */

static void test_a_second_acquire_gets_the_same_mapping(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *first = grant_first(0, a), *same = grant_again(0, a), *second = grant_again(0, b);
	struct mapping *mapping = first->mapping;

	(void)state;
	assert_ptr_equal(same, first);
	assert_ptr_not_equal(second, first);
	assert_ptr_equal(second->mapping, mapping);
	assert_int_equal(registry.mapping_count, 1);
	assert_int_equal(registry.handles.free, HANDLES - 1);
	assert_int_equal(a->allocation->open, 1);
	assert_int_equal(a->allocation->grant_count, 2);
	assert_int_equal(a->grant_count, 1);
	mapping_end(&registry, mapping);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
}

static void test_each_session_and_each_device_has_its_own_mapping(void **state)
{
	struct buffer *a = live("a");
	struct grant_order there = order_of(0);
	struct mapping *mapping[3];

	(void)state;
	there.device = 1;
	mapping[0] = grant_first(0, a)->mapping;
	mapping[1] = grant_first(1, a)->mapping;
	mapping[2] = grant_by(&there, a, true)->mapping;
	assert_int_equal(mapping[2]->device, 1);
	assert_ptr_equal(grant_by(&there, a, false)->mapping, mapping[2]);
	assert_ptr_equal(grant_again(0, a)->mapping, mapping[0]);
	assert_int_equal(a->grant_count, 3);
	registry_unlink(&registry, a);
	mapping_end(&registry, mapping[2]);
	mapping_end(&registry, mapping[1]);
	mapping_end(&registry, mapping[0]);
}

/* The mapping of a redeemed ticket ends with nothing else, and no other grant joins it. */
static void test_a_mapping_of_its_own_is_shared_with_none(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant_order own = order_of(0);
	struct mapping *mapping[3];

	(void)state;
	own.own = true;
	mapping[0] = grant_by(&own, a, true)->mapping;
	mapping[1] = grant_first(0, a)->mapping;
	mapping[2] = grant_by(&own, a, true)->mapping;
	assert_ptr_equal(grant_again(0, b)->mapping, mapping[1]);
	assert_int_equal(a->grant_count, 3);
	assert_true(used(RESOURCE_GRANTS) == 4);
	mapping_end(&registry, mapping[1]);
	assert_int_equal(a->grant_count, 2);
	assert_int_equal(b->grant_count, 0);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	clean_one(0);
	assert_int_equal(release_count, 0);
	mapping_end(&registry, mapping[0]);
	assert_int_equal(release_count, 0);
	mapping_end(&registry, mapping[2]);
	assert_int_equal(release_count, 1);
}

/* The mode may have changed since. */
static void test_an_acquire_has_the_rights_of_now(void **state)
{
	struct buffer *a = live("a");
	struct grant_order order = order_of(0);
	struct grant *grant = grant_first(0, a);

	(void)state;
	assert_int_equal(grant->rights, GPUB_READ);
	order.rights = GPUB_READ | GPUB_WRITE;
	grant_by(&order, a, false);
	assert_int_equal(grant->rights, GPUB_READ | GPUB_WRITE);
	registry_unlink(&registry, a);
	mapping_end(&registry, grant->mapping);
}

static void test_each_grant_is_charged(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant_order order = order_of(0);
	struct grant *first, *second, *grant = NULL;
	bool fresh;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 2;
	first = grant_first(0, a);
	grant_again(0, a);
	second = grant_again(0, b);
	assert_true(used(RESOURCE_GRANTS) == 2);
	assert_int_equal(grant_open(&registry, c, &order, &grant, &fresh), -EDQUOT);
	assert_null(grant);
	assert_int_equal(c->grant_count, 0);
	/* also for the first of an allocation, which then has no mapping of it */
	order.device = 1;
	assert_int_equal(grant_open(&registry, c, &order, &grant, &fresh), -EDQUOT);
	assert_int_equal(registry.mapping_count, 1);
	assert_true(grant_quiesced(&registry, second));
	assert_true(used(RESOURCE_GRANTS) == 1);
	grant_again(0, c);
	mapping_end(&registry, first->mapping);
	assert_true(used(RESOURCE_GRANTS) == 0);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	registry_unlink(&registry, c);
}

/* ---- notices ---- */

static void test_a_notice_goes_to_grants_of_that_buffer_only(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct mapping *mine = grant_first(0, a)->mapping, *others = grant_first(1, b)->mapping,
		       *orphaned = grant_first(THEIRS, a)->mapping;

	(void)state;
	assert_false(mapping_closed(&registry, orphaned));
	registry_unlink(&registry, a);
	assert_int_equal(notice_count, 1);
	expect_notice(0, mine, a->serial);
	registry_unlink(&registry, b);
	assert_int_equal(notice_count, 2);
	expect_notice(1, others, b->serial);
	mapping_end(&registry, mine);
	mapping_end(&registry, others);
	mapping_end(&registry, orphaned);
}

/* ---- QUIESCED ---- */

static void test_a_quiesced_ends_one_grant_and_not_the_mapping(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *of_a = grant_first(0, a), *of_b = grant_again(0, b);
	struct mapping *mapping = of_a->mapping;
	uint64_t serial = a->serial;

	(void)state;
	assert_true(grant_quiesced(&registry, of_a));
	assert_null(mapping_find_grant(mapping, serial)); /* so it cannot be said twice */
	assert_ptr_equal(mapping_find_grant(mapping, b->serial), of_b);
	assert_int_equal(a->grant_count, 0);
	assert_int_equal(b->grant_count, 1);
	assert_ptr_equal(mappings_find(&mappings[0], mapping->id), mapping);
	/* it has its name: it is not ended, and may be used again */
	assert_int_equal(ended_count, 0);
	grant_again(0, a);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_true(grant_quiesced(&registry, of_b));
	assert_int_equal(ended_count, 1);
	mapping_end(&registry, mapping);
}

/* What a ticket bought is open until its CLOSED, with its place in the board: so long it is paid for. */
static void test_a_quiesced_of_a_mapping_of_its_own_does_not_refund_it(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant_order own = order_of(0);
	struct grant *grant, *more = NULL;
	struct mapping *mapping;
	bool fresh;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 1;
	own.own = true;
	grant = grant_by(&own, a, true);
	mapping = grant->mapping;
	assert_true(grant_quiesced(&registry, grant));
	assert_int_equal(notice_count, 1);
	expect_notice(0, mapping, 0);
	assert_true(used(RESOURCE_GRANTS) == 1);
	assert_ptr_equal(mapping_find_grant(mapping, a->serial), grant);
	assert_int_equal(grant_open(&registry, b, &own, &more, &fresh), -EDQUOT);
	/* nor is its range another's before */
	registry_unlink(&registry, a);
	assert_true(grant_quiesced(&registry, grant));
	assert_int_equal(ended_count, 0);
	assert_true(used(RESOURCE_GRANTS) == 1);
	mapping_end(&registry, mapping);
	assert_int_equal(ended_count, 1);
	assert_true(used(RESOURCE_GRANTS) == 0);
	registry_unlink(&registry, b);
}

static void invariant_3_another_sessions_grant_is_not_found(void **state)
{
	struct buffer *a = live("a");
	struct mapping *mine = grant_first(0, a)->mapping, *others = grant_first(1, a)->mapping;

	(void)state;
	assert_null(mappings_find(&mappings[1], mine->id));
	assert_ptr_equal(mapping_find_grant(mine, a->serial)->mapping, mine);
	assert_ptr_equal(mapping_find_grant(others, a->serial)->mapping, others);
	mapping_end(&registry, mine);
	assert_int_equal(a->grant_count, 1);
	mapping_end(&registry, others);
	registry_unlink(&registry, a);
}

static void expect_not_trusted(struct grant *grant)
{
	struct buffer *buffer = grant->buffer;
	unsigned count = buffer->grant_count;

	assert_false(grant_quiesced(&registry, grant));
	assert_int_equal(buffer->grant_count, count);
	assert_int_equal(ended_count, 0);
	assert_int_equal(clean_count, 0);
}

static void invariant_6_quiesced_of_another_user_is_not_trusted(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *theirs = grant_first(THEIRS, a);

	(void)state;
	expect_not_trusted(theirs);
	registry_unlink(&registry, a);
	expect_not_trusted(theirs);
	mapping_end(&registry, theirs->mapping);
	assert_int_equal(ended_count, 1);
	registry_unlink(&registry, b);
}

static void invariant_6_trust_nobody_applies_to_quiesced(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *grant = grant_first(0, a);

	(void)state;
	registry.trust = TRUST_NOBODY;
	registry_unlink(&registry, a);
	expect_not_trusted(grant);
	mapping_end(&registry, grant->mapping);
	assert_int_equal(ended_count, 1);
	registry_unlink(&registry, b);
}

static void test_a_closed_ends_all_grants_of_its_mapping(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct mapping *mapping = grant_first(0, a)->mapping, *others = grant_first(1, c)->mapping;

	(void)state;
	grant_again(0, b);
	grant_again(0, c);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(ended_count, 0);
	assert_true(mapping_closed(&registry, mapping));
	assert_int_equal(ended_count, 2);
	assert_int_equal(clean_count, 2);
	assert_int_equal(c->grant_count, 1);
	assert_int_equal(c->allocation->grant_count, 1);
	assert_true(used(RESOURCE_GRANTS) == 1);
	registry_unlink(&registry, c);
	mapping_end(&registry, others);
}

/* Also those of another user, whose CLOSED is not trusted. */
static void invariant_9_a_death_ends_all_grants_of_its_mappings(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct mapping *mapping = grant_first(THEIRS, a)->mapping;

	(void)state;
	grant_again(THEIRS, b);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_false(mapping_closed(&registry, mapping));
	assert_int_equal(ended_count, 0);
	mapping_end(&registry, mapping);
	assert_int_equal(ended_count, 2);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_GRANTS));
	registry_unlink(&registry, c);
	assert_int_equal(release_count, 0);
	device_works();
}

/* ---- orphaned mappings ---- */

static void invariant_2_an_orphaned_mapping_keeps_its_grants(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *grant = grant_first(THEIRS, a);
	struct mapping *orphaned = grant->mapping;

	(void)state;
	assert_false(mapping_closed(&registry, orphaned));
	assert_int_equal(a->grant_count, 1);
	assert_int_equal(a->orphaned, 1);
	/* invariant 5: it stays charged, and its place in the board is another's */
	assert_true(accounting_used(&accounting, STRANGER, RESOURCE_GRANTS) == 1);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_MAPPINGS));
	assert_null(mappings_find(&mappings[THEIRS], orphaned->id));
	registry_unlink(&registry, a);
	assert_int_equal(ended_count, 0);
	mapping_end(&registry, orphaned);
	assert_int_equal(ended_count, 1);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_GRANTS));
	registry_unlink(&registry, b);
}

/* The session opens again, other buffers too, and closes again: one orphaned mapping has all grants. */
static void invariant_2_merged_orphaned_mappings_keep_all_grants(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct mapping *orphaned = grant_first(THEIRS, a)->mapping, *second;

	(void)state;
	assert_false(mapping_closed(&registry, orphaned));
	second = grant_first(THEIRS, a)->mapping;
	assert_ptr_not_equal(second, orphaned);
	grant_again(THEIRS, b);
	assert_int_equal(a->grant_count, 2);
	assert_int_equal(a->orphaned, 1);
	assert_true(mapping_closed(&registry, second));
	assert_int_equal(a->grant_count, 1);
	assert_int_equal(a->orphaned, 1);
	assert_int_equal(b->grant_count, 1);
	assert_int_equal(b->orphaned, 1);
	assert_int_equal(a->allocation->orphaned, 1);
	assert_int_equal(a->allocation->open, 1);
	assert_true(accounting_used(&accounting, STRANGER, RESOURCE_GRANTS) == 2);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_MAPPINGS));
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(ended_count + notice_count, 0);
	mapping_end(&registry, orphaned);
	assert_int_equal(ended_count, 2);
	registry_unlink(&registry, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_second_acquire_gets_the_same_mapping),
		ON(test_each_session_and_each_device_has_its_own_mapping),
		ON(test_a_mapping_of_its_own_is_shared_with_none),
		ON(test_an_acquire_has_the_rights_of_now),
		ON(test_each_grant_is_charged),
		ON(test_a_notice_goes_to_grants_of_that_buffer_only),
		ON(test_a_quiesced_ends_one_grant_and_not_the_mapping),
		ON(test_a_quiesced_of_a_mapping_of_its_own_does_not_refund_it),
		ON(invariant_3_another_sessions_grant_is_not_found),
		ON(invariant_6_quiesced_of_another_user_is_not_trusted),
		ON(invariant_6_trust_nobody_applies_to_quiesced),
		ON(test_a_closed_ends_all_grants_of_its_mapping),
		ON(invariant_9_a_death_ends_all_grants_of_its_mappings),
		ON(invariant_2_an_orphaned_mapping_keeps_its_grants),
		ON(invariant_2_merged_orphaned_mappings_keep_all_grants),
	};

	return cmocka_run_group_tests_name("mappings", tests, NULL, NULL);
}
