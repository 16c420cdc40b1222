/* SPDX-License-Identifier: Apache-2.0 */
/* cuda-module.h - the structures of modules and kernels, shared by cuda-module.c and cuda-launch.c. */
#ifndef GPUB_CUDA_MODULE_H
#define GPUB_CUDA_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/cuda-fence.h"

/*
 * A kernel's limit of dynamic shared memory on one device, as this library has set it in the driver. A reset of the
 * device undoes the setting.
 */
struct kernel_shared {
	unsigned long long context; /* id of the context in which the limit was set */
	uint32_t           bytes;   /* the limit */
};

struct kernel {
	struct kernel       *next;
	struct module       *module;
	CUkernel             handle;
	bool                 counted; /* `params` is valid, because the driver can count parameters */
	size_t               params;  /* number of the kernel's parameters */
	/*
	 * if not `counted`: 1: the kernel has a parameter; -1: it has none, or the driver cannot tell; 0: not asked yet
	 */
	atomic_int           first;
	struct kernel_shared shared[DEVICE_MAX];
	char                 symbol[];
};

struct module {
	CUlibrary        library;
	CUkernel        *listed; /* all kernels of the file; NULL: they could not be listed, as before CUDA 12.4 */
	unsigned         listed_count;
	/* for each device: id of the context in which the module is loaded, or is being loaded; 0: none */
	_Atomic uint64_t ready[DEVICE_MAX];
	/*
	 * for each device: held while the module is loaded there, which may wait for kernels; launches do not take it
	 */
	pthread_mutex_t  loading[DEVICE_MAX];
	/* protects kernels and kernel.shared; not held during a launch or a wait */
	pthread_mutex_t  lock;
	struct kernel   *kernels;             /* list of the kernels that were looked up */
	struct fences    fences;              /* mark the launches of the kernels; they show when all have ended */
};

#endif
