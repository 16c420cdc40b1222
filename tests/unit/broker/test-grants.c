/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-grants.c - the grants of memory that several buffers share: one for each session and allocation, the uses under
 * it, and what a QUIESCED, a CLOSED or a death ends. grants-harness.h is the world.
 */
#include <errno.h>
#include <stdlib.h>

#include "grants-harness.h"

/* ---- one grant a session and allocation ---- */

static void test_a_second_acquire_gets_the_same_grant(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *first = use_first(0, a), *same = use_again(0, a), *second = use_again(0, b);
	struct grant *grant = first->grant;

	(void)state;
	assert_ptr_equal(same, first);
	assert_ptr_not_equal(second, first);
	assert_ptr_equal(second->grant, grant);
	assert_int_equal(registry.grant_count, 1);
	assert_int_equal(registry.handles.free, TICKETS - 1);
	assert_int_equal(a->allocation->open, 1);
	assert_int_equal(a->allocation->used, 2);
	assert_int_equal(a->used, 1);
	grant_end(&registry, grant);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
}

static void test_each_session_and_each_device_has_its_own_grant(void **state)
{
	struct buffer *a = live("a");
	struct grant_order there = order_of(0);
	struct grant *grant[3];

	(void)state;
	there.device = 1;
	grant[0] = use_first(0, a)->grant;
	grant[1] = use_first(1, a)->grant;
	grant[2] = use_by(&there, a, true)->grant;
	assert_int_equal(grant[2]->device, 1);
	assert_ptr_equal(use_by(&there, a, false)->grant, grant[2]);
	assert_ptr_equal(use_again(0, a)->grant, grant[0]);
	assert_int_equal(a->used, 3);
	registry_unlink(&registry, a);
	grant_end(&registry, grant[2]);
	grant_end(&registry, grant[1]);
	grant_end(&registry, grant[0]);
}

/* The grant of a redeemed ticket ends with nothing else, and no other use joins it. */
static void test_a_grant_of_its_own_is_shared_with_none(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant_order own = order_of(0);
	struct grant *grant[3];

	(void)state;
	own.own = true;
	grant[0] = use_by(&own, a, true)->grant;
	grant[1] = use_first(0, a)->grant;
	grant[2] = use_by(&own, a, true)->grant;
	assert_ptr_equal(use_again(0, b)->grant, grant[1]);
	assert_int_equal(a->used, 3);
	assert_true(used(RESOURCE_GRANTS) == 4);
	grant_end(&registry, grant[1]);
	assert_int_equal(a->used, 2);
	assert_int_equal(b->used, 0);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	clean_one(0);
	assert_int_equal(release_count, 0);
	grant_end(&registry, grant[0]);
	assert_int_equal(release_count, 0);
	grant_end(&registry, grant[2]);
	assert_int_equal(release_count, 1);
}

/* The mode may have changed since. */
static void test_an_acquire_has_the_rights_of_now(void **state)
{
	struct buffer *a = live("a");
	struct grant_order order = order_of(0);
	struct use *use = use_first(0, a);

	(void)state;
	assert_int_equal(use->rights, GPUB_READ);
	order.rights = GPUB_READ | GPUB_WRITE;
	use_by(&order, a, false);
	assert_int_equal(use->rights, GPUB_READ | GPUB_WRITE);
	registry_unlink(&registry, a);
	grant_end(&registry, use->grant);
}

static void test_grants_are_charged_for_each_use(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant_order order = order_of(0);
	struct use *first, *second, *use = NULL;
	bool fresh;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 2;
	first = use_first(0, a);
	use_again(0, a);
	second = use_again(0, b);
	assert_true(used(RESOURCE_GRANTS) == 2);
	assert_int_equal(grant_open(&registry, c, &order, &use, &fresh), -EDQUOT);
	assert_null(use);
	assert_int_equal(c->used, 0);
	/* also for the first of an allocation, which then has no grant of it */
	order.device = 1;
	assert_int_equal(grant_open(&registry, c, &order, &use, &fresh), -EDQUOT);
	assert_int_equal(registry.grant_count, 1);
	assert_true(use_quiesced(&registry, second));
	assert_true(used(RESOURCE_GRANTS) == 1);
	use_again(0, c);
	grant_end(&registry, first->grant);
	assert_true(used(RESOURCE_GRANTS) == 0);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	registry_unlink(&registry, c);
}

/* ---- notices ---- */

static void test_a_notice_goes_to_uses_of_that_buffer_only(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *mine = use_first(0, a)->grant, *others = use_first(1, b)->grant, *orphaned = use_first(THEIRS, a)->grant;

	(void)state;
	assert_false(grant_closed(&registry, orphaned));
	registry_unlink(&registry, a);
	assert_int_equal(notice_count, 1);
	expect_notice(0, mine, a->serial);
	registry_unlink(&registry, b);
	assert_int_equal(notice_count, 2);
	expect_notice(1, others, b->serial);
	grant_end(&registry, mine);
	grant_end(&registry, others);
	grant_end(&registry, orphaned);
}

/* ---- QUIESCED ---- */

static void test_an_idle_ends_one_use_and_not_the_grant(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *of_a = use_first(0, a), *of_b = use_again(0, b);
	struct grant *grant = of_a->grant;
	uint64_t serial = a->serial;

	(void)state;
	assert_true(use_quiesced(&registry, of_a));
	assert_null(grant_find_use(grant, serial)); /* so it cannot be said twice */
	assert_ptr_equal(grant_find_use(grant, b->serial), of_b);
	assert_int_equal(a->used, 0);
	assert_int_equal(b->used, 1);
	assert_ptr_equal(grant_find(&grants[0], grant->id), grant);
	/* it has its name: it is not ended, and may be used again */
	assert_int_equal(ended_count, 0);
	use_again(0, a);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_true(use_quiesced(&registry, of_b));
	assert_int_equal(ended_count, 1);
	grant_end(&registry, grant);
}

/* What a ticket bought is open until its CLOSED, with its place in the board: so long it is paid for. */
static void test_an_idle_of_a_grant_of_its_own_does_not_refund_it(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant_order own = order_of(0);
	struct use *use, *more = NULL;
	struct grant *grant;
	bool fresh;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 1;
	own.own = true;
	use = use_by(&own, a, true);
	grant = use->grant;
	assert_true(use_quiesced(&registry, use));
	assert_int_equal(notice_count, 1);
	expect_notice(0, grant, 0);
	assert_true(used(RESOURCE_GRANTS) == 1);
	assert_ptr_equal(grant_find_use(grant, a->serial), use);
	assert_int_equal(grant_open(&registry, b, &own, &more, &fresh), -EDQUOT);
	/* nor is its range another's before */
	registry_unlink(&registry, a);
	assert_true(use_quiesced(&registry, use));
	assert_int_equal(ended_count, 0);
	assert_true(used(RESOURCE_GRANTS) == 1);
	grant_end(&registry, grant);
	assert_int_equal(ended_count, 1);
	assert_true(used(RESOURCE_GRANTS) == 0);
	registry_unlink(&registry, b);
}

static void invariant_3_another_sessions_use_is_not_found(void **state)
{
	struct buffer *a = live("a");
	struct grant *mine = use_first(0, a)->grant, *others = use_first(1, a)->grant;

	(void)state;
	assert_null(grant_find(&grants[1], mine->id));
	assert_ptr_equal(grant_find_use(mine, a->serial)->grant, mine);
	assert_ptr_equal(grant_find_use(others, a->serial)->grant, others);
	grant_end(&registry, mine);
	assert_int_equal(a->used, 1);
	grant_end(&registry, others);
	registry_unlink(&registry, a);
}

static void expect_not_trusted(struct use *use)
{
	struct buffer *buffer = use->buffer;
	unsigned count = buffer->used;

	assert_false(use_quiesced(&registry, use));
	assert_int_equal(buffer->used, count);
	assert_int_equal(ended_count, 0);
	assert_int_equal(clean_count, 0);
}

static void invariant_6_idle_of_another_user_is_not_trusted(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *theirs = use_first(THEIRS, a);

	(void)state;
	expect_not_trusted(theirs);
	registry_unlink(&registry, a);
	expect_not_trusted(theirs);
	grant_end(&registry, theirs->grant);
	assert_int_equal(ended_count, 1);
	registry_unlink(&registry, b);
}

static void invariant_6_trust_nobody_applies_to_idle(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *use = use_first(0, a);

	(void)state;
	registry.trust = TRUST_NOBODY;
	registry_unlink(&registry, a);
	expect_not_trusted(use);
	grant_end(&registry, use->grant);
	assert_int_equal(ended_count, 1);
	registry_unlink(&registry, b);
}

static void test_a_closed_ends_all_uses_of_its_grant(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant *grant = use_first(0, a)->grant, *others = use_first(1, c)->grant;

	(void)state;
	use_again(0, b);
	use_again(0, c);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(ended_count, 0);
	assert_true(grant_closed(&registry, grant));
	assert_int_equal(ended_count, 2);
	assert_int_equal(clean_count, 2);
	assert_int_equal(c->used, 1);
	assert_int_equal(c->allocation->used, 1);
	assert_true(used(RESOURCE_GRANTS) == 1);
	registry_unlink(&registry, c);
	grant_end(&registry, others);
}

/* Also those of another user, whose CLOSED is not trusted. */
static void invariant_9_a_death_ends_all_uses_of_its_grants(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant *grant = use_first(THEIRS, a)->grant;

	(void)state;
	use_again(THEIRS, b);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_false(grant_closed(&registry, grant));
	assert_int_equal(ended_count, 0);
	grant_end(&registry, grant);
	assert_int_equal(ended_count, 2);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_GRANTS));
	registry_unlink(&registry, c);
	assert_int_equal(release_count, 0);
	device_works();
}

/* ---- orphaned grants ---- */

static void invariant_2_an_orphaned_grant_keeps_its_uses(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *use = use_first(THEIRS, a);
	struct grant *orphaned = use->grant;

	(void)state;
	assert_false(grant_closed(&registry, orphaned));
	assert_int_equal(a->used, 1);
	assert_int_equal(a->orphaned, 1);
	/* invariant 5: it stays charged, and its place in the board is another's */
	assert_true(accounting_used(&accounting, STRANGER, RESOURCE_GRANTS) == 1);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_MAPPINGS));
	assert_null(grant_find(&grants[THEIRS], orphaned->id));
	registry_unlink(&registry, a);
	assert_int_equal(ended_count, 0);
	grant_end(&registry, orphaned);
	assert_int_equal(ended_count, 1);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_GRANTS));
	registry_unlink(&registry, b);
}

/* The session opens again, other buffers too, and closes again: one orphaned grant has all uses. */
static void invariant_2_merged_orphaned_grants_keep_all_uses(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant *orphaned = use_first(THEIRS, a)->grant, *second;

	(void)state;
	assert_false(grant_closed(&registry, orphaned));
	second = use_first(THEIRS, a)->grant;
	assert_ptr_not_equal(second, orphaned);
	use_again(THEIRS, b);
	assert_int_equal(a->used, 2);
	assert_int_equal(a->orphaned, 1);
	assert_true(grant_closed(&registry, second));
	assert_int_equal(a->used, 1);
	assert_int_equal(a->orphaned, 1);
	assert_int_equal(b->used, 1);
	assert_int_equal(b->orphaned, 1);
	assert_int_equal(a->allocation->orphaned, 1);
	assert_int_equal(a->allocation->open, 1);
	assert_true(accounting_used(&accounting, STRANGER, RESOURCE_GRANTS) == 2);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_MAPPINGS));
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(ended_count + notice_count, 0);
	grant_end(&registry, orphaned);
	assert_int_equal(ended_count, 2);
	registry_unlink(&registry, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_second_acquire_gets_the_same_grant),
		ON(test_each_session_and_each_device_has_its_own_grant),
		ON(test_a_grant_of_its_own_is_shared_with_none),
		ON(test_an_acquire_has_the_rights_of_now),
		ON(test_grants_are_charged_for_each_use),
		ON(test_a_notice_goes_to_uses_of_that_buffer_only),
		ON(test_an_idle_ends_one_use_and_not_the_grant),
		ON(test_an_idle_of_a_grant_of_its_own_does_not_refund_it),
		ON(invariant_3_another_sessions_use_is_not_found),
		ON(invariant_6_idle_of_another_user_is_not_trusted),
		ON(invariant_6_trust_nobody_applies_to_idle),
		ON(test_a_closed_ends_all_uses_of_its_grant),
		ON(invariant_9_a_death_ends_all_uses_of_its_grants),
		ON(invariant_2_an_orphaned_grant_keeps_its_uses),
		ON(invariant_2_merged_orphaned_grants_keep_all_uses),
	};

	return cmocka_run_group_tests_name("grants", tests, NULL, NULL);
}
