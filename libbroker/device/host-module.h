/* SPDX-License-Identifier: Apache-2.0 */
/* host-module.h - modules of host kernels; device.h says what host_module_* do. */
#ifndef GPUB_HOST_MODULE_H
#define GPUB_HOST_MODULE_H

#include <stddef.h>

#include "gpubroker-host.h"

/* What a kernel's handle points to. It lives as long as its module. */
struct host_kernel {
	struct host_kernel     *next;
	struct host_module     *module;
	const gpub_host_kernel *twin;
	unsigned                count;                    /* of parameters */
	size_t                  offset[GPUB_HOST_PARAMS]; /* of each in a task, at a multiple of 16: any type may be read in place */
	size_t                  bytes;                    /* of all of them there */
};

int host_module_load(const char *path, void **module);
int host_module_ready(void *module, int ordinal);
int host_module_kernel(void *module, const char *symbol, void **kernel);
int host_module_managed(void *module, const char *symbol, void **ptr, size_t *size);
int host_module_unload(void *module);

/* A reference, which unloading waits for. -EINVAL: its module was unloaded. */
int  host_kernel_hold(struct host_kernel *kernel);
void host_kernel_drop(struct host_kernel *kernel);

/* Before a launch, with a reference: loads the kernel's module on that device if nobody has. */
void host_kernel_load(const struct host_kernel *kernel, unsigned device);

/* At a reset, under host_state.lock. */
void host_modules_unload(unsigned device);

#endif
