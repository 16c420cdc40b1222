/* SPDX-License-Identifier: Apache-2.0 */
/* test-error.c - the error message of a failure: each thread has its own, and none overruns. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"

/* Runs first: nothing has failed yet. */
static void test_begins_without_error(void **state)
{
	(void)state;
	assert_string_equal(error_text(), "no error");
}

static void test_keeps_code_and_message(void **state)
{
	(void)state;
	assert_int_equal(error_set(-ENOENT, "no '%s' among %d", "heat/0", 3), -ENOENT);
	assert_string_equal(error_text(), "no 'heat/0' among 3");
	assert_int_equal(error_set(-EINVAL, "another"), -EINVAL);
	assert_string_equal(error_text(), "another");
}

/* "return error_set(-errno, ...)" is a failure even where something left errno at 0. */
static void test_is_always_a_failure(void **state)
{
	(void)state;
	assert_int_equal(error_set(0, "it failed"), -EIO);
	assert_string_equal(error_text(), "it failed");
}

static void test_cuts_what_is_too_long(void **state)
{
	char text[2 * ERROR_TEXT_MAX];

	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	error_set(-EINVAL, "%s", text);
	assert_int_equal(strlen(error_text()), ERROR_TEXT_MAX - 1);
}

static void test_prints_errno(void **state)
{
	(void)state;
	errno = EACCES;
	error_set(-errno, "it failed: %m");
	assert_string_equal(error_text(), "it failed: Permission denied");
}

/* Also of the escapes of 8 bits, alone and as UTF-8. */
static void test_no_escape_reaches_a_terminal(void **state)
{
	(void)state;
	error_set(-EINVAL, "%s", "a\033[2J\x9b" "b\xc2\x9b" "c\177~");
	assert_string_equal(error_text(), "a?[2J?b??c?~");
}

/* 0: this thread began without an error message, and kept its own. */
static void *fail_alone(void *argument)
{
	pthread_barrier_t *barrier = argument;
	uintptr_t wrong = strcmp(error_text(), "no error") != 0;

	error_set(-EIO, "the other thread's");
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return (void *)(wrong + (strcmp(error_text(), "the other thread's") != 0));
}

static void test_threads_do_not_share(void **state)
{
	pthread_barrier_t barrier;
	pthread_t thread;
	void *wrong;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	error_set(-EPERM, "mine");
	assert_int_equal(pthread_create(&thread, NULL, fail_alone, &barrier), 0);
	pthread_barrier_wait(&barrier);
	assert_string_equal(error_text(), "mine");
	error_set(-EPERM, "mine again");
	pthread_barrier_wait(&barrier);
	pthread_join(thread, &wrong);
	assert_null(wrong);
	assert_string_equal(error_text(), "mine again");
	pthread_barrier_destroy(&barrier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_without_error),
		cmocka_unit_test(test_keeps_code_and_message),
		cmocka_unit_test(test_is_always_a_failure),
		cmocka_unit_test(test_cuts_what_is_too_long),
		cmocka_unit_test(test_prints_errno),
		cmocka_unit_test(test_no_escape_reaches_a_terminal),
		cmocka_unit_test(test_threads_do_not_share),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
