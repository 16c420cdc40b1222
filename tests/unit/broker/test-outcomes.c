/* SPDX-License-Identifier: Apache-2.0 */
/* test-outcomes.c - the outcomes of a lane's orders that no order has acknowledged (owner/outcomes.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/owner/outcomes.h"

static struct outcomes outcomes;

static int setup(void **state)
{
	(void)state;
	memset(&outcomes, 0, sizeof outcomes);
	return 0;
}

static void add(uint64_t number)
{
	const struct order order = { .kind = ORDER_ZERO, .number = number, .memory = 100 + number };
	struct outcome outcome = { .number = number, .error = -(int)number };

	memset(&outcome.handle, 0xee, sizeof outcome.handle);
	outcomes_add(&outcomes, &order, &outcome);
}

static void expect(unsigned count, uint64_t oldest)
{
	assert_int_equal(outcomes.count, count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(outcomes_at(&outcomes, i)->outcome.number, oldest + i);
		assert_int_equal(outcomes_at(&outcomes, i)->outcome.error, -(int)(oldest + i));
		assert_int_equal(outcomes_at(&outcomes, i)->memory, 100 + oldest + i);
		assert_int_equal(outcomes_at(&outcomes, i)->kind, ORDER_ZERO);
	}
}

static unsigned handles(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < LANE_ORDERS; i++)
		count += outcomes.ring[i].outcome.handle.bytes[0] != 0;
	return count;
}

/* Also many times round the ring. */
static void test_an_acknowledgement_forgets_the_outcome_and_all_before_it(void **state)
{
	uint64_t oldest = 1, next = 1;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		while (outcomes.count < LANE_ORDERS - i % 5)
			add(next++);
		expect((unsigned)(next - oldest), oldest);
		assert_int_equal(handles(), outcomes.count);
		outcomes_forget(&outcomes, oldest + i % 3);
		oldest += i % 3 + 1;
	}
	outcomes_forget(&outcomes, next - 1);
	expect(0, 0);
	assert_int_equal(handles(), 0);
}

/* 0: nothing is acknowledged. 4: no outcome has the number. 2 and 1 again: their outcomes are gone already. */
static void test_a_number_that_is_not_there_forgets_nothing(void **state)
{
	(void)state;
	outcomes_forget(&outcomes, 0);
	for (uint64_t i = 1; i <= 3; i++)
		add(i);
	outcomes_forget(&outcomes, 0);
	outcomes_forget(&outcomes, 4);
	expect(3, 1);
	outcomes_forget(&outcomes, 2);
	outcomes_forget(&outcomes, 2);
	outcomes_forget(&outcomes, 1);
	expect(1, 3);
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_an_acknowledgement_forgets_the_outcome_and_all_before_it),
		ON(test_a_number_that_is_not_there_forgets_nothing),
	};

	return cmocka_run_group_tests_name("kept outcomes", tests, NULL, NULL);
}
