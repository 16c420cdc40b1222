/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-memory.c - when an allocation is kept, evicted and freed, whose it is, and how it grows: memory.c without a
 * registry.
 *
 * The counts that keep an allocation (named, open) are set here as the registry would set them. The device's work is
 * recorded, and done when a test says so.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/memory/memory.h"
#include "common/error.h"
#include "common/export.h"
#include "device/device.h"

#define OWNER    1000u
#define HEIR     1001u
#define SPAN     (64ull << 10)
#define RANGE    (16ull << 10)
#define RELEASES 64

static struct accounting accounting;
static struct memory memory;
static struct allocation *released[RELEASES];
static unsigned releases, cleans;
static bool can_clean;

static bool on_clean(void *context, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	(void)context, (void)allocation, (void)range, (void)serial;
	cleans += can_clean;
	return can_clean;
}

static void on_release(void *context, struct allocation *allocation)
{
	assert_ptr_equal(context, &memory);
	assert_int_equal(allocation->state, ALLOCATION_FREEING);
	assert_true(!allocation->named && !allocation->open && !allocation->busy);
	assert_true(releases < RELEASES);
	released[releases++] = allocation;
}

static int setup(void **state)
{
	static const struct memory_orders orders = { on_clean, on_release, &memory };

	(void)state;
	releases = cleans = 0;
	can_clean = true;
	accounting_init(&accounting);
	memory_init(&memory, &accounting, &orders);
	memory.usages.limit = 4 * SPAN;
	return addresses_init(&memory.addresses, 1);
}

/* The device has done what it was told to. */
static void release_all(void)
{
	for (unsigned i = 0; i < releases; i++) {
		assert_null(memory_released(&memory, released[i]));
		allocation_free(NULL, released[i]);
	}
	releases = 0;
}

/* Every test frees all that it took. */
static int teardown(void **state)
{
	int wrong;

	(void)state;
	release_all();
	wrong = memory.allocations || memory.bytes || memory.evicted || memory.usages.by_key || accounting.accounts;
	memory_deinit(&memory);
	accounting_deinit(&accounting);
	return wrong;
}

/* ---- shorthands ---- */

static uint64_t charged(uid_t uid, enum resource resource)
{
	return accounting_used(&accounting, uid, resource);
}

static struct slab_kind kind_of(uint64_t range)
{
	return (struct slab_kind){ .range = range, .mode = 0600, .exported = EXPORT_IPC, .owner = OWNER };
}

/* What registry_reserve() and registry_live() do for one buffer. */
static struct allocation *take(struct slab_kind kind, bool alone, uint32_t *range)
{
	struct allocation *allocation;

	assert_int_equal(memory_take(&memory, &kind, SPAN, alone, &allocation, range), 0);
	allocation->named++;
	if (!allocation_is_made(allocation))
		memory_ready(&memory, allocation);
	return allocation;
}

static struct allocation *take_one(void)
{
	uint32_t range;

	return take(kind_of(SPAN), false, &range);
}

static void unname(struct allocation *allocation)
{
	allocation->named--;
	memory_decide_free(&memory, allocation);
}

static void close_one(struct allocation *allocation)
{
	allocation->open--;
	memory_decide_free(&memory, allocation);
}

/* The buffer in the only range has ended, and somebody still maps the memory: it is cleaned. */
static void end_mapped(struct allocation *allocation)
{
	allocation->open++;
	allocation->named--;
	memory_clean(&memory, allocation, 0, 1);
	memory_cleaned(&memory, allocation, 0, 0);
}

/* ---- the rule that frees ---- */

static void invariant_2_memory_is_freed_when_nobody_names_or_maps_it(void **state)
{
	struct allocation *named = take_one(), *mapped = take(kind_of(SPAN), true, &(uint32_t){ 0 });

	(void)state;
	mapped->open = 2;
	memory_decide_free(&memory, named);
	unname(mapped);
	close_one(mapped);
	assert_int_equal(releases, 0);
	close_one(mapped);
	assert_true(releases == 1 && released[0] == mapped);
	unname(named);
	assert_true(releases == 2 && released[1] == named);
	/* decided once, however often it is asked */
	memory_decide_free(&memory, named);
	assert_int_equal(releases, 2);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 2 * SPAN);
	release_all();
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 0);
}

static void invariant_2_it_is_not_freed_while_the_device_works_for_it(void **state)
{
	struct allocation *allocation = take_one();

	(void)state;
	memory_hold(allocation);
	unname(allocation);
	assert_int_equal(releases, 0);
	assert_int_equal(allocation->slab.shelf != NULL, 0); /* and no new buffer finds it */
	memory_unhold(&memory, allocation);
	assert_int_equal(releases, 1);
}

static void test_what_was_never_made_is_forgotten(void **state)
{
	struct slab_kind kind = kind_of(SPAN);
	struct allocation *allocation;
	uint32_t range;

	(void)state;
	assert_int_equal(memory_take(&memory, &kind, SPAN, false, &allocation, &range), 0);
	assert_false(allocation_is_made(allocation));
	memory_untake(&memory, allocation, range);
	assert_int_equal(releases, 0);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 0);
}

/* ---- sharing ---- */

static void invariant_6_buffers_of_one_kind_share_and_others_do_not(void **state)
{
	struct slab_kind small = kind_of(RANGE), other = small;
	uint32_t first, second, third, lone;
	struct allocation *a = take(small, false, &first), *b = take(small, false, &second), *c, *d;

	(void)state;
	other.mode = 0640;
	c = take(other, false, &third);
	d = take(small, true, &lone);
	assert_true(a == b && first != second);
	assert_true(c != a && d != a && d != c);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 3 * SPAN);
	memory_make_private(&memory, a);
	assert_null(slabs_find(&memory.slabs, &small));
	unname(a);
	unname(b);
	unname(c);
	unname(d);
	assert_int_equal(releases, 3);
}

static void test_a_range_serves_again_only_when_it_is_clean(void **state)
{
	struct slab_kind small = kind_of(RANGE);
	uint32_t first, again;
	struct allocation *allocation = take(small, false, &first);

	(void)state;
	allocation->open++;
	allocation->named--;
	memory_clean(&memory, allocation, first, 7);
	assert_int_equal(cleans, 1);
	assert_int_equal(allocation->slab.vacant, SPAN / RANGE - 1);
	memory_cleaned(&memory, allocation, first, -EIO); /* the device failed: the range is never used again */
	assert_int_equal(allocation->slab.vacant, SPAN / RANGE - 1);
	assert_ptr_equal(take(small, false, &again), allocation);
	assert_int_not_equal(again, first);
	allocation->open--;
	unname(allocation);
	assert_int_equal(releases, 1);
}

/* ---- idle memory ---- */

static void test_clean_memory_that_is_mapped_serves_its_owner_again(void **state)
{
	struct allocation *allocation = take_one();
	uint32_t range;

	(void)state;
	end_mapped(allocation);
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_int_equal(memory.usages.bytes[0][SPARE_IDLE], SPAN);
	assert_null(memory_take_evicted(&memory));
	assert_ptr_equal(take(kind_of(SPAN), false, &range), allocation);
	assert_int_equal(allocation->state, ALLOCATION_IN_USE);
	assert_int_equal(memory.usages.bytes[0][SPARE_IDLE], 0);
	allocation->open--;
	unname(allocation);
}

static void test_memory_that_is_not_kept_is_evicted_once(void **state)
{
	struct allocation *allocation = take_one();

	(void)state;
	memory.usages.limit = 0;
	end_mapped(allocation);
	assert_int_equal(allocation->state, ALLOCATION_EVICTED);
	assert_ptr_equal(memory_take_evicted(&memory), allocation);
	assert_null(memory_take_evicted(&memory));
	memory_decide_free(&memory, allocation);
	assert_null(memory_take_evicted(&memory));
	close_one(allocation);
	assert_int_equal(releases, 1);
}

/* Nobody has taken it from the list of evicted memory: it does not stay there. */
static void test_evicted_memory_may_be_freed_before_anybody_is_asked(void **state)
{
	struct allocation *allocation = take_one();

	(void)state;
	memory.usages.limit = 0;
	end_mapped(allocation);
	close_one(allocation);
	release_all();
	assert_null(memory_take_evicted(&memory));
}

static void test_memory_that_cannot_be_cleaned_is_evicted(void **state)
{
	struct allocation *allocation = take_one();

	(void)state;
	can_clean = false;
	allocation->open++;
	allocation->named--;
	memory_clean(&memory, allocation, 0, 1);
	assert_int_equal(allocation->state, ALLOCATION_EVICTED);
	close_one(allocation);
}

static void test_idle_memory_gives_way_to_its_owners_quota(void **state)
{
	struct quotas quotas = { 0 };
	struct allocation *idle = take_one(), *other;
	uint32_t range;

	(void)state;
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_BYTES] = SPAN;
	accounting_set_quotas(&accounting, &quotas);
	end_mapped(idle);
	other = NULL;
	assert_int_equal(memory_take(&memory, &(struct slab_kind){ .range = SPAN, .mode = 0640, .owner = OWNER }, SPAN,
				     false, &other, &range),
			 -EDQUOT);
	assert_null(other);
	assert_true(idle->state == ALLOCATION_EVICTED && idle->reclaimed);
	close_one(idle);
	release_all();
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 0);
}

/* ---- an allocation that grows ---- */

static struct allocation *grow(struct allocation *allocation)
{
	struct allocation *chunk;

	assert_int_equal(memory_grow(&memory, allocation, SPAN, &chunk), 0);
	memory_grown(&memory, allocation, chunk);
	return chunk;
}

static void test_chunks_are_released_from_the_last_on_and_before_their_allocation(void **state)
{
	struct allocation *allocation = take_one(), *first, *second;

	(void)state;
	memory_reserve(&memory, allocation, 4 * SPAN);
	first = grow(allocation);
	second = grow(allocation);
	assert_int_equal(allocation->size, 3 * SPAN);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 3 * SPAN);
	memory_shrink(&memory, allocation, 2 * SPAN);
	assert_true(releases == 1 && released[0] == second && allocation->size == 2 * SPAN);
	unname(allocation);
	assert_true(releases == 3 && released[1] == first && released[2] == allocation);
}

static void test_an_allocation_has_a_bounded_number_of_chunks(void **state)
{
	struct allocation *allocation = take_one(), *chunk = NULL;

	(void)state;
	for (unsigned i = 0; i < EXPORT_CHUNKS_MAX - 1; i++)
		grow(allocation);
	assert_int_equal(memory_grow(&memory, allocation, SPAN, &chunk), -ENOSPC);
	assert_null(chunk);
	unname(allocation);
	assert_int_equal(releases, EXPORT_CHUNKS_MAX);
}

static void test_a_chunk_that_was_not_made_costs_nothing(void **state)
{
	struct allocation *allocation = take_one(), *chunk;

	(void)state;
	assert_int_equal(memory_grow(&memory, allocation, SPAN, &chunk), 0);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 2 * SPAN);
	memory_not_grown(&memory, chunk);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), SPAN);
	assert_int_equal(releases, 0);
	unname(allocation);
}

/* ---- another owner ---- */

static void test_another_owner_pays_for_all_of_it_or_nothing_changes(void **state)
{
	struct allocation *allocation = take_one();
	struct charge none[2] = { { 0 }, { 0 } };
	struct charge *const charges[2] = { &none[0], &none[1] };
	struct user_quota poor = { .uid = HEIR };
	struct quotas quotas = { .users = &poor, .count = 1 };

	(void)state;
	grow(allocation);
	quota_init(&quotas.fallback);
	quota_init(&poor.quota);
	poor.quota.limit[RESOURCE_BYTES] = SPAN; /* enough for the first half alone */
	accounting_set_quotas(&accounting, &quotas);
	assert_int_equal(memory_change_owner(&memory, allocation, HEIR, charges), -EDQUOT);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 2 * SPAN);
	assert_int_equal(charged(HEIR, RESOURCE_BYTES), 0);
	assert_int_equal(allocation->slab.kind.owner, OWNER);
	poor.quota.limit[RESOURCE_BYTES] = 2 * SPAN;
	assert_int_equal(memory_change_owner(&memory, allocation, HEIR, charges), 0);
	assert_int_equal(charged(OWNER, RESOURCE_BYTES), 0);
	assert_int_equal(charged(HEIR, RESOURCE_BYTES), 2 * SPAN);
	assert_true(allocation->slab.kind.owner == HEIR && allocation->is_private);
	unname(allocation);
}

/* Of memory whose name is gone nothing more is given out: a new buffer gets other memory. */
static void test_no_buffer_joins_memory_whose_name_is_gone(void **state)
{
	const struct slab_kind kind = kind_of(RANGE);
	struct allocation *before, *after;
	uint32_t range;

	(void)state;
	assert_int_equal(memory_take(&memory, &kind, SPAN, false, &before, &range), 0);
	before->named++;
	memory_close_named(&memory); /* what is not made yet has no name */
	assert_false(before->is_private);
	memory_ready(&memory, before);
	memory_close_named(&memory);
	after = take(kind, false, &range);
	assert_ptr_not_equal(after, before);
	unname(before);
	unname(after);
}

static void test_addresses_are_given_back_with_the_memory(void **state)
{
	struct allocation *allocation = take(kind_of(SPAN), true, &(uint32_t){ 0 });
	uint64_t address;

	(void)state;
	memory_make_private(&memory, allocation);
	assert_int_equal(memory_place(&memory, allocation), 0);
	address = allocation->address;
	assert_true(address && address % ADDRESSES_ALIGN == 0);
	unname(allocation);
	release_all();
	allocation = take(kind_of(SPAN), true, &(uint32_t){ 0 });
	memory_make_private(&memory, allocation);
	assert_int_equal(memory_place(&memory, allocation), 0);
	assert_true(allocation->address == address);
	unname(allocation);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_2_memory_is_freed_when_nobody_names_or_maps_it),
		ON(invariant_2_it_is_not_freed_while_the_device_works_for_it),
		ON(test_what_was_never_made_is_forgotten),
		ON(invariant_6_buffers_of_one_kind_share_and_others_do_not),
		ON(test_a_range_serves_again_only_when_it_is_clean),
		ON(test_clean_memory_that_is_mapped_serves_its_owner_again),
		ON(test_memory_that_is_not_kept_is_evicted_once),
		ON(test_evicted_memory_may_be_freed_before_anybody_is_asked),
		ON(test_memory_that_cannot_be_cleaned_is_evicted),
		ON(test_idle_memory_gives_way_to_its_owners_quota),
		ON(test_chunks_are_released_from_the_last_on_and_before_their_allocation),
		ON(test_an_allocation_has_a_bounded_number_of_chunks),
		ON(test_a_chunk_that_was_not_made_costs_nothing),
		ON(test_another_owner_pays_for_all_of_it_or_nothing_changes),
		ON(test_no_buffer_joins_memory_whose_name_is_gone),
		ON(test_addresses_are_given_back_with_the_memory),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
