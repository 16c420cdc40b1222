/* SPDX-License-Identifier: Apache-2.0 */
/* cuda-module.h - what modules (cuda-module.c) and launches (cuda-launch.c) share. */
#ifndef GPUB_CUDA_MODULE_H
#define GPUB_CUDA_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/cuda-fence.h"

/* Dynamic shared memory that a kernel may use on a device, and in which context that was set: a reset forgets it. */
struct kernel_shared {
	unsigned long long context;
	uint32_t           bytes;
};

struct kernel {
	struct kernel       *next;
	struct module       *module;
	CUkernel             handle;
	bool                 counted; /* the driver said how many parameters there are */
	size_t               params;
	atomic_int           first; /* not counted: 1 it has a parameter, -1 none, or the driver cannot say; 0 not asked yet */
	struct kernel_shared shared[DEVICE_MAX];
	char                 symbol[];
};

struct module {
	CUlibrary        library;
	CUkernel        *listed; /* all kernels of the file; NULL where the driver cannot list them (before 12.4) */
	unsigned         listed_count;
	_Atomic uint64_t ready[DEVICE_MAX];   /* the id of the context that it was loaded into, or is being loaded */
	pthread_mutex_t  loading[DEVICE_MAX]; /* over a load, which waits for what runs; no look-up and no launch takes it */
	pthread_mutex_t  lock;                /* kernels, shared; never held over a launch or a wait */
	struct kernel   *kernels;
	struct fences    fences;
};

#endif
