/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-cuda-fork.c - a child notices that CUDA was started before its fork, however it was made; no other process does.
 * The tests only declare that CUDA was started. tests/gpu/ tests the same with CUDA.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda-fork.h"
#include "device/descriptors.h"
#include "device/device.h"

static pid_t raw_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

typedef pid_t forker(void);

static forker *const forkers[] = { fork, _Fork, raw_clone };

/* Whether a descendant after so many forks notices it. */
static int child_says(forker *make, int generations)
{
	int status;
	pid_t pid = make();

	assert_true(pid >= 0);
	if (!pid)
		_exit(generations > 1 ? child_says(make, generations - 1) : device_cuda_forked());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void assert_all_say(int forked)
{
	for (unsigned i = 0; i < sizeof forkers / sizeof *forkers; i++)
		for (int generations = 1; generations <= 3; generations++)
			assert_int_equal(child_says(forkers[i], generations), forked);
	assert_false(device_cuda_forked());
}

/* 0: it may start CUDA, and then has started it itself. */
static int start_in_child(void)
{
	if (device_cuda_forked())
		return 1;
	cuda_fork_started();
	return device_cuda_forked() ? 2 : 0;
}

static void test_a_child_may_start_what_its_parent_did_not(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof forkers / sizeof *forkers; i++) {
		int status;
		pid_t pid = forkers[i]();

		if (!pid)
			_exit(start_in_child());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void test_a_child_knows_however_it_was_made(void **state)
{
	(void)state;
	assert_all_say(false);
	cuda_fork_started();
	assert_all_say(true);
}

/* ---- the search for descriptors of CUDA ---- */

static unsigned searches;

void __real_descriptors_each(descriptor_visitor *visitor);
void __wrap_descriptors_each(descriptor_visitor *visitor);

void __wrap_descriptors_each(descriptor_visitor *visitor)
{
	searches++;
	__real_descriptors_each(visitor);
}

/* Returns the number of searches in a child. */
static int searches_in_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit((int)searches);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void test_a_child_of_a_trusted_process_does_not_search(void **state)
{
	(void)state;
	assert_int_equal(searches_in_child(), 1);
	cuda_fork_trusted();
	assert_int_equal(searches_in_child(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_child_may_start_what_its_parent_did_not),
		cmocka_unit_test(test_a_child_of_a_trusted_process_does_not_search),
		cmocka_unit_test(test_a_child_knows_however_it_was_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
