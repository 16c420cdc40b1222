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
 * One call of the function computes the whole grid. It runs on the stream's own thread and must not call the library.
 */
#ifndef GPUBROKER_HOST_H
#define GPUBROKER_HOST_H

#include "gpubroker.h"

#define GPUB_HOST_PARAMS 16 /* number of parameters of a kernel at most */

/* A host twin. args[i] points to the value of parameter i. */
typedef void gpub_host_function(const gpub_launch_config *config, void **args);

/*
 * Describes a host twin. gpub_module_kernel() looks it up in the shared object, under the name gpub_host_kernel_SYMBOL.
 */
typedef struct gpub_host_kernel {
	gpub_host_function *run;
	uint32_t            param_size[GPUB_HOST_PARAMS]; /* bytes of each parameter in turn; 0 after the last one */
} gpub_host_kernel;

#ifdef __cplusplus
#define GPUB_HOST_EXTERN extern "C"
#else
#define GPUB_HOST_EXTERN extern
#endif

/* Publishes `function` as the host twin of the kernel called `symbol`, whose parameters have the sizes that follow. */
#define GPUB_HOST_KERNEL(symbol, function, ...)                                                     \
	GPUB_HOST_EXTERN __attribute__((visibility("default"))) const gpub_host_kernel              \
		gpub_host_kernel_##symbol;                                                          \
	const gpub_host_kernel gpub_host_kernel_##symbol = { function, { __VA_ARGS__ } }

#endif
