/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fork.c - what must be known and done about CUDA in a forked child, without one call of CUDA.
 *
 * Owns one flag: this process came by fork, without exec, out of one in which CUDA had been started. Every
 * call of CUDA fails there (facts.md: cudaErrorInitializationError), and whoever keeps the GPU's descriptors
 * there keeps a dead parent's kernels running (facts.md, "Death": its kernel wrote on until the child died).
 * A child made without atfork handlers learns of what this library started when it first asks, and of nothing else: a
 * descriptor that it has then may be its own.
 *
 * Built always, also without CUDA. Never allocates, locks or prints: its code runs in the child between fork
 * and exec, where only async-signal-safe calls are sure. A vfork or posix_spawn runs none of it.
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
static _Atomic int *mark; /* 1 once this process knows; wiped by a fork */

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

/* It stays for a grandchild, whose parent may have closed the descriptors. */
static void learn(void)
{
	if (started)
		forked = true;
	*mark = 1;
}

static void fork_child(void)
{
	int saved = errno;

	learn();
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
		mark = &never_wiped; /* then the handler alone says so */
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
		learn();
	return forked;
}

void cuda_close_descriptors(void)
{
	int saved = errno;

	descriptors_each(close_nvidia);
	errno = saved;
}
