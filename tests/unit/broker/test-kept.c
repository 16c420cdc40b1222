/* SPDX-License-Identifier: Apache-2.0 */
/* test-kept.c - the table of descriptors (keeper/kept.h): which are open, and which are found. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/keeper/kept.h"
#include "common/tables.h"
#include "failing.h"

static struct kept kept;

static int teardown(void **state)
{
	(void)state;
	kept_clear(&kept);
	return kept.by_key != NULL;
}

static int new_file(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void test_what_is_put_is_found(void **state)
{
	int first = new_file(), second = new_file();

	(void)state;
	assert_int_equal(kept_find(&kept, 1), -1);
	assert_int_equal(kept_put(&kept, 1, first), 0);
	assert_int_equal(kept_put(&kept, UINT64_MAX, second), 0);
	assert_int_equal(kept_find(&kept, 1), first);
	assert_int_equal(kept_find(&kept, UINT64_MAX), second);
	assert_int_equal(kept_find(&kept, 2), -1);
	assert_int_equal(kept_count(&kept), 2);
	kept_clear(&kept);
	assert_false(is_open(first));
	assert_false(is_open(second));
	assert_int_equal(kept_count(&kept), 0);
}

static void test_a_key_has_one_descriptor(void **state)
{
	int first = new_file(), second = new_file();

	(void)state;
	assert_int_equal(kept_put(&kept, 7, first), 0);
	assert_int_equal(kept_put(&kept, 7, second), 0);
	assert_int_equal(kept_find(&kept, 7), second);
	assert_int_equal(kept_count(&kept), 1);
	assert_false(is_open(first));
}

static void test_a_drop_closes_and_a_take_does_not(void **state)
{
	int first = new_file(), second = new_file();

	(void)state;
	assert_false(kept_drop(&kept, 1));
	assert_int_equal(kept_take(&kept, 1), -1);
	assert_int_equal(kept_put(&kept, 1, first), 0);
	assert_int_equal(kept_put(&kept, 2, second), 0);
	assert_true(kept_drop(&kept, 1));
	assert_false(is_open(first));
	assert_int_equal(kept_take(&kept, 2), second);
	assert_true(is_open(second));
	assert_int_equal(kept_count(&kept), 0);
	close(second);
}

static unsigned visited[100];

/* Drops each third descriptor. */
static void visit(void *context, uint64_t key, int fd)
{
	assert_int_equal(kept_find(context, key), fd);
	visited[key]++;
	if (key % 3 == 0)
		assert_true(kept_drop(context, key));
}

static void test_each_is_visited_once(void **state)
{
	(void)state;
	for (uint64_t key = 0; key < 100; key++)
		assert_int_equal(kept_put(&kept, key, new_file()), 0);
	kept_each(&kept, visit, &kept);
	for (uint64_t key = 0; key < 100; key++) {
		assert_int_equal(visited[key], 1);
		assert_int_equal(kept_find(&kept, key) >= 0, key % 3 != 0);
	}
}

static void test_without_memory_nothing_changes(void **state)
{
	int fd = new_file(), calls = 0;

	(void)state;
	do {
		fail_after((unsigned)calls++);
		if (!kept_put(&kept, 1, fd))
			break;
		assert_int_equal(kept_find(&kept, 1), -1);
		assert_true(is_open(fd));
	} while (fail_ended());
	fail_ended();
	assert_true(calls > 2);
	assert_int_equal(kept_find(&kept, 1), fd);
	fail_all();
	assert_int_equal(kept_put(&kept, 1, dup(fd)), 0); /* a key that is there needs none */
	fail_ended();
}

#define ON(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_what_is_put_is_found),
		ON(test_a_key_has_one_descriptor),
		ON(test_a_drop_closes_and_a_take_does_not),
		ON(test_each_is_visited_once),
		ON(test_without_memory_nothing_changes),
	};

	tables_init();
	return cmocka_run_group_tests_name("kept descriptors", tests, NULL, NULL);
}
