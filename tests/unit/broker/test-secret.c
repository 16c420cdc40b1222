/* SPDX-License-Identifier: Apache-2.0 */
/* test-secret.c - keys are random, guarded, and not in a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/base/secret.h"

#define SIZE 32

static void test_two_secrets_differ(void **state)
{
	uint8_t *one = secret_new(SIZE), *two = secret_new(SIZE);

	(void)state;
	assert_memory_not_equal(one, two, SIZE);
	sodium_free(one);
	sodium_free(two);
}

static void invariant_4_a_child_has_no_secret(void **state)
{
	uint8_t *secret = secret_new(SIZE);
	int status;
	pid_t child = fork();

	(void)state;
	if (!child)
		_exit(sodium_is_zero(secret, SIZE));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_false(sodium_is_zero(secret, SIZE));
	sodium_free(secret);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_secrets_differ),
		cmocka_unit_test(invariant_4_a_child_has_no_secret),
	};

	return sodium_init() < 0 || cmocka_run_group_tests_name("secrets", tests, NULL, NULL);
}
