/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-addresses.c - addresses for buffers that all processes map at one address: no two buffers have the same, and
 * there is room between.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "broker/memory/addresses.h"

#define GRANULE (2ull << 20)
#define MANY    300
#define LAST    ((uint32_t)((ADDRESSES_END - ADDRESSES_BEGIN) / ADDRESSES_ALIGN - 1))

static uint64_t begin[MANY], size[MANY];

/* There is free space before and behind each, and all lie inside. */
static void expect_apart(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		assert_true(begin[i] >= ADDRESSES_BEGIN + ADDRESSES_ALIGN && begin[i] + size[i] <= ADDRESSES_END);
		assert_int_equal(begin[i] % ADDRESSES_ALIGN, 0);
		for (unsigned j = 0; j < i; j++)
			assert_true(begin[i] + size[i] + ADDRESSES_ALIGN <= begin[j] ||
				    begin[j] + size[j] + ADDRESSES_ALIGN <= begin[i]);
	}
}

static void use_often(struct addresses *addresses)
{
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			size[i] = (1 + i * 37 % 1000) * GRANULE;
			begin[i] = addresses_take(addresses, size[i]);
		}
		expect_apart(MANY);
		for (unsigned i = round; i < MANY; i++)
			addresses_give(addresses, begin[i], size[i]);
		for (unsigned i = 0; i < round; i++)
			addresses_give(addresses, begin[i], size[i]);
	}
}

static void test_ranges_are_apart(void **state)
{
	static const uint32_t starts[] = { 0, 12345, UINT32_MAX, LAST, LAST - 500 };
	struct addresses addresses;

	(void)state;
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		assert_int_equal(addresses_init(&addresses, starts[i]), 0);
		use_often(&addresses);
		addresses_deinit(&addresses);
	}
}

static void test_brokers_begin_apart(void **state)
{
	struct addresses one, other;
	uint64_t first, second;

	(void)state;
	assert_int_equal(addresses_init(&one, 1000), 0);
	assert_int_equal(addresses_init(&other, 20000), 0);
	first = addresses_take(&one, GRANULE);
	second = addresses_take(&other, GRANULE);
	assert_true((first > second ? first - second : second - first) > 1000 * ADDRESSES_ALIGN);
	addresses_deinit(&one);
	addresses_deinit(&other);
}

static void test_what_comes_back_is_used_again(void **state)
{
	struct addresses addresses;
	uint64_t one, two;

	(void)state;
	assert_int_equal(addresses_init(&addresses, 7), 0);
	one = addresses_take(&addresses, GRANULE);
	two = addresses_take(&addresses, GRANULE);
	addresses_give(&addresses, one, GRANULE);
	assert_int_equal(addresses_take(&addresses, GRANULE), one);
	addresses_give(&addresses, 0, GRANULE);
	addresses_give(&addresses, two, GRANULE);
	assert_int_equal(addresses_take(&addresses, GRANULE), two);
	addresses_give(&addresses, one, GRANULE);
	addresses_give(&addresses, two, GRANULE);
	addresses_deinit(&addresses);
}

#define LARGE (1ull << 40)

static unsigned take_all(struct addresses *addresses, uint64_t bytes, uint64_t taken[MANY])
{
	unsigned count = 0;

	while (count < MANY && (taken[count] = addresses_take(addresses, bytes)))
		count++;
	return count;
}

/* Whatever sizes it was in, it is whole again when all have come back. */
static void test_what_comes_back_is_joined(void **state)
{
	struct addresses addresses;
	uint64_t taken[MANY];
	unsigned large, count;

	(void)state;
	assert_int_equal(addresses_init(&addresses, 777777), 0);
	large = take_all(&addresses, LARGE, taken);
	assert_in_range(large, 20, 24);
	for (unsigned i = 0; i < large; i++)
		addresses_give(&addresses, taken[i], LARGE);
	for (uint64_t bytes = LARGE / 2; bytes > LARGE / 8; bytes /= 2) {
		count = take_all(&addresses, bytes, taken);
		assert_in_range(count, large, MANY);
		for (unsigned i = 0; i < count; i++)
			addresses_give(&addresses, taken[(i * 7) % count], bytes); /* in another order */
		assert_int_equal(take_all(&addresses, LARGE, taken), large);
		for (unsigned i = 0; i < large; i++)
			addresses_give(&addresses, taken[i], LARGE);
	}
	assert_int_equal(addresses_take(&addresses, ADDRESSES_END), 0);
	assert_int_equal(addresses_take(&addresses, UINT64_MAX - GRANULE), 0);
	addresses_deinit(&addresses);
}

/* As a broker that loads a ledger does; then no address is given to two. */
static void test_what_was_taken_is_claimed_by_the_next(void **state)
{
	struct addresses addresses, next;

	(void)state;
	assert_int_equal(addresses_init(&addresses, 4711), 0);
	assert_int_equal(addresses_init(&next, addresses.random), 0);
	use_often(&addresses);
	assert_int_equal(addresses_claim(&next, 0, GRANULE), 0);
	for (unsigned i = 0; i < MANY; i += 2) {
		unsigned which = MANY - 1 - i; /* in another order */

		assert_int_equal(addresses_claim(&next, begin[which], size[which]), 0);
		assert_int_equal(addresses_claim(&next, begin[which], size[which]), -EBADMSG);
	}
	for (unsigned i = 0; i < MANY; i += 2)
		begin[i] = addresses_take(&next, size[i]);
	expect_apart(MANY);
	assert_int_equal(addresses_claim(&next, 4096, GRANULE), -EBADMSG);
	assert_int_equal(addresses_claim(&next, begin[0] + 4096, GRANULE), -EBADMSG);
	assert_int_equal(addresses_claim(&next, ADDRESSES_END, GRANULE), -EBADMSG);
	addresses_deinit(&next);
	addresses_deinit(&addresses);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_are_apart),
		cmocka_unit_test(test_brokers_begin_apart),
		cmocka_unit_test(test_what_comes_back_is_used_again),
		cmocka_unit_test(test_what_comes_back_is_joined),
		cmocka_unit_test(test_what_was_taken_is_claimed_by_the_next),
	};

	return cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
}
