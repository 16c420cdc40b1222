/* SPDX-License-Identifier: Apache-2.0 */
/* test-fork.c - a forked child closes the descriptors of each kind of device that its parent has used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "client/client.h"
#include "client/fork.h"

static unsigned closed[DEVICE_KINDS]; /* in a child: how often the kind of device was told of the fork */

static void host_closed(void)
{
	closed[DEVICE_HOST]++;
}

static void cuda_closed(void)
{
	closed[DEVICE_CUDA]++;
}

static const struct device host = { .kind = DEVICE_HOST, .child_after_fork = host_closed };
static const struct device gpu = { .kind = DEVICE_CUDA, .child_after_fork = cuda_closed };

static void expect_closed(unsigned of_host, unsigned of_cuda)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(closed[DEVICE_HOST] != of_host || closed[DEVICE_CUDA] != of_cuda);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(closed[DEVICE_HOST] + closed[DEVICE_CUDA], 0);
}

/* A process may have clients of a broker of each kind. */
static void test_each_kind_is_told(void **state)
{
	struct gpub_client *client;

	(void)state;
	assert_true(sodium_init() >= 0);
	client = client_alloc();
	assert_non_null(client);
	fork_guard(client);
	expect_closed(0, 0);
	fork_guard_device(&gpu);
	expect_closed(0, 1);
	fork_guard_device(&host);
	expect_closed(1, 1);
	fork_guard_device(&gpu);
	expect_closed(1, 1);
	fork_unguard(client); /* memory of a mapping that failed to close is still granted */
	expect_closed(1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind_is_told),
	};

	return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
