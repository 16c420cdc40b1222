/* SPDX-License-Identifier: Apache-2.0 */
/* cuda-module.h - the structures of modules and kernels, shared by cuda-module.c and cuda-launch.c. */
#ifndef GPUB_CUDA_MODULE_H
#define GPUB_CUDA_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/cuda-fence.h"

/*
 * Limit of the dynamic shared memory of a kernel on one device, as set in the driver. A reset of the device loses it.
 */
struct kernel_shared {
	unsigned long long context; /* id of the context in which the limit was set */
	uint32_t           bytes;
};

struct kernel {
	struct kernel       *next;
	struct module       *module;
	CUkernel             handle;
	bool                 counted; /* params is valid: the driver can count parameters */
	size_t               params;  /* number of parameters */
	atomic_int           first;   /* if not counted: 1: has a parameter; -1: none, or unknown; 0: not asked yet */
	struct kernel_shared shared[DEVICE_MAX];
	char                 symbol[];
};

struct module {
	CUlibrary        library;
	CUkernel        *listed; /* all kernels of the file; NULL: the driver cannot list them (before 12.4) */
	unsigned         listed_count;
	_Atomic uint64_t ready[DEVICE_MAX];   /* id of the context in which the module is or gets loaded; 0: none */
	pthread_mutex_t  loading[DEVICE_MAX]; /* held during a load, which may wait for kernels; not used by launches */
	pthread_mutex_t  lock;                /* of kernels and kernel.shared; never held during a launch or a wait */
	struct kernel   *kernels;             /* the kernels that were looked up */
	struct fences    fences;              /* of the module's launches */
};

#endif
