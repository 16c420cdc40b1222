/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm.c - the fake driver's virtual memory functions: memory that a descriptor exports, mapped at reserved addresses.
 *
 * Owns this process's reserved ranges. Memory is a memfd, its handle a descriptor of it. Addresses without memory, or
 * to which no device was given access, fault. An address that is asked for is given where nothing lies there, else
 * another. Nothing waits for a stream.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inner.h"

#define RANGES_MAX 1024
#define NAME       "fake-cuda-vmm"
#define WISH_UNIT  (32ull << 20) /* addresses that are asked for, and how many */

static struct range {
	char    *base; /* NULL: none */
	size_t   size;
	size_t   mapped; /* bytes; 0: none */
	CUdevice device; /* that the memory was made on, if this process made it; -1 */
	int      memory; /* mapped: a descriptor of it */
} ranges[RANGES_MAX];

/* By descriptor: of what this process made. */
static CUdevice made_on[RANGES_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct range *range_at(const char *base)
{
	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].base == base)
			return &ranges[i];
	return NULL;
}

uint64_t fake_vmm_allocated(CUdevice device)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].base && ranges[i].mapped && ranges[i].device == device)
			bytes += ranges[i].mapped;
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* ---- memory ---- */

static CUresult fake_MemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
			       unsigned long long flags)
{
	int fd;

	FAKE_CALL();
	if (flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (fake_allocated(prop->location.id) + size > fake_setup.memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = memfd_create(NAME, MFD_CLOEXEC);
	if (fd < 0 || fd >= RANGES_MAX || ftruncate(fd, (off_t)size)) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made_on[fd] = prop->location.id + 1;
	*handle = (CUmemGenericAllocationHandle)fd;
	return CUDA_SUCCESS;
}

static CUresult fake_MemRelease(CUmemGenericAllocationHandle handle)
{
	FAKE_CALL();
	made_on[handle] = 0;
	return close((int)handle) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult fake_MemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
						CUmemAllocationHandleType type, unsigned long long flags)
{
	int fd;

	FAKE_CALL();
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	fd = fcntl((int)handle, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(shareable, &fd, sizeof fd);
	return CUDA_SUCCESS;
}

static CUresult fake_MemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
						  CUmemAllocationHandleType type)
{
	char    path[64], target[64] = "";
	int     fd;
	ssize_t length;

	FAKE_CALL();
	snprintf(path, sizeof path, "/proc/self/fd/%d", (int)(intptr_t)shareable);
	length = readlink(path, target, sizeof target - 1);
	if (length < 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    strncmp(target, "/memfd:" NAME, strlen("/memfd:" NAME)))
		return CUDA_ERROR_INVALID_VALUE;
	fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || fd >= RANGES_MAX)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*handle = (CUmemGenericAllocationHandle)fd;
	return CUDA_SUCCESS;
}

/* ---- addresses ---- */

static void *reserve(void *where, size_t size, int fixed)
{
	return mmap(where, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (where ? fixed : 0), -1, 0);
}

static CUresult fake_MemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr address,
				       unsigned long long flags)
{
	struct range *range;
	void         *base = MAP_FAILED;

	FAKE_CALL();
	(void)alignment, (void)flags;
	pthread_mutex_lock(&lock);
	range = range_at(NULL);
	if (range && address % WISH_UNIT == 0 && size >= WISH_UNIT)
		base = reserve((void *)(uintptr_t)address, size, MAP_FIXED_NOREPLACE);
	if (range && base == MAP_FAILED)
		base = reserve(NULL, size, 0);
	if (base != MAP_FAILED)
		*range = (struct range){ .base = base, .size = size, .device = -1 };
	pthread_mutex_unlock(&lock);
	*ptr = (CUdeviceptr)(uintptr_t)base;
	return base == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult fake_MemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct range *range;
	bool          ok;

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at((char *)(uintptr_t)ptr);
	ok = ptr && range && range->size == size && !range->mapped;
	if (ok) {
		munmap(range->base, size);
		range->base = NULL;
	}
	pthread_mutex_unlock(&lock);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			    unsigned long long flags)
{
	struct stat   st;
	struct range *range;
	bool          ok;

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at((char *)(uintptr_t)ptr);
	ok = ptr && range && range->size >= size && !range->mapped && !offset && !flags && !fstat((int)handle, &st) &&
	     st.st_size == (off_t)size &&
	     mmap(range->base, size, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, 0) == range->base;
	if (ok) {
		range->mapped = size;
		range->device = made_on[handle] - 1;
		range->memory = fcntl((int)handle, F_DUPFD_CLOEXEC, 0);
	}
	pthread_mutex_unlock(&lock);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *access, size_t count)
{
	struct range *range;
	bool          ok;

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at((char *)(uintptr_t)ptr);
	ok = ptr && range && range->mapped == size && count == 1 &&
	     !mprotect(range->base, size,
		       (int)access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE : PROT_READ);
	pthread_mutex_unlock(&lock);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *ptr)
{
	struct range *range;
	int           fd = -1;

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at(ptr);
	if (ptr && range && range->mapped)
		fd = fcntl(range->memory, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&lock);
	if (fd < 0 || fd >= RANGES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = (CUmemGenericAllocationHandle)fd;
	return CUDA_SUCCESS;
}

static CUresult fake_MemUnmap(CUdeviceptr ptr, size_t size)
{
	struct range *range;
	bool          ok;

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at((char *)(uintptr_t)ptr);
	ok = ptr && range && range->mapped == size && reserve(range->base, size, MAP_FIXED) == range->base;
	if (ok) {
		range->mapped = 0;
		close(range->memory);
	}
	pthread_mutex_unlock(&lock);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

const struct fake_function fake_vmm[] = {
	FAKE_ROW(MemCreate, 10020),
	FAKE_ROW(MemRelease, 10020),
	FAKE_ROW(MemExportToShareableHandle, 10020),
	FAKE_ROW(MemImportFromShareableHandle, 10020),
	FAKE_ROW(MemAddressReserve, 10020),
	FAKE_ROW(MemAddressFree, 10020),
	FAKE_ROW(MemMap, 10020),
	FAKE_ROW(MemSetAccess, 10020),
	FAKE_ROW(MemRetainAllocationHandle, 11000),
	FAKE_ROW(MemUnmap, 10020),
	{ 0 },
};
