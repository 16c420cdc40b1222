/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fork.c - detects a forked child of a process that used CUDA. Makes no call of CUDA.
 *
 * Owns the flag `forked`: this process was forked, without exec, after CUDA had been started. In such a process every
 * call of CUDA fails (docs/facts.md: cudaErrorInitializationError). A child that keeps the GPU's descriptors open also
 * keeps the kernels of a dead parent running until the child dies (docs/facts.md, "Death"). A child that was forked
 * without atfork handlers sets the flag at its first call of device_cuda_forked(), and only if this library had started
 * CUDA. The child's descriptors of the GPU prove nothing by then, because the child may have opened them itself.
 *
 * Compiled also in builds without CUDA. After fork_register(), which runs when the library is loaded, it never
 * allocates, locks or prints, because its code runs in the child between fork and exec, where only async-signal-safe
 * calls are allowed. A vfork or posix_spawn does not run it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/wiped.h"
#include "device/cuda-fork.h"
#include "device/descriptors.h"
#include "device/device.h"

static atomic_bool  forked, started, trusted;
/* *mark is 1 if `forked` is valid in this process, and 0 after a fork, which wipes it (wiped.h) */
static _Atomic int *mark;

/*
 * Sets `forked` if the descriptor is that of /dev/nvidia-uvm, which the driver needs to start. Descriptors of other
 * NVIDIA devices do not prove that CUDA was started: a parent that only used NVML has nvidiactl and nvidia0 open, and
 * CUDA works in its children.
 */
static bool notice_cuda(int descriptor, const char *target)
{
	(void)descriptor;
	if (strcmp(target, "/dev/nvidia-uvm"))
		return true;
	forked = true;
	return false;
}

static bool close_nvidia(int descriptor, const char *target)
{
	static const char prefix[] = "/dev/nvidia";

	if (!strncmp(target, prefix, sizeof(prefix) - 1))
		close(descriptor);
	return true;
}

/*
 * Sets `forked` in a child if CUDA was started. Never clears it: a forked child that has closed the GPU's descriptors
 * may fork again, and CUDA does not work in its child either.
 */
static void note_fork(void)
{
	if (started)
		forked = true;
	*mark = 1;
}

static void fork_child(void)
{
	int saved = errno;

	note_fork();
	if (!forked && !trusted)
		descriptors_each(notice_cuda);
	errno = saved;
}

/*
 * Registers the handler early, so that it runs before other handlers that close descriptors: a child's handlers run
 * in the order of their registration.
 */
__attribute__((constructor(101))) static void fork_register(void)
{
	static _Atomic int never_wiped;

	mark = wiped_map(sizeof *mark, PROT_READ | PROT_WRITE);
	if (!mark)
		mark = &never_wiped; /* then only the atfork handler sets `forked` */
	*mark = 1;
	pthread_atfork(NULL, NULL, fork_child);
}

void cuda_fork_started(void)
{
	started = true;
}

void cuda_fork_trusted(void)
{
	trusted = true;
}

bool device_cuda_forked(void)
{
	if (__builtin_expect(!*mark, 0))
		note_fork();
	return forked;
}

void cuda_close_descriptors(void)
{
	int saved = errno;

	descriptors_each(close_nvidia);
	errno = saved;
}
