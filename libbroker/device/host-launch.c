/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-launch.c - see host-launch.h
 *
 * Checks a launch as CUDA does, and queues the kernel, which a stream's thread runs. Owns nothing.
 */
#include "host-launch.h"

#include <errno.h>
#include <string.h>

#include "common/error.h"
#include "host-fault.h"
#include "host-module.h"
#include "host-stream.h"

#define BLOCK_THREADS_MAX 1024u
#define BLOCK_Z_MAX       64u
#define GRID_X_MAX        0x7fffffffu
#define GRID_YZ_MAX       65535u
/* bytes of shared memory for one block at most, as on an H200; it is not modelled */
#define SHARED_MAX        (227u << 10)

static int grid_check(const uint32_t grid[3])
{
	if (!grid[0] || !grid[1] || !grid[2])
		return error_set(-EINVAL, "a grid of %ux%ux%u blocks is empty", grid[0], grid[1], grid[2]);
	if (grid[0] > GRID_X_MAX || grid[1] > GRID_YZ_MAX || grid[2] > GRID_YZ_MAX)
		return error_set(-EINVAL, "a grid of %ux%ux%u blocks is too large: at most %ux%ux%u", grid[0], grid[1],
				 grid[2], GRID_X_MAX, GRID_YZ_MAX, GRID_YZ_MAX);
	return 0;
}

static int block_check(const uint32_t block[3])
{
	uint64_t threads = (uint64_t)block[0] * block[1];

	if (!threads || !block[2])
		return error_set(-EINVAL, "a block of %ux%ux%u threads is empty", block[0], block[1], block[2]);
	if (threads > BLOCK_THREADS_MAX || block[2] > BLOCK_Z_MAX || threads * block[2] > BLOCK_THREADS_MAX)
		return error_set(-EINVAL, "a block of %ux%ux%u threads is too large: at most %u in all, %u in z",
				 block[0], block[1], block[2], BLOCK_THREADS_MAX, BLOCK_Z_MAX);
	return 0;
}

static int config_check(const gpub_launch_config *config)
{
	int rc;

	if (config->struct_size < sizeof *config)
		return error_set(-EINVAL, "a launch config of %u bytes: start from GPUB_LAUNCH_INIT",
				 config->struct_size);
	rc = grid_check(config->grid);
	if (!rc)
		rc = block_check(config->block);
	if (!rc && config->shared_bytes > SHARED_MAX)
		rc = error_set(-EINVAL, "%u bytes of shared memory are too many: at most %u", config->shared_bytes,
			       SHARED_MAX);
	return rc;
}

static int args_check(const struct host_kernel *kernel, void **args)
{
	for (unsigned i = 0; i < kernel->count; i++)
		if (!args || !args[i])
			return error_set(-EINVAL, "the kernel has a parameter %u, of %u bytes, and the launch has no "
						  "args[%u] for it: point it to the value",
					 i, kernel->twin->param_size[i], i);
	return 0;
}

/* Makes the task of a launch, with a copy of the arguments, which the program may change after the launch. */
static int task_make(struct host_kernel *kernel, const gpub_launch_config *config, void **args, struct host_task **made)
{
	struct host_task *task;
	int rc = args_check(kernel, args);

	if (rc)
		return rc;
	task = host_task_new(HOST_TASK_KERNEL, kernel->bytes);
	if (!task)
		return -ENOMEM;
	task->launch.kernel = kernel;
	memcpy(&task->launch.config, config, sizeof *config);
	for (unsigned i = 0; i < kernel->count; i++)
		memcpy(task->params + kernel->offset[i], args[i], kernel->twin->param_size[i]);
	*made = task;
	return 0;
}

int host_module_launch(void *kernel, const gpub_launch_config *config, void **args)
{
	struct host_task *task;
	int rc, device = host_enter_device(HOST_LAUNCH, config->device);

	if (device < 0)
		return device;
	rc = config_check(config);
	if (!rc)
		rc = host_kernel_hold(kernel);
	if (rc)
		return rc;
	host_kernel_load(kernel, (unsigned)device);
	rc = task_make(kernel, config, args, &task);
	if (rc)
		goto drop_kernel;
	return host_stream_submit(config->stream, (unsigned)device, task, HOST_RECORDED);
drop_kernel:
	host_kernel_drop(kernel);
	return rc;
}
