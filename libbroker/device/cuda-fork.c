/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fork.c - whether this process is the forked child of one that used CUDA; makes no call of CUDA.
 *
 * Owns one flag: this process was forked, without exec, after CUDA had been started. Every call of CUDA fails there
 * (facts.md: cudaErrorInitializationError). A child that keeps the GPU's descriptors keeps a dead parent's kernels
 * running (facts.md, "Death": its kernel wrote on until the child died). A child that was made without atfork handlers
 * notices when it first asks, and only that this library had started CUDA: a descriptor that it has then may be its own.
 *
 * Built always, also without CUDA. Never allocates, locks or prints: its code runs in the child between fork
 * and exec, where only async-signal-safe calls are allowed. A vfork or posix_spawn runs none of it.
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

static atomic_bool  forked, started;
static _Atomic int *mark; /* 1 once this process has set forked; wiped by a fork */

/*
 * The driver cannot be initialised without /dev/nvidia-uvm. The other devices prove less: a parent that only
 * asked NVML (nvidiactl, nvidia0) leaves CUDA usable in its children.
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

/* The flag stays set in a grandchild, whose parent may have closed the descriptors. */
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
	if (!forked)
		descriptors_each(notice_cuda);
	errno = saved;
}

/* Early, so that this runs before any handler that closes descriptors: child handlers run in this order. */
__attribute__((constructor(101))) static void fork_register(void)
{
	static _Atomic int never_wiped;

	mark = wiped_map(sizeof *mark, PROT_READ | PROT_WRITE);
	if (!mark)
		mark = &never_wiped; /* then only the handler sets the flag */
	*mark = 1;
	pthread_atfork(NULL, NULL, fork_child);
}

void cuda_fork_started(void)
{
	started = true;
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
