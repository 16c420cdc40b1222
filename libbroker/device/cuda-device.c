/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-device.c - the CUDA device: its table of functions, and its start.
 *
 * Owns the flag that CUDA was started in this process. Before start() only driver() calls CUDA, and only to ask for the
 * driver's version. So a binary built with CUDA runs on a machine without a driver, and a process may fork before
 * start(). Compiled only in builds with CUDA; in other builds select.c sets device_cuda to NULL.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "device/cuda-fork.h"
#include "device/cuda.h"

#define GRANULE (2ull << 20) /* an importer could access memory beside a smaller allocation (docs/facts.md) */

/*
 * The directory in which CUDA is told to look for an MPS daemon in the owner of the memory. No daemon is ever there,
 * because no process can make a file called "control" in a directory of procfs. The owner must stay outside MPS,
 * because under MPS a worker that is killed in a kernel would end the owner's context, too (docs/facts.md, "Death").
 */
#define NO_MPS_DIRECTORY "/proc/self/fdinfo"

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool            started;

/*
 * Sets CUDA_MPS_PIPE_DIRECTORY to NO_MPS_DIRECTORY in this process. Workers do not inherit the variable, because they
 * are no children of the owner.
 */
static int start_outside_mps(void)
{
	if (setenv("CUDA_MPS_PIPE_DIRECTORY", NO_MPS_DIRECTORY, 1))
		return error_set(-ENOMEM, "no memory to set CUDA_MPS_PIPE_DIRECTORY");
	return 0;
}

static int cuda_start_once(const struct device_setup *setup)
{
	int rc = setup->owner ? start_outside_mps() : 0;

	return rc ? rc : cuda_driver_load(cuda_pages_renew);
}

static int cuda_start(const struct device_setup *setup)
{
	int rc = 0;

	if (device_cuda_forked())
		return error_set(-ENOTSUP, "CUDA was started before this process was forked, and cannot work here: "
					   "fork first, or exec after the fork");
	pthread_mutex_lock(&start_lock);
	if (!started)
		rc = cuda_start_once(setup);
	if (!rc)
		cuda_fork_started();
	started = started || !rc;
	pthread_mutex_unlock(&start_lock);
	return rc;
}

/*
 * Stores the device's PCI address in info->pci, with bus -1 if it is unknown. The address only decides on which CPUs
 * workers run, so a failure is no error.
 */
static void find_pci(int ordinal, struct device_info *info)
{
	if (cuda.DeviceGetAttribute(&info->pci.domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, ordinal) != CUDA_SUCCESS ||
	    cuda.DeviceGetAttribute(&info->pci.slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, ordinal) != CUDA_SUCCESS ||
	    cuda.DeviceGetAttribute(&info->pci.bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, ordinal) != CUDA_SUCCESS)
		info->pci.bus = -1;
}

/* Asks for the UUID by version 2 of the driver's function, whose UUIDs tell the parts of a divided GPU (MIG) apart. */
static int cuda_info(int ordinal, struct device_info *info)
{
	struct device_info filled = { .granule = GRANULE };
	CUuuid             uuid;
	size_t             memory = 0;
	CUresult           result;

	if (cuda_check_ordinal(ordinal))
		return -ENODEV;
	result = cuda.DeviceGetUuid(&uuid, ordinal);
	if (result == CUDA_SUCCESS)
		result = cuda.DeviceGetName(filled.name, sizeof(filled.name), ordinal);
	if (result == CUDA_SUCCESS)
		result = cuda.DeviceTotalMem(&memory, ordinal);
	if (result != CUDA_SUCCESS)
		return cuda_error(result, "asking about device %d", ordinal);
	memcpy(filled.uuid, uuid.bytes, sizeof(filled.uuid));
	filled.memory = memory;
	find_pci(ordinal, &filled);
	*info = filled;
	return 0;
}

static int cuda_room(int ordinal, uint64_t *bytes)
{
	size_t   free, total;
	CUresult result;
	int      rc;

	CUDA_SCOPE(scope);
	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	result = cuda.MemGetInfo(&free, &total);
	if (result != CUDA_SUCCESS)
		return cuda_error(result, "device %d", ordinal);
	*bytes = free;
	return 0;
}

/* Asks the driver for the free memory, a call that uses no stream, and that fails if the context is broken for good. */
static int cuda_check(int ordinal)
{
	uint64_t free;

	return cuda_room(ordinal, &free);
}

static const struct device cuda_table = {
	.kind = DEVICE_CUDA,
	.name = "cuda",
	.start = cuda_start,
	.driver = cuda_library_version,
	.count = cuda_count,
	.info = cuda_info,
	.allocate = cuda_allocate,
	.adopt = cuda_adopt,
	.room = cuda_room,
	.zero = cuda_zero,
	.export_handle = cuda_export_handle,
	.release = cuda_release,
	.gone = cuda_gone,
	.open = cuda_open,
	.map = cuda_vmm_map,
	.extend = cuda_vmm_extend,
	.map_again = cuda_vmm_map_again,
	.make_writable = cuda_vmm_make_writable,
	.close = cuda_close,
	.unmap = cuda_vmm_unmap,
	.sync = cuda_sync,
	.check = cuda_check,
	.epoch = cuda_epoch,
	.current = cuda_current,
	.set_current = cuda_set_current,
	.page_register = cuda_page_register,
	.page_unregister = cuda_page_unregister,
	.stream_write = cuda_stream_write,
	.stream_wait = cuda_stream_wait,
	.stream_write_many = cuda_stream_write_many,
	.stream_wait_many = cuda_stream_wait_many,
	.stream_after = cuda_stream_after,
	.stream_create = cuda_stream_create,
	.stream_sync = cuda_stream_sync,
	.stream_sync_until = cuda_stream_sync_until,
	.stream_destroy = cuda_stream_destroy,
	.copy = cuda_copy,
	.module_load = cuda_module_load,
	.module_ready = cuda_module_ready,
	.module_kernel = cuda_module_kernel,
	.module_managed = cuda_module_managed,
	.module_launch = cuda_module_launch,
	.module_unload = cuda_module_unload,
	.module_suffix = ".fatbin",
	.child_after_fork = cuda_close_descriptors,
};

const struct device *const device_cuda = &cuda_table;
