/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-launch.c - launches of kernels.
 *
 * Owns nothing. Marks each launch by a fence of its module, except one that is captured: that one runs again with its
 * graph, so the graph must be destroyed before the module is unloaded.
 */
#include <errno.h>
#include <stdatomic.h>

#include "common/error.h"
#include "device/cuda-module.h"

#define SHARED_BYTES_PLAIN (48u << 10) /* more dynamic shared memory needs the kernel's attribute (cuda.h) */

/*
 * In the device's context. The attribute is the kernel's, not the launch's: it only grows, so that no thread takes
 * another's away.
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
		result = cuda.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)config->shared_bytes,
						 kernel->handle, config->device);
	if (result == CUDA_SUCCESS && (allowed->context != context || allowed->bytes < config->shared_bytes))
		*allowed = (struct kernel_shared){ .context = context, .bytes = config->shared_bytes };
	pthread_mutex_unlock(&kernel->module->lock);
	return result;
}

/* A CUkernel may be passed as a CUfunction (cuda.h). The context is the stream's, or the current one. */
static int launch(struct kernel *kernel, const gpub_launch_config *config, void **args)
{
	CUresult result = config->shared_bytes > SHARED_BYTES_PLAIN ? shared_bytes_allow(kernel, config) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		result = cuda.LaunchKernel((CUfunction)kernel->handle, config->grid[0], config->grid[1], config->grid[2],
					   config->block[0], config->block[1], config->block[2],
					   config->shared_bytes, config->stream, args, NULL);
	return cuda_error(result, "launching %s on device %d", kernel->symbol, config->device);
}

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
 * The driver reads args without a check: with too few the process would crash. Drivers before 13.2 cannot say how many
 * parameters there are, and to ask for one that does not exist is an API error, which tools like compute-sanitizer count.
 * With those drivers this asks only for the first parameter, and only where args has none.
 */
static int args_check(struct kernel *kernel, void **args)
{
	size_t needed = kernel->params;

	if (!kernel->counted)
		needed = (!args || !args[0]) && has_first(kernel) ? 1 : 0;
	for (size_t i = 0; i < needed; i++)
		if (!args || !args[i])
			return error_set(-EINVAL, "%s has a parameter %zu, and the launch has no args[%zu] for it: point it "
						  "to the value",
					 kernel->symbol, i, i);
	return 0;
}

/* The context of a special stream for this caller. NULL: the device's primary one, because none of that device is current. */
static CUcontext current_on(int ordinal)
{
	CUcontext current = NULL;
	CUdevice  device;

	if (cuda.CtxGetCurrent(&current) != CUDA_SUCCESS || !current)
		return NULL;
	return cuda.CtxGetDevice(&device) == CUDA_SUCCESS && device == ordinal ? current : NULL;
}

/*
 * Enters the primary context of the launch's device, and refuses a stream of another context. A context that the program
 * made can be destroyed, and with it the events for which the unloading waits.
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
		rc = error_set(-EINVAL, "the stream is not of device %d's primary context, where modules are launched: take one "
					"that gpub_stream_create() or cudaStreamCreate() made on that device", config->device);
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
