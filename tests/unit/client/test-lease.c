/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-lease.c - leases that are returned: in stream order they end when the device has written their word, and
 * otherwise the record remembers it. records-harness.h is the world.
 */
#include <errno.h>

#include "records-harness.h"

/* ---- returns in stream order ---- */

static void invariant_2_a_return_on_ends_when_its_write_lands(void **state)
{
	uint64_t token = hold();
	bool held = true;

	(void)state;
	assert_int_equal(give_back_on(token), 0);
	assert_false(record_unused(record, &held));
	assert_false(held);
	assert_int_equal(give_back(token), -ESTALE);
	land();
	assert_true(idle());
}

/* A late write of an earlier sequence does not land a later return of the same slot. */
static void invariant_2_an_older_write_ends_no_return(void **state)
{
	uint64_t first = hold(), second;

	(void)state;
	assert_int_equal(give_back_on(first), 0);
	land();
	second = hold();
	assert_int_equal(token_index(second), token_index(first));
	assert_int_equal(give_back_on(second), 0);
	assert_false(idle());
	land();
	assert_true(idle());
}

static void test_slot_that_has_not_landed_is_not_taken(void **state)
{
	uint64_t token[SLOTS], none;

	(void)state;
	for (unsigned i = 0; i < SLOTS; i++) {
		token[i] = hold();
		assert_int_equal(give_back_on(token[i]), 0);
	}
	assert_int_equal(record_hold(record, &none), -EAGAIN);
	land();
	assert_int_equal(token_index(hold()), token_index(token[SLOTS - 1]));
}

static void test_return_on_that_fails_leaves_the_lease(void **state)
{
	uint64_t token = hold();
	bool held;

	(void)state;
	fake_write_error = -EBUSY;
	assert_int_equal(give_back_on(token), -EBUSY);
	assert_false(record_unused(record, &held));
	assert_true(held);
	assert_int_equal(give_back(token), 0);
}

/* ---- unordered returns ---- */

static void test_an_unordered_return_is_recorded(void **state)
{
	uint64_t token = hold();

	(void)state;
	assert_true(record_quiesced(record));
	assert_int_equal(give_back_on(token), 0);
	land();
	assert_true(record_quiesced(record));
	token = hold();
	assert_int_equal(give_back(token), 0);
	assert_false(record_quiesced(record));
	assert_int_equal(give_back_on(hold()), 0);
	land();
	assert_false(record_quiesced(record));
	/* the next buffer's leases are not this one's */
	assert_int_equal(close_now(true), 0);
	assert_ptr_equal(record_bind(client, "other", 0), record);
	open_record(record, MAPPING + 1);
	assert_true(record_quiesced(record));
	hold();
	record_drop_holds(record);
	assert_false(record_quiesced(record));
}

/* A hold that no lease came of is no return. */
static void test_a_cancelled_hold_is_no_unordered_return(void **state)
{
	uint64_t token;

	(void)state;
	lease_undo(client, hold());
	atomic_store(&board_generation, BOARD_WORD(5, BOARD_DRAINING));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	assert_true(record_quiesced(record));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_2_a_return_on_ends_when_its_write_lands),
		ON(invariant_2_an_older_write_ends_no_return),
		ON(test_slot_that_has_not_landed_is_not_taken),
		ON(test_return_on_that_fails_leaves_the_lease),
		ON(test_an_unordered_return_is_recorded),
		ON(test_a_cancelled_hold_is_no_unordered_return),
	};

	return cmocka_run_group_tests_name("leases", tests, NULL, NULL);
}
