/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-task.c - see host-task.h
 *
 * Owns nothing. A task belongs to the stream on which it is queued.
 */
#include "host-task.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "host-fault.h"
#include "host-module.h"
#include "host-state.h"
#include "host-trap.h"
#include "host-watch.h"

#define WAIT_SPINS  200     /* number of reads of a word after which a wait sleeps between reads */
#define WAIT_NAP_NS 2000000 /* longest sleep, because the broker may change a word by pwrite(2), which wakes no futex */

/* What a HOST_TASK_MARK and the HOST_TASK_AFTER that waits for it share. */
struct host_mark {
	uint64_t    over; /* 1: the HOST_TASK_MARK has ended */
	atomic_uint references;
};

struct host_task *host_task_new(enum host_task_kind kind, size_t params)
{
	struct host_task *task = calloc(1, sizeof *task + params);

	if (!task) {
		error_set(-ENOMEM, "host device: no memory to queue on a stream");
		return NULL;
	}
	task->kind = kind;
	task->bytes = sizeof *task + params;
	return task;
}

int host_task_new_mark(struct host_task **mark, struct host_task **after)
{
	struct host_mark *made = calloc(1, sizeof *made);
	struct host_task *first = host_task_new(HOST_TASK_MARK, 0), *second = host_task_new(HOST_TASK_AFTER, 0);

	if (!made || !first || !second) {
		free(second);
		free(first);
		free(made);
		return error_set(-ENOMEM, "host device: no memory to queue on a stream");
	}
	atomic_init(&made->references, 2);
	first->mark = second->mark = made;
	*mark = first;
	*after = second;
	return 0;
}

/*
 * Waits for or wakes the futex that is the low half of the word, on little-endian machines, which all supported ones
 * are. The futex is not private, because the waiting or waking side may be another process.
 */
static void futex(const uint64_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	if (syscall(SYS_futex, (const uint32_t *)word, operation, value, timeout, NULL, 0) < 0 && errno == EFAULT)
		sched_yield();
}

static void word_write(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	futex(word, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Drops a reference to the mark. over: the HOST_TASK_MARK has ended, so the HOST_TASK_AFTER is released. */
static void mark_drop(struct host_mark *mark, bool over)
{
	if (over)
		word_write(&mark->over, 1);
	if (atomic_fetch_sub(&mark->references, 1) == 1)
		free(mark);
}

void host_task_free(struct host_task *list)
{
	while (list) {
		struct host_task *task = list;

		list = task->next;
		if (task->kind == HOST_TASK_KERNEL)
			host_kernel_drop(task->launch.kernel);
		else if (task->kind == HOST_TASK_MARK || task->kind == HOST_TASK_AFTER)
			mark_drop(task->mark, task->kind == HOST_TASK_MARK);
		free(task);
	}
}

/* ---- checks ---- */

/* Stores those of the kernel's parameters that have a pointer's size, so may be pointers, and returns their number. */
static unsigned kernel_pointers(const struct host_task *task, const void *pointer[GPUB_HOST_PARAMS])
{
	const struct host_kernel *kernel = task->launch.kernel;
	unsigned count = 0;

	for (unsigned i = 0; i < kernel->count; i++)
		if (kernel->twin->param_size[i] == sizeof *pointer)
			memcpy(&pointer[count++], task->params + kernel->offset[i], sizeof *pointer);
	return count;
}

static int kernel_check(const struct host_task *task, unsigned device)
{
	const void *pointer[GPUB_HOST_PARAMS];
	unsigned count = kernel_pointers(task, pointer);
	int rc = 0;

	for (unsigned i = 0; !rc && i < count; i++)
		rc = host_check_range(pointer[i], 0, device, HOST_USES, "a kernel");
	return rc;
}

int host_task_check(const struct host_task *task, unsigned device)
{
	int rc;

	switch (task->kind) {
	case HOST_TASK_KERNEL:
		return kernel_check(task, device);
	case HOST_TASK_COPY:
		rc = host_check_range(task->copy.dst, task->copy.size, device, HOST_WRITES, "a copy");
		return rc ? rc : host_check_range(task->copy.src, task->copy.size, device, HOST_READS, "a copy");
	case HOST_TASK_WRITE:
	case HOST_TASK_WAIT:
		return host_check_word(task->word.word, task->kind == HOST_TASK_WRITE);
	default:
		return 0;
	}
}

/* ---- running ---- */

/* Runs the kernel, then checks its buffers for writes after their ends, before the stream's next task runs. */
static void run_kernel(const struct host_task *task)
{
	const struct host_kernel *kernel = task->launch.kernel;
	const void *pointer[GPUB_HOST_PARAMS];
	unsigned count = kernel_pointers(task, pointer);
	void *args[GPUB_HOST_PARAMS];

	for (unsigned i = 0; i < kernel->count; i++)
		args[i] = (void *)(task->params + kernel->offset[i]);
	host_trap_begin();
	kernel->twin->run(&task->launch.config, args);
	host_trap_end();
	pthread_mutex_lock(&host_state.lock);
	for (unsigned i = 0; i < count; i++)
		host_watch_verify(pointer[i]);
	pthread_mutex_unlock(&host_state.lock);
}

/* Whether tasks are dropped, after a sticky error, or because the device's count of resets is not `resets` any more. */
static bool is_dropped(unsigned device, uint64_t resets)
{
	return host_sticky() || atomic_load(&host_state.resets[device]) != resets;
}

/* Blocks until (int64_t)(*word - value) >= 0, as CU_STREAM_WAIT_VALUE_GEQ, or is_dropped() is true. */
static void run_wait(const uint64_t *word, uint64_t value, unsigned device, uint64_t resets)
{
	static const struct timespec nap = { .tv_nsec = WAIT_NAP_NS };

	for (unsigned spins = 0; !is_dropped(device, resets); spins++) {
		uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

		if ((int64_t)(seen - value) >= 0)
			return;
		if (spins >= WAIT_SPINS)
			futex(word, FUTEX_WAIT, (uint32_t)seen, &nap);
	}
}

void host_task_run(const struct host_task *task, unsigned device, uint64_t resets)
{
	if (is_dropped(device, resets))
		return;
	/* checks the task again, because memory may have been unmapped since the task was queued */
	if (task->kind == HOST_TASK_KERNEL || task->kind == HOST_TASK_COPY)
		(void)host_task_check(task, device);
	switch (task->kind) {
	case HOST_TASK_KERNEL:
		run_kernel(task);
		break;
	case HOST_TASK_WRITE:
		word_write(task->word.word, task->word.value);
		break;
	case HOST_TASK_WAIT:
		run_wait(task->word.word, task->word.value, device, resets);
		break;
	case HOST_TASK_COPY:
		memmove(task->copy.dst, task->copy.src, task->copy.size);
		break;
	case HOST_TASK_MARK:
		break;
	case HOST_TASK_AFTER:
		run_wait(&task->mark->over, 1, device, resets);
		break;
	}
}
