/* SPDX-License-Identifier: Apache-2.0 */
/* test-deadlines.c - the first of many deadlines, however they came and went, against a plain search. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "broker/base/deadlines.h"

#define MANY  200u
#define STEPS 20000u

static struct deadlines deadlines;
static struct deadline one[MANY];
static bool in[MANY];

/* The smallest of those that are in; UINT64_MAX: none is. */
static uint64_t searched(void)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < MANY; i++)
		if (in[i] && one[i].ms < first)
			first = one[i].ms;
	return first;
}

static void expect_first(void)
{
	const struct deadline *first = deadlines_first(&deadlines);

	assert_true((first ? first->ms : UINT64_MAX) == searched());
}

static void toggle(unsigned i)
{
	if (in[i])
		deadlines_remove(&deadlines, &one[i]);
	else
		assert_int_equal(deadlines_add(&deadlines, &one[i]), 0);
	in[i] = !in[i];
}

static void test_none(void **state)
{
	(void)state;
	assert_null(deadlines_first(&deadlines));
}

static void test_they_come_out_in_order(void **state)
{
	uint64_t last = 0;

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		one[i].ms = i * 7919 % MANY;
		toggle(i);
	}
	for (unsigned i = 0; i < MANY; i++) {
		struct deadline *first = deadlines_first(&deadlines);

		assert_true(first->ms >= last);
		last = first->ms;
		toggle((unsigned)(first - one));
	}
	assert_null(deadlines_first(&deadlines));
}

/* Few values, so that many are equal; from the middle as well as from the top. */
static void test_any_order_of_adds_and_removes(void **state)
{
	unsigned short seed[3] = { 1, 2, 3 };

	(void)state;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)nrand48(seed) % MANY;

		if (!in[i])
			one[i].ms = (uint64_t)nrand48(seed) % 50;
		toggle(i);
		expect_first();
	}
	for (unsigned i = 0; i < MANY; i++)
		if (in[i])
			toggle(i);
	expect_first();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_they_come_out_in_order),
		cmocka_unit_test(test_any_order_of_adds_and_removes),
	};

	return cmocka_run_group_tests_name("deadlines", tests, NULL, NULL);
}
