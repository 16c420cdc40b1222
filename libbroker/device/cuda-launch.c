/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-launch.c - launches of kernels.
 *
 * Marks each launch by a fence of its module (cuda-fence.h), except a launch that is captured into a graph. The
 * kernel of a captured launch runs whenever the graph does, so the program must destroy the graph before it closes
 * the module. Owns nothing.
 */
#include <errno.h>
#include <stdatomic.h>

#include "common/error.h"
#include "device/cuda-module.h"

#define SHARED_BYTES_PLAIN (48u << 10) /* bytes of dynamic shared memory that a kernel may use without its attribute */

/*
 * Raises the kernel's limit of dynamic shared memory on the device, if the launch needs more. Call it in the device's
 * context. The limit never falls, because it belongs to the kernel, and launches of other threads may need it.
 */
static CUresult shared_bytes_allow(struct kernel *kernel, const gpub_launch_config *config)
{
	struct kernel_shared *allowed = &kernel->shared[config->device];
	unsigned long long    context = cuda_context_id();
	CUresult              result = CUDA_SUCCESS;

	if (config->shared_bytes > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&kernel->module->lock);
	if (allowed->context != context || allowed->bytes < config->shared_bytes)
		result = cuda.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
						 (int)config->shared_bytes, kernel->handle, config->device);
	if (result == CUDA_SUCCESS && (allowed->context != context || allowed->bytes < config->shared_bytes))
		*allowed = (struct kernel_shared){ .context = context, .bytes = config->shared_bytes };
	pthread_mutex_unlock(&kernel->module->lock);
	return result;
}

/* Launches the kernel in the current context. The driver accepts a CUkernel as a CUfunction (NVIDIA's cuda.h). */
static int launch(struct kernel *kernel, const gpub_launch_config *config, void **args)
{
	CUresult result = config->shared_bytes > SHARED_BYTES_PLAIN ? shared_bytes_allow(kernel, config) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		result = cuda.LaunchKernel((CUfunction)kernel->handle, config->grid[0], config->grid[1],
					   config->grid[2], config->block[0], config->block[1], config->block[2],
					   config->shared_bytes, config->stream, args, NULL);
	return cuda_error(result, "launching %s on device %d", kernel->symbol, config->device);
}

/* Whether the kernel has a parameter. False also if the driver cannot tell. Asks the driver only at the first call. */
static bool has_first(struct kernel *kernel)
{
	int    first = atomic_load(&kernel->first);
	size_t offset, size;

	if (!first) {
		first = cuda.KernelGetParamInfo &&
			cuda.KernelGetParamInfo(kernel->handle, 0, &offset, &size) == CUDA_SUCCESS ? 1 : -1;
		atomic_store(&kernel->first, first);
	}
	return first > 0;
}

/*
 * Checks that args has a pointer for each parameter. The driver reads args without a check, and the process would crash
 * if args had too few pointers. Drivers before CUDA 13.2 do not count parameters, and asking for a parameter that does
 * not exist is an API error, which tools such as compute-sanitizer count. With these drivers only the first parameter
 * is checked, if args has no pointer; with drivers before CUDA 12.4, which tell nothing of parameters, none is.
 */
static int args_check(struct kernel *kernel, void **args)
{
	size_t needed = kernel->params;

	if (!kernel->counted)
		needed = (!args || !args[0]) && has_first(kernel) ? 1 : 0;
	for (size_t i = 0; i < needed; i++)
		if (!args || !args[i])
			return error_set(-EINVAL,
					 "%s has a parameter %zu, and the launch has no args[%zu] for it: point it to "
					 "the value",
					 kernel->symbol, i, i);
	return 0;
}

/* Returns the current context, to which special streams belong, if it is a context of the device; else NULL. */
static CUcontext current_on(int ordinal)
{
	CUcontext current = NULL;
	CUdevice  device;

	if (cuda.CtxGetCurrent(&current) != CUDA_SUCCESS || !current)
		return NULL;
	return cuda.CtxGetDevice(&device) == CUDA_SUCCESS && device == ordinal ? current : NULL;
}

/*
 * Enters the primary context of the launch's device. Refuses a stream of another context, which the program could
 * destroy, and with it the events for which an unload of the module waits.
 */
static int launch_enter(struct cuda_scope *scope, const gpub_launch_config *config)
{
	bool      special = cuda_stream_is_special(config->stream);
	CUcontext context = special ? current_on(config->device) : NULL, primary = NULL;
	int       rc = cuda_enter(scope, config->device);

	if (!rc)
		rc = cuda_error(cuda.CtxGetCurrent(&primary), "looking at the context");
	if (!rc && !special)
		rc = cuda_error(cuda.StreamGetCtx(config->stream, &context), "looking at the stream");
	if (!rc && context && context != primary)
		rc = error_set(-EINVAL,
			       "the stream is not of device %d's primary context, where modules are launched: take one "
			       "that gpub_stream_create() or cudaStreamCreate() made on that device",
			       config->device);
	return rc;
}

int cuda_module_launch(void *pointer, const gpub_launch_config *config, void **args)
{
	struct kernel *kernel = pointer;
	struct fence  *fence;
	bool           captured;
	int            rc;
	CUDA_SCOPE(scope);

	rc = launch_enter(&scope, config);
	if (!rc)
		rc = cuda_stream_captured(config->stream, &captured);
	if (!rc)
		rc = args_check(kernel, args);
	if (rc)
		return rc;
	if (captured)
		return launch(kernel, config, args);
	rc = cuda_fence_take(&kernel->module->fences, config->device, config->stream, &fence);
	if (rc)
		return rc;
	rc = launch(kernel, config, args);
	cuda_fence_put(fence, config->stream, !rc);
	return rc;
}
