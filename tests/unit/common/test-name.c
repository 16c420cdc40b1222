/* SPDX-License-Identifier: Apache-2.0 */
/* test-name.c - which names people may write, byte by byte at the edges. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/name.h"

static void test_name_lengths(void **state)
{
	char name[NAME_SIZE + 8];

	(void)state;
	memset(name, 'a', sizeof name);
	for (size_t length = 1; length < NAME_SIZE; length++) {
		name[length] = 0;
		assert_int_equal(name_check(name), 0);
		name[length] = 'a';
	}
	name[NAME_SIZE] = 0;
	assert_int_equal(name_check(name), -ENAMETOOLONG);
	assert_non_null(strstr(error_text(), "95"));
	assert_int_equal(name_check(""), -EINVAL);
	assert_non_null(strstr(error_text(), "1 to 95 characters"));
	assert_int_equal(name_check(NULL), -EINVAL);
}

static bool listed(int c, const char *others)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr(others, c);
}

/* Each of the 255 bytes, first and in the middle. */
static void test_name_bytes(void **state)
{
	(void)state;
	for (int c = 1; c < 256; c++) {
		char first[] = { (char)c, 'x', 0 }, middle[] = { 'x', (char)c, 'x', 0 };

		assert_int_equal(name_check(middle), listed(c, "._/-") ? 0 : -EINVAL);
		assert_int_equal(name_check(first), listed(c, "._-") ? 0 : -EINVAL);
	}
}

/* What is refused is named, and nothing of it reaches a terminal that could change the terminal. */
static void test_refusals_name_the_name(void **state)
{
	char longer[] = "a-name-that-is-longer-than-any-buffer-may-have-"
			"a-name-that-is-longer-than-any-buffer-may-have-"
			"a-name-that-is-longer-than-any-buffer-may-have";

	(void)state;
	name_check("a b");
	assert_non_null(strstr(error_text(), "'a?b' is no buffer's name"));
	name_check("\033[2J\xff");
	assert_non_null(strstr(error_text(), "'?[2J?' is no buffer's name"));
	assert_int_equal(name_check(longer), -ENAMETOOLONG);
	assert_non_null(strstr(error_text(), "'a-name-that-is-longer-than-any-buffer-ma...'"));
	instance_check("a/b");
	assert_non_null(strstr(error_text(), "'a/b' is no name of an instance"));
	instance_check(longer);
	assert_non_null(strstr(error_text(), "'a-name-that-is-longer-"));
}

static void test_instance_names(void **state)
{
	(void)state;
	assert_int_equal(instance_check("a"), 0);
	assert_int_equal(instance_check("job_7-A"), 0);
	assert_int_equal(instance_check("12345678901234567890"), 0);
	assert_int_equal(instance_check("123456789012345678901"), -EINVAL);
	assert_int_equal(instance_check(""), -EINVAL);
	assert_non_null(strstr(error_text(), "1 to 20 characters"));
	assert_int_equal(instance_check(NULL), -EINVAL);
	for (int c = 1; c < 256; c++) {
		char name[] = { 'x', (char)c, 0 };

		/* no dot: it separates an instance from its objects in shared memory */
		assert_int_equal(instance_check(name), listed(c, "_-") ? 0 : -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name_lengths),
		cmocka_unit_test(test_name_bytes),
		cmocka_unit_test(test_refusals_name_the_name),
		cmocka_unit_test(test_instance_names),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
