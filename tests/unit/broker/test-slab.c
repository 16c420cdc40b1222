/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-slab.c - the ranges of an allocation: each is taken once, and only where one of its kind has room.
 *
 * No registry: allocations are bare structures, and whoever may share what is test-registry-shared.c's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/registry/registry.h"
#include "broker/memory/slab.h"

#define GRANULE (2u << 20)

static struct slabs slabs;

static const struct slab_kind KIND = { .range = 256, .device = 1, .mode = 0600, .owner = 1000, .group = 100 };

static void make(struct allocation *allocation, struct slab_kind kind, uint32_t ranges)
{
	memset(allocation, 0, sizeof *allocation);
	assert_int_equal(slab_init(&allocation->slab, &kind, ranges * kind.range), 0);
	assert_int_equal(allocation->slab.ranges, ranges);
	assert_int_equal(allocation->slab.vacant, ranges);
}

static void drop(struct allocation *allocation)
{
	slab_hide(&slabs, &allocation->slab);
	slab_deinit(&allocation->slab);
}

/* Every test ends with an empty table. */
static int teardown(void **state)
{
	(void)state;
	return slabs.shelves != NULL;
}

/* ---- size classes ---- */

static void test_small_sizes_have_classes_and_large_ones_whole_granules(void **state)
{
	static const struct {
		uint64_t size, granule, range, span;
	} cases[] = {
		{ 1, GRANULE, 256, GRANULE },
		{ 256, GRANULE, 256, GRANULE },
		{ 257, GRANULE, 512, GRANULE },
		{ 100000, GRANULE, 131072, GRANULE },
		{ GRANULE / 2 - 1, GRANULE, GRANULE / 2, GRANULE },
		{ GRANULE / 2, GRANULE, GRANULE / 2, GRANULE },
		{ GRANULE / 2 + 1, GRANULE, GRANULE, GRANULE },
		{ GRANULE, GRANULE, GRANULE, GRANULE },
		{ GRANULE + 1, GRANULE, 2 * GRANULE, 2 * GRANULE },
		/* a slab is of several small granules */
		{ 1, 4096, 256, SLAB_SPAN_MIN },
		{ 5000, 4096, 8192, SLAB_SPAN_MIN },
		{ SLAB_SPAN_MIN / 2, 4096, SLAB_SPAN_MIN / 2, SLAB_SPAN_MIN },
		{ SLAB_SPAN_MIN / 2 + 1, 4096, SLAB_SPAN_MIN / 2 + 4096, SLAB_SPAN_MIN / 2 + 4096 },
		/* no whole granules hold that */
		{ UINT64_MAX, GRANULE, 0, 0 },
		{ UINT64_MAX, 4096, 0, 0 },
	};
	uint64_t range, span;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		slab_shape(cases[i].size, 0, cases[i].granule, &range, &span);
		assert_true(range == cases[i].range && span == cases[i].span);
	}
}

/* The margin lies in the range, whatever the size; what has an allocation of its own needs none. */
static void test_a_margin_is_left_in_each_range(void **state)
{
	static const struct {
		uint64_t size, range, span;
	} cases[] = {
		{ 1, 256, SLAB_SPAN_MIN },
		{ 192, 256, SLAB_SPAN_MIN },
		{ 193, 512, SLAB_SPAN_MIN },
		{ 256, 512, SLAB_SPAN_MIN },
		{ SLAB_SPAN_MIN / 2 - 64, SLAB_SPAN_MIN / 2, SLAB_SPAN_MIN },
		{ SLAB_SPAN_MIN / 2 - 63, SLAB_SPAN_MIN / 2, SLAB_SPAN_MIN / 2 },
		{ SLAB_SPAN_MIN / 2, SLAB_SPAN_MIN / 2, SLAB_SPAN_MIN / 2 },
		{ SLAB_SPAN_MIN, SLAB_SPAN_MIN, SLAB_SPAN_MIN },
		{ UINT64_MAX, 0, 0 },
	};
	uint64_t range, span;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		slab_shape(cases[i].size, 64, 4096, &range, &span);
		assert_true(range == cases[i].range && span == cases[i].span);
	}
}

/* Nothing between two classes is lost, and none is smaller than what it is to hold. */
static void test_a_range_holds_its_size_and_divides_its_slab(void **state)
{
	uint64_t range, span;

	(void)state;
	for (uint64_t size = 1; size <= GRANULE / 2; size += 1 + size / 7) {
		slab_shape(size, 0, GRANULE, &range, &span);
		assert_true(range >= size && range >= SLAB_RANGE_MIN && span % range == 0);
		assert_true(range < 2 * size || range == SLAB_RANGE_MIN);
	}
}

/* ---- ranges ---- */

/* Also where the bitmap's last word is full, has one bit, lacks one, and where there is one range alone. */
static void test_each_range_is_taken_once(void **state)
{
	static const uint32_t counts[] = { 1, 2, 63, 64, 65, 127, 128, 8192 };
	struct allocation allocation;

	(void)state;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		bool *taken = calloc(counts[i], sizeof *taken);

		make(&allocation, KIND, counts[i]);
		for (uint32_t n = 0; n < counts[i]; n++) {
			uint32_t range = slab_take(&slabs, &allocation.slab);

			assert_true(range < counts[i]);
			assert_false(taken[range]);
			taken[range] = true;
		}
		assert_int_equal(allocation.slab.vacant, 0);
		free(taken);
		drop(&allocation);
	}
}

static void test_a_vacated_range_is_taken_again(void **state)
{
	struct allocation allocation;

	(void)state;
	make(&allocation, KIND, 130);
	for (uint32_t n = 0; n < 130; n++)
		slab_take(&slabs, &allocation.slab);
	for (uint32_t range = 129; range > 60; range -= 7) {
		slab_vacate(&slabs, &allocation.slab, range);
		assert_int_equal(allocation.slab.vacant, 1);
		assert_int_equal(slab_take(&slabs, &allocation.slab), range);
	}
	drop(&allocation);
}

/* ---- room ---- */

static void test_a_certain_range_is_taken_once(void **state)
{
	struct allocation allocation;

	(void)state;
	make(&allocation, KIND, 4);
	assert_int_equal(slab_claim(&allocation.slab, 4), -EINVAL);
	assert_int_equal(slab_claim(&allocation.slab, 2), 0);
	assert_int_equal(slab_claim(&allocation.slab, 2), -EINVAL);
	assert_int_equal(allocation.slab.vacant, 3);
	assert_int_equal(slab_take(&slabs, &allocation.slab), 0);
	assert_int_equal(slab_take(&slabs, &allocation.slab), 1);
	assert_int_equal(slab_take(&slabs, &allocation.slab), 3);
	drop(&allocation);
}

static void test_only_its_own_kind_finds_an_allocation(void **state)
{
	struct slab_kind others[5] = { KIND, KIND, KIND, KIND, KIND };
	struct allocation allocation;

	(void)state;
	others[0].range *= 2;
	others[1].device++;
	others[2].mode = 0604;
	others[3].owner++;
	others[4].group++;
	make(&allocation, KIND, 4);
	slab_offer(&slabs, &allocation.slab);
	for (int i = 0; i < 5; i++)
		assert_null(slabs_find(&slabs, &others[i]));
	assert_ptr_equal(allocation_of(slabs_find(&slabs, &KIND)), &allocation);
	drop(&allocation);
}

static void test_what_was_not_offered_is_not_found(void **state)
{
	struct allocation allocation;

	(void)state;
	make(&allocation, KIND, 4);
	slab_take(&slabs, &allocation.slab);
	assert_null(slabs_find(&slabs, &KIND));
	slab_offer(&slabs, &allocation.slab);
	slab_offer(&slabs, &allocation.slab);
	assert_ptr_equal(allocation_of(slabs_find(&slabs, &KIND)), &allocation);
	slab_hide(&slabs, &allocation.slab);
	slab_hide(&slabs, &allocation.slab);
	assert_null(slabs_find(&slabs, &KIND));
	drop(&allocation);
}

static void test_what_is_full_is_not_found_until_a_range_is_vacant(void **state)
{
	struct allocation allocation;
	uint32_t range = 0;

	(void)state;
	make(&allocation, KIND, 3);
	slab_offer(&slabs, &allocation.slab);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(allocation_of(slabs_find(&slabs, &KIND)), &allocation);
		range = slab_take(&slabs, &allocation.slab);
	}
	assert_null(slabs_find(&slabs, &KIND));
	slab_offer(&slabs, &allocation.slab);
	assert_null(slabs_find(&slabs, &KIND));
	slab_vacate(&slabs, &allocation.slab, range);
	assert_ptr_equal(allocation_of(slabs_find(&slabs, &KIND)), &allocation);
	drop(&allocation);
}

/* More users than those of its kind may map it: no new buffer gets a vacant range of it. */
static void invariant_6_what_is_closed_is_never_found(void **state)
{
	struct allocation allocation;

	(void)state;
	make(&allocation, KIND, 3);
	allocation.slab.closed = true;
	slab_offer(&slabs, &allocation.slab);
	assert_null(slabs_find(&slabs, &KIND));
	slab_vacate(&slabs, &allocation.slab, slab_take(&slabs, &allocation.slab));
	assert_null(slabs_find(&slabs, &KIND));
	drop(&allocation);
}

static void test_the_one_offered_last_is_taken_first(void **state)
{
	struct allocation allocations[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		make(&allocations[i], KIND, 1);
		slab_offer(&slabs, &allocations[i].slab);
	}
	for (int i = 2; i >= 0; i--) {
		assert_ptr_equal(allocation_of(slabs_find(&slabs, &KIND)), &allocations[i]);
		slab_take(&slabs, &allocations[i].slab);
	}
	assert_null(slabs_find(&slabs, &KIND));
	for (int i = 0; i < 3; i++)
		drop(&allocations[i]);
}

/* ---- against an oracle ---- */

#define MANY   6u
#define RANGES 70u

static struct allocation allocations[MANY];
static bool taken[MANY][RANGES];
static unsigned counts[MANY];
static unsigned seed;

static unsigned pick(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static struct slab_kind kind_of(unsigned i)
{
	struct slab_kind kind = KIND;

	kind.owner += i % 2;
	return kind;
}

static void take_one(unsigned i)
{
	uint32_t range;

	if (counts[i] == RANGES)
		return;
	range = slab_take(&slabs, &allocations[i].slab);
	assert_true(range < RANGES && !taken[i][range]);
	taken[i][range] = true;
	counts[i]++;
}

static void vacate_one(unsigned i)
{
	uint32_t range = pick(RANGES);

	if (!taken[i][range])
		return;
	slab_vacate(&slabs, &allocations[i].slab, range);
	taken[i][range] = false;
	counts[i]--;
}

/* One is found exactly where one has room, and that one has. */
static void expect_room(unsigned parity)
{
	struct slab_kind kind = kind_of(parity);
	const struct allocation *found = allocation_of(slabs_find(&slabs, &kind));
	bool any = false;

	for (unsigned i = parity; i < MANY; i += 2) {
		any |= counts[i] < RANGES;
		assert_false(found == &allocations[i] && counts[i] == RANGES);
	}
	assert_int_equal(found != NULL, any);
	assert_true(!found || (found - allocations) % 2 == parity);
}

static void test_random_taking_and_vacating_matches_an_oracle(void **state)
{
	(void)state;
	seed = 7;
	for (unsigned i = 0; i < MANY; i++) {
		make(&allocations[i], kind_of(i), RANGES);
		slab_offer(&slabs, &allocations[i].slab);
	}
	for (int n = 0; n < 100000; n++) {
		unsigned i = pick(MANY);

		/* in tides, so that all are full at times and all empty */
		if (pick(100) < (n / 5000 % 2 ? 20 : 80))
			take_one(i);
		else
			vacate_one(i);
		assert_int_equal(allocations[i].slab.vacant, RANGES - counts[i]);
		expect_room(i % 2);
	}
	for (unsigned i = 0; i < MANY; i++)
		drop(&allocations[i]);
}

#define ON(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_small_sizes_have_classes_and_large_ones_whole_granules),
		ON(test_a_margin_is_left_in_each_range),
		ON(test_a_range_holds_its_size_and_divides_its_slab),
		ON(test_each_range_is_taken_once),
		ON(test_a_vacated_range_is_taken_again),
		ON(test_a_certain_range_is_taken_once),
		ON(test_only_its_own_kind_finds_an_allocation),
		ON(test_what_was_not_offered_is_not_found),
		ON(test_what_is_full_is_not_found_until_a_range_is_vacant),
		ON(invariant_6_what_is_closed_is_never_found),
		ON(test_the_one_offered_last_is_taken_first),
		ON(test_random_taking_and_vacating_matches_an_oracle),
	};

	return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
