/* SPDX-License-Identifier: Apache-2.0 */
/* test-cache.c - when a mapping that the broker wants back is closed, and when the service thread is to look again. */
#include "records-harness.h"

#include <stdlib.h>

#include "client/cache.h"
#include "common/export.h"

static struct device unmapping;
static unsigned unmapped;

static int unmap(int ordinal, void *base)
{
	(void)ordinal;
	(void)base;
	unmapped++;
	return 0;
}

/* The mapping's close need not wait, and the broker wants the mapping back. */
static int wanted(void **state)
{
	if (setup(state))
		return -1;
	unmapped = 0;
	unmapping = fake;
	unmapping.unmap = unmap;
	client->device = &unmapping;
	record->mapping->opened.exported = EXPORT_VMM;
	mapping_want(client, record->mapping);
	return 0;
}

/* What the service thread does. Returns whether the thread is to look again after a pause. */
static bool retire(void)
{
	bool again;

	pthread_mutex_lock(&client->lock);
	again = cache_retire(client, false);
	pthread_mutex_unlock(&client->lock);
	return again;
}

static void expect_closed_at_last(void)
{
	assert_int_equal(unmapped, 0);
	assert_false(retire());
	assert_int_equal(unmapped, 1);
	assert_null(client->wanted);
}

static void test_it_is_closed_after_its_last_return(void **state)
{
	uint64_t token = hold();

	(void)state;
	assert_true(retire());
	assert_int_equal(give_back_on(token), 0);
	assert_true(retire());
	land();
	expect_closed_at_last();
}

/* Nothing wakes the service thread when the other thread has done. */
static void test_it_is_looked_at_again_after_another_thread_has_used_it(void **state)
{
	struct waiter waiter;

	(void)state;
	record->mapping->syncing = 1;
	assert_true(retire());
	record->mapping->syncing = 0;
	record_wait_begin(record, &waiter);
	assert_true(retire());
	record_wait_end(record, &waiter);
	expect_closed_at_last();
}

/* Only a call that waits for the device can close it. */
static void test_after_an_unordered_return_it_is_left_to_others(void **state)
{
	(void)state;
	assert_int_equal(give_back(hold()), 0);
	assert_false(retire());
	assert_int_equal(unmapped, 0);
	assert_non_null(client->wanted);
	pthread_mutex_lock(&client->lock);
	record_release(client, record, 0, NULL);
	mapping_remove(client, client->wanted);
	pthread_mutex_unlock(&client->lock);
}

#define WANTED(name) cmocka_unit_test_setup_teardown(name, wanted, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WANTED(test_it_is_closed_after_its_last_return),
		WANTED(test_it_is_looked_at_again_after_another_thread_has_used_it),
		WANTED(test_after_an_unordered_return_it_is_left_to_others),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
