/* SPDX-License-Identifier: Apache-2.0 */
/* host-module.h - modules of host kernels. The functions host_module_*() are described in device.h. */
#ifndef GPUB_HOST_MODULE_H
#define GPUB_HOST_MODULE_H

#include <stddef.h>

#include "gpubroker-host.h"

/* A kernel that was looked up. A kernel's handle points to this structure, which lives as long as its module. */
struct host_kernel {
	struct host_kernel     *next;
	struct host_module     *module;
	const gpub_host_kernel *twin;
	unsigned                count;                    /* number of the kernel's parameters */
	size_t                  offset[GPUB_HOST_PARAMS]; /* offset, in host_task.params, of each: a multiple of 16 */
	size_t                  bytes;                    /* bytes of all parameters in host_task.params together */
};

int host_module_load(const char *path, void **module);
int host_module_ready(void *module, int ordinal);
int host_module_kernel(void *module, const char *symbol, void **kernel);
int host_module_managed(void *module, const char *symbol, void **ptr, size_t *size);
int host_module_unload(void *module);

/*
 * Take and drop a reference to a kernel. Unloading its module waits until all references are dropped. -EINVAL, error
 * message set: the module was unloaded before.
 */
int  host_kernel_hold(struct host_kernel *kernel);
void host_kernel_drop(struct host_kernel *kernel);

/*
 * For a launch: loads the kernel's module on the device, unless it is loaded. The caller has a reference to the kernel.
 */
void host_kernel_load(const struct host_kernel *kernel, unsigned device);

/* At a reset of the device: marks all modules as not loaded there. Call it under host_state.lock. */
void host_modules_unload(unsigned device);

#endif
