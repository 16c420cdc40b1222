/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - see thread.h */
#include "thread.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "error.h"
#include "size.h"

/* ---- size of the stack ---- */

/* Callback of dl_iterate_phdr(3): adds the size of the object's thread-local variables to *total. */
static int add_tls(struct dl_phdr_info *object, size_t size, void *total)
{
	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)total += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
	return 0;
}

/* The C library puts the thread-local variables of the program and of all libraries onto each thread's stack. */
static size_t stack_size(void)
{
	size_t tls = 0;

	dl_iterate_phdr(add_tls, &tls);
	return THREAD_STACK + size_round_up(tls, 1 << 16);
}

/* ---- errors ---- */

/*
 * Whether a stack of `size` bytes can be mapped. If so, EAGAIN from pthread_create(3) means that a limit of threads is
 * reached.
 */
static bool stack_fits(size_t size)
{
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	return stack != MAP_FAILED && !munmap(stack, size);
}

/* Returns -error with a message that says why a thread with a stack of `size` bytes cannot start. */
static int start_error(int error, size_t size)
{
	struct rlimit threads = { .rlim_cur = RLIM_INFINITY };
	char stack[SIZE_TEXT_MAX], limit[32] = "unlimited";

	size_format(size, stack);
	if (error != EAGAIN)
		return error_set(-error, "a thread cannot start: %s", strerror(error));
	if (!stack_fits(size))
		return error_set(-error, "a thread cannot start: there is no room for its stack of %s; raise the limit "
					 "of the address space (ulimit -v) or, in a program that calls mlockall(2), of "
					 "locked memory (ulimit -l)", stack);
	if (!getrlimit(RLIMIT_NPROC, &threads) && threads.rlim_cur != RLIM_INFINITY)
		snprintf(limit, sizeof limit, "%llu", (unsigned long long)threads.rlim_cur);
	return error_set(-error, "a thread cannot start: this user, or the control group of this process, has as many "
				 "processes and threads as it may; end some, or raise ulimit -u (%s) or the group's "
				 "pids.max (TasksMax= in systemd)", limit);
}

/* ---- the start ---- */

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
	size_t size = stack_size();
	pthread_attr_t attributes;
	sigset_t all, old;
	int error = pthread_attr_init(&attributes);

	if (error)
		return start_error(error, size);
	error = pthread_attr_setstacksize(&attributes, size);
	if (!error) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		error = pthread_create(thread, &attributes, function, argument);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	pthread_attr_destroy(&attributes);
	return error ? start_error(error, size) : 0;
}
