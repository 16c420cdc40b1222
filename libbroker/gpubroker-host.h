/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker-host.h - write a kernel's host twin: the function that the host device runs in its place.
 *
 *     static void axpy(const gpub_launch_config *config, void **args) {
 *             float *y = *(float **)args[0]; ...
 *     }
 *     GPUB_HOST_KERNEL(axpy, axpy, sizeof(float *), ...);
 *
 * Compile it into a shared object beside the fatbin: "mykernels.so" beside "mykernels.fatbin".
 * One call computes the whole grid. It runs on a stream's own thread and must not call the library.
 */
#ifndef GPUBROKER_HOST_H
#define GPUBROKER_HOST_H

#include "gpubroker.h"

#define GPUB_HOST_PARAMS 16 /* parameters of a kernel, at most */

typedef void gpub_host_function(const gpub_launch_config *config, void **args);

/* What gpub_module_kernel() looks up in the shared object, under the name gpub_host_kernel_SYMBOL. */
typedef struct gpub_host_kernel {
	gpub_host_function *run;
	uint32_t            param_size[GPUB_HOST_PARAMS]; /* bytes of each parameter; 0 ends the list */
} gpub_host_kernel;

#ifdef __cplusplus
#define GPUB_HOST_EXTERN extern "C"
#else
#define GPUB_HOST_EXTERN extern
#endif

/* Publishes function as the host twin of the kernel called symbol, whose parameters have these sizes. */
#define GPUB_HOST_KERNEL(symbol, function, ...)                                                     \
	GPUB_HOST_EXTERN __attribute__((visibility("default"))) const gpub_host_kernel              \
		gpub_host_kernel_##symbol;                                                          \
	const gpub_host_kernel gpub_host_kernel_##symbol = { function, { __VA_ARGS__ } }

#endif
