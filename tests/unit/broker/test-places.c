/* SPDX-License-Identifier: Apache-2.0 */
/* test-places.c - each place has one holder at a time, and one that came back is handed out last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "broker/registry/places.h"

#define COUNT 7u

static void test_hands_out_each_once(void **state)
{
	struct places places;
	bool seen[COUNT] = { false };

	(void)state;
	assert_int_equal(places_init(&places, COUNT), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		int64_t place = places_take(&places);

		assert_true(place >= 0 && place < COUNT && !seen[place]);
		seen[place] = true;
	}
	assert_int_equal(places_take(&places), -1);
	assert_int_equal(places_take(&places), -1);
	places_give(&places, 4);
	assert_int_equal(places_take(&places), 4);
	assert_int_equal(places_take(&places), -1);
	places_deinit(&places);
}

static void test_returned_place_comes_last(void **state)
{
	struct places places;
	int64_t first;

	(void)state;
	assert_int_equal(places_init(&places, COUNT), 0);
	first = places_take(&places);
	places_give(&places, (uint32_t)first);
	for (unsigned i = 0; i < COUNT - 1; i++)
		assert_int_not_equal(places_take(&places), first);
	assert_int_equal(places_take(&places), first);
	places_deinit(&places);
}

static void test_without_places(void **state)
{
	struct places places;

	(void)state;
	assert_int_equal(places_init(&places, 0), 0);
	assert_int_equal(places_take(&places), -1);
	places_deinit(&places);
}

/* Against the simplest oracle there is: who holds what. */
static void test_random_sequence(void **state)
{
	struct places places;
	bool orphaned[COUNT] = { false };
	unsigned seed = 1, out = 0;

	(void)state;
	assert_int_equal(places_init(&places, COUNT), 0);
	for (int i = 0; i < 100000; i++) {
		uint32_t which = (uint32_t)rand_r(&seed) % COUNT;

		if (rand_r(&seed) % 2) {
			int64_t place = places_take(&places);

			assert_int_equal(place >= 0, out < COUNT);
			if (place < 0)
				continue;
			assert_true(place < COUNT && !orphaned[place]);
			orphaned[place] = true;
			out++;
		} else if (orphaned[which]) {
			places_give(&places, which);
			orphaned[which] = false;
			out--;
		}
	}
	places_deinit(&places);
}

static void test_claimed_places_are_not_handed_out(void **state)
{
	bool out[COUNT] = { false };
	struct places places;

	(void)state;
	assert_int_equal(places_init(&places, COUNT), 0);
	for (uint32_t i = 0; i < COUNT; i += 3) {
		assert_true(places_are_claimable(&places, i));
		places_claim(&places, i);
		assert_false(places_are_claimable(&places, i));
		out[i] = true;
	}
	assert_false(places_are_claimable(&places, COUNT));
	places_claimed(&places);
	for (int64_t place; (place = places_take(&places)) >= 0; out[place] = true)
		assert_false(out[place]);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_true(out[i]);
	places_give(&places, 0);
	assert_int_equal(places_take(&places), 0);
	places_deinit(&places);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hands_out_each_once),
		cmocka_unit_test(test_returned_place_comes_last),
		cmocka_unit_test(test_without_places),
		cmocka_unit_test(test_random_sequence),
		cmocka_unit_test(test_claimed_places_are_not_handed_out),
	};

	return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
