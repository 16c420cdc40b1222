/* SPDX-License-Identifier: Apache-2.0 */
/* test-slot-arena.c - the pool of slots has an end, and says so. What slots are for is test-slot.c's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/slot.h"
#include "common/error.h"

/* As it is when nearly all are taken: nothing more is made, or touched. */
static void test_no_slot_is_taken_beyond_the_last(void **state)
{
	static struct slot_arena pool;
	struct slot *slots = NULL;

	(void)state;
	pool.chunks = SLOT_CHUNKS;
	for (uint32_t left = 0; left < 4; left++) {
		atomic_store(&pool.used, SLOTS_MAX - left);
		assert_int_equal(slot_arena_take(&pool, NULL, NULL, 4, &slots), -ENOMEM);
		assert_non_null(strstr(error_text(), "return some"));
		assert_null(slots);
		assert_int_equal(atomic_load(&pool.used), SLOTS_MAX - left);
	}
	assert_int_equal(pool.chunks, SLOT_CHUNKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_slot_is_taken_beyond_the_last),
	};

	return cmocka_run_group_tests_name("slot pool", tests, NULL, NULL);
}
