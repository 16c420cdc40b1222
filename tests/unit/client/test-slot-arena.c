/* SPDX-License-Identifier: Apache-2.0 */
/* test-slot-arena.c - the pool of slots has an end, and says so. What slots are for is test-slot.c's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/slot.h"
#include "common/error.h"
#include "device/device.h"

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

/* The linker's name for wiped_map(), which slot.c calls: the program's own is __real_wiped_map(). */
void *__real_wiped_map(size_t size, int protection);
void *__wrap_wiped_map(size_t size, int protection);

static int map_error; /* errno with which it fails; 0: it does not */

void *__wrap_wiped_map(size_t size, int protection)
{
	if (!map_error)
		return __real_wiped_map(size, protection);
	errno = map_error;
	return NULL;
}

static int register_nothing(void *page, size_t size, bool writable)
{
	(void)page, (void)size, (void)writable;
	return 0;
}

static const struct device fake = { .page_register = register_nothing };

static void test_without_address_space_no_slot_is_taken(void **state)
{
	static struct slot_arena pool;
	struct slot *slots = NULL;

	(void)state;
	map_error = EPERM; /* no error of the calls that would follow */
	assert_int_equal(slot_arena_take(&pool, &fake, NULL, 4, &slots), -EPERM);
	assert_non_null(strstr(error_text(), "that a fork wipes"));
	assert_null(slots);
	assert_null(pool.slot);
	assert_int_equal(pool.chunks, 0);
	assert_int_equal(atomic_load(&pool.used), 0);
	map_error = 0;
	assert_int_equal(slot_arena_take(&pool, &fake, NULL, 4, &slots), 0);
	assert_ptr_equal(slots, pool.slot);
	assert_int_equal(pool.chunks, 1);
	assert_int_equal(atomic_load(&pool.used), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_address_space_no_slot_is_taken),
		cmocka_unit_test(test_no_slot_is_taken_beyond_the_last),
	};

	return cmocka_run_group_tests_name("slot pool", tests, NULL, NULL);
}
