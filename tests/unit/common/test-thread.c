/* SPDX-License-Identifier: Apache-2.0 */
/* test-thread.c - how large the stack of a thread is, and what is said when a thread cannot start. */
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/thread.h"

#define OTHER_USER 4003
#define MIB        (1u << 20)

/* The C library takes this much of each stack, where it does not add it. */
static __thread volatile char tls[2 * MIB];

/* Needs half of a stack, and gives the size of all of it. */
static void *stack_size(void *result)
{
	volatile char local[THREAD_STACK / 2];
	pthread_attr_t attributes;
	void *at;

	tls[0] = 1;
	for (size_t i = 0; i < sizeof local; i += 4096)
		local[i] = 1;
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &at, result);
	pthread_attr_destroy(&attributes);
	return NULL;
}

static int start_one(size_t *size)
{
	pthread_t thread;
	int error = thread_start(&thread, stack_size, size);

	return error ? error : -pthread_join(thread, NULL);
}

/* As under ulimit -s 65536. */
static void test_a_stack_is_as_large_as_is_needed(void **state)
{
	pthread_attr_t before, large;
	size_t size = 0;

	(void)state;
	pthread_getattr_default_np(&before);
	pthread_attr_init(&large);
	pthread_attr_setstacksize(&large, 64 * MIB);
	assert_int_equal(pthread_setattr_default_np(&large), 0);
	assert_int_equal(start_one(&size), 0);
	assert_in_range(size, THREAD_STACK + sizeof tls, 8 * MIB - 1);
	pthread_setattr_default_np(&before);
	pthread_attr_destroy(&large);
	pthread_attr_destroy(&before);
}

/* ---- limits, each in a process of its own that is not root's ---- */

static int in_child(int (*function)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		if (!geteuid() && (setgroups(0, NULL) || setresgid(OTHER_USER, OTHER_USER, OTHER_USER) ||
				   setresuid(OTHER_USER, OTHER_USER, OTHER_USER)))
			_exit(99);
		_exit(function());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int limit(int resource, rlim_t most)
{
	const struct rlimit both = { most, most };

	return setrlimit(resource, &both);
}

static int no_thread_starts_as_there_are_too_many(void)
{
	size_t size;

	if (limit(RLIMIT_NPROC, 0))
		return 1;
	if (start_one(&size) != -EAGAIN)
		return 2;
	return strstr(error_text(), "raise ulimit -u (0) or the group's pids.max") ? 0 : 3;
}

#ifndef __SANITIZE_ADDRESS__ /* the sanitizer maps memory of its own, which the limits would hit */
static int lock_memory(rlim_t most)
{
	if (limit(RLIMIT_MEMLOCK, most) || mlockall(MCL_FUTURE))
		return 1;
	return 0;
}

static int thread_starts_in_8_mib(void)
{
	size_t size;

	return lock_memory(8 * MIB) ? 1 : start_one(&size) ? 2 : 0;
}

static int no_thread_starts_in_64_kib(void)
{
	size_t size;

	if (lock_memory(MIB / 16))
		return 1;
	if (start_one(&size) != -EAGAIN)
		return 2;
	return strstr(error_text(), "mlockall(2), of locked memory (ulimit -l)") ? 0 : 3;
}

/* Systemd lets a process lock 8 MiB, and a stack of ulimit -s would be all of it. */
static void test_a_program_that_locks_its_memory(void **state)
{
	(void)state;
	assert_int_equal(in_child(thread_starts_in_8_mib), 0);
}

static void test_without_room_the_limit_of_memory_is_named(void **state)
{
	(void)state;
	assert_int_equal(in_child(no_thread_starts_in_64_kib), 0);
}
#endif

static void test_with_too_many_threads_their_limit_is_named(void **state)
{
	(void)state;
	assert_int_equal(in_child(no_thread_starts_as_there_are_too_many), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_ADDRESS__
		/* before the first thread: the C library keeps the stack of a thread that has ended for the next one */
		cmocka_unit_test(test_a_program_that_locks_its_memory),
		cmocka_unit_test(test_without_room_the_limit_of_memory_is_named),
#endif
		cmocka_unit_test(test_a_stack_is_as_large_as_is_needed),
		cmocka_unit_test(test_with_too_many_threads_their_limit_is_named),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
