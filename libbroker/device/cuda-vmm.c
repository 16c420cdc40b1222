/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-vmm.c - device memory by the driver's virtual memory functions: made and exported by the owner, imported by clients.
 *
 * A range of addresses is reserved, memory is mapped there, and a device is given access. Another process imports the memory by a
 * descriptor. No call waits for running kernels, nor holds launches up (facts.md). So an unmap under a kernel that uses the memory
 * ends that kernel: whoever asks for one knows that no work is left.
 *
 * Owns the table of ranges that this process has mapped, and the owner's descriptors. The mapping keeps the memory, so no other reference
 * of it is held. Never waits.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/error.h"
#include "common/size.h"
#include "common/tables.h"
#include "device/cuda.h"

struct range {
	void          *base;
	uint64_t       size;
	int            descriptor; /* exported by this process; -1 */
	UT_hash_handle hh;         /* by base */
};

static struct range   *ranges;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the table ---- */

static int range_add(const struct range *mapped)
{
	struct range *range = malloc(sizeof(*range));
	bool          added;

	if (!range)
		return error_set(-ENOMEM, "no memory for the record of a range of device memory");
	*range = *mapped;
	pthread_mutex_lock(&ranges_lock);
	HASH_ADD_PTR(ranges, base, range);
	added = table_added(range);
	pthread_mutex_unlock(&ranges_lock);
	if (added)
		return 0;
	free(range);
	return error_set(-ENOMEM, "no memory for the record of a range of device memory");
}

/* *range is a copy. False: nothing is mapped at that base. */
static bool range_find(const void *base, struct range *range)
{
	struct range *found;

	pthread_mutex_lock(&ranges_lock);
	HASH_FIND_PTR(ranges, &base, found);
	if (found)
		*range = *found;
	pthread_mutex_unlock(&ranges_lock);
	return found;
}

static void range_remove(const void *base)
{
	struct range *range;

	pthread_mutex_lock(&ranges_lock);
	HASH_FIND_PTR(ranges, &base, range);
	if (range)
		HASH_DEL(ranges, range);
	pthread_mutex_unlock(&ranges_lock);
	free(range);
}

bool cuda_vmm_has(const void *base)
{
	struct range range;

	return range_find(base, &range);
}

/* ---- mapping ---- */

static int access_set(CUdeviceptr base, uint64_t size, int ordinal)
{
	const CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
					 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	return cuda_error(cuda.MemSetAccess(base, size, &access, 1), "giving device %d access to memory", ordinal);
}

/* Maps the memory at new addresses, which the device can use. */
static int memory_map(CUmemGenericAllocationHandle memory, uint64_t size, int ordinal, struct range *range)
{
	CUdeviceptr base;
	int         rc = cuda_error(cuda.MemAddressReserve(&base, size, 0, 0, 0), "reserving addresses for %" PRIu64 " bytes", size);

	if (rc)
		return rc;
	rc = cuda_error(cuda.MemMap(base, size, 0, memory, 0), "mapping %" PRIu64 " bytes", size);
	if (rc)
		goto free_addresses;
	rc = access_set(base, size, ordinal);
	if (rc)
		goto unmap;
	range->base = (void *)(uintptr_t)base;
	range->size = size;
	rc = range_add(range);
	if (!rc)
		return 0;
unmap:
	(void)cuda.MemUnmap(base, size);
free_addresses:
	(void)cuda.MemAddressFree(base, size);
	return rc;
}

int cuda_vmm_close(int ordinal, void *base)
{
	struct range range;
	CUresult     result;
	int          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	if (!range_find(base, &range))
		return error_set(-EINVAL, "no memory is mapped at %p", base);
	result = cuda.MemUnmap(cuda_address(base), range.size);
	if (result != CUDA_SUCCESS)
		return cuda_error(result, "unmapping memory of device %d", ordinal);
	range_remove(base);
	if (range.descriptor >= 0)
		close(range.descriptor);
	(void)cuda.MemAddressFree(cuda_address(base), range.size);
	return 0;
}

/* ---- the owner's half ---- */

static int memory_create(int ordinal, uint64_t size, CUmemGenericAllocationHandle *memory)
{
	const CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
						 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal } };
	char                      text[SIZE_TEXT_MAX];

	return cuda_error(cuda.MemCreate(memory, size, &properties, 0), "allocating %s on device %d", size_format(size, text), ordinal);
}

/* The descriptor is made here, once: clients get copies of it. */
int cuda_vmm_allocate(int ordinal, uint64_t size, void **ptr)
{
	CUmemGenericAllocationHandle memory;
	struct range                 range;
	int                          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = memory_create(ordinal, size, &memory);
	if (rc)
		return rc;
	rc = cuda_error(cuda.MemExportToShareableHandle(&range.descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			"exporting memory of device %d", ordinal);
	if (rc)
		goto release;
	rc = memory_map(memory, size, ordinal, &range);
	if (!rc)
		*ptr = range.base;
	else
		close(range.descriptor);
release:
	(void)cuda.MemRelease(memory);
	return rc;
}

/* The handle is a random number: the memory is reached by the descriptor alone. */
int cuda_vmm_export(void *base, struct device_handle *handle, int *descriptor)
{
	struct range range;

	if (!range_find(base, &range))
		return error_set(-EINVAL, "no memory is mapped at %p", base);
	if (getrandom(handle->bytes, sizeof(handle->bytes), 0) != sizeof(handle->bytes))
		return error_set(-EIO, "no random bytes for a handle: %m");
	*descriptor = range.descriptor;
	return 0;
}

/* ---- the importer's half ---- */

static int import_failed(CUresult result, int ordinal)
{
	if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED)
		return error_set(-ENODEV, "opening a buffer on device %d failed: the device cannot reach the buffer's device, or this process's "
				 "driver does not know the descriptor", ordinal);
	return cuda_error(result, "opening a buffer on device %d", ordinal);
}

int cuda_vmm_open(int ordinal, int descriptor, uint64_t size, void **ptr)
{
	CUmemGenericAllocationHandle memory;
	struct range                 range = { .descriptor = -1 };
	CUresult                     result;
	int                          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	result = cuda.MemImportFromShareableHandle(&memory, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (result != CUDA_SUCCESS)
		return import_failed(result, ordinal);
	rc = memory_map(memory, size, ordinal, &range);
	(void)cuda.MemRelease(memory);
	if (!rc)
		*ptr = range.base;
	return rc;
}
