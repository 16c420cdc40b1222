/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - the fake driver's device memory, which other processes can open, and registered host pages.
 *
 * Owns this process's ranges: a memfd for each allocation, a mapping of another process's memfd for each open, a row
 * for each registration. A handle is the exporter's pid and descriptor, and is opened through
 * /proc/PID/fd, so both processes must belong to one user.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inner.h"

#define RANGES_MAX 1024

enum kind { FREE, ALLOCATED, OPENED, REGISTERED };

struct handle {
	pid_t    pid;
	int      fd;
	uint64_t size;
};

_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "a handle is what CUDA says");

static struct range {
	enum kind     kind;
	char         *base;
	uint64_t      size;
	CUdevice      device;
	int           fd;     /* ALLOCATED */
	struct handle handle; /* OPENED */
	unsigned      opens;  /* OPENED: the same handle opened again is the same pointer */
} ranges[RANGES_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- ranges; all with the lock ---- */

static struct range *range_free(void)
{
	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].kind == FREE)
			return &ranges[i];
	return NULL;
}

static struct range *range_at(enum kind kind, CUdeviceptr base)
{
	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].kind == kind && (CUdeviceptr)(uintptr_t)ranges[i].base == base)
			return &ranges[i];
	return NULL;
}

static bool range_overlaps(const char *base, uint64_t size)
{
	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].kind == REGISTERED && base < ranges[i].base + ranges[i].size &&
		    ranges[i].base < base + size)
			return true;
	return false;
}

static uint64_t allocated(CUdevice device)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].kind == ALLOCATED && ranges[i].device == device)
			bytes += ranges[i].size;
	return bytes;
}

uint64_t fake_allocated(CUdevice device)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = allocated(device);
	pthread_mutex_unlock(&lock);
	return bytes + fake_vmm_allocated(device);
}

/* Makes a range of a descriptor's memory. Owns the descriptor after success. */
static CUresult range_map(struct range *range, enum kind kind, int fd, uint64_t size)
{
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*range = (struct range){ .kind = kind, .base = base, .size = size, .device = fake_current()->device, .fd = fd };
	return CUDA_SUCCESS;
}

static void range_unmap(struct range *range)
{
	munmap(range->base, range->size);
	range->kind = FREE;
}

/* ---- device memory ---- */

static CUresult allocate(CUdeviceptr *address, size_t size)
{
	struct range *range = range_free();
	int           fd;

	if (!range || allocated(fake_current()->device) + size > fake_setup.memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = memfd_create("fake-cuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) || range_map(range, ALLOCATED, fd, size) != CUDA_SUCCESS) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*address = (CUdeviceptr)(uintptr_t)range->base;
	return CUDA_SUCCESS;
}

static CUresult fake_MemAlloc(CUdeviceptr *address, size_t size)
{
	CUresult result;

	FAKE_CALL();
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	result = allocate(address, size);
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult fake_MemFree(CUdeviceptr address)
{
	struct range *range;

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at(ALLOCATED, address);
	if (range) {
		close(range->fd);
		range_unmap(range);
	}
	pthread_mutex_unlock(&lock);
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Counts this process's allocations, not those of others. */
static CUresult fake_MemGetInfo(size_t *left, size_t *total)
{
	FAKE_CALL();
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*total = fake_setup.memory;
	*left = fake_setup.memory - fake_allocated(fake_current()->device);
	return CUDA_SUCCESS;
}

static CUresult fake_MemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream)
{
	FAKE_CALL();
	fake_stream_use(stream);
	memset((void *)(uintptr_t)address, value, size);
	return CUDA_SUCCESS;
}

static CUresult fake_MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	FAKE_CALL();
	fake_stream_use(stream);
	memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

static CUresult fake_IpcGetMemHandle(CUipcMemHandle *ipc, CUdeviceptr address)
{
	const struct range *range;
	struct handle       handle = { .pid = getpid() };

	FAKE_CALL();
	pthread_mutex_lock(&lock);
	range = range_at(ALLOCATED, address);
	if (range) {
		handle.fd = range->fd;
		handle.size = range->size;
	}
	pthread_mutex_unlock(&lock);
	memset(ipc, 0, sizeof *ipc);
	memcpy(ipc, &handle, sizeof handle);
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct range *opened_before(const struct handle *handle)
{
	for (size_t i = 0; i < RANGES_MAX; i++)
		if (ranges[i].kind == OPENED && ranges[i].device == fake_current()->device &&
		    !memcmp(&ranges[i].handle, handle, sizeof *handle))
			return &ranges[i];
	return NULL;
}

static struct range *handle_open(const struct handle *handle)
{
	struct range *range = range_free();
	char          path[64];
	int           fd;
	CUresult      result;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
	fd = range ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return NULL;
	result = range_map(range, OPENED, fd, handle->size);
	close(fd);
	if (result != CUDA_SUCCESS)
		return NULL;
	range->handle = *handle;
	return range;
}

static CUresult fake_IpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle ipc, unsigned int flags)
{
	struct handle handle;
	struct range *range;

	FAKE_CALL();
	memcpy(&handle, &ipc, sizeof handle);
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_current() || handle.pid == getpid()) /* facts.md: what the driver says to the exporting process */
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	range = opened_before(&handle);
	if (!range)
		range = handle_open(&handle);
	if (range) {
		range->opens++;
		*address = (CUdeviceptr)(uintptr_t)range->base;
	}
	pthread_mutex_unlock(&lock);
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Waits for everything that the process has queued, also when it is not the last (facts.md). */
static CUresult fake_IpcCloseMemHandle(CUdeviceptr address)
{
	struct range *range;

	FAKE_CALL();
	fake_streams_wait();
	pthread_mutex_lock(&lock);
	range = range_at(OPENED, address);
	if (range && !--range->opens)
		range_unmap(range);
	pthread_mutex_unlock(&lock);
	return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- host pages ---- */

static CUresult fake_MemHostRegister(void *page, size_t size, unsigned int flags)
{
	CUresult      result = CUDA_SUCCESS;
	struct range *range;

	FAKE_CALL();
	(void)flags;
	pthread_mutex_lock(&lock);
	range = range_free();
	if (!range)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (range_overlaps(page, size))
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else
		*range = (struct range){ .kind = REGISTERED, .base = page, .size = size };
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult fake_MemHostUnregister(void *page)
{
	struct range *range;

	FAKE_CALL();
	fake_streams_wait();
	pthread_mutex_lock(&lock);
	range = range_at(REGISTERED, (CUdeviceptr)(uintptr_t)page);
	if (range)
		range->kind = FREE;
	pthread_mutex_unlock(&lock);
	return range ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

const struct fake_function fake_memory[] = {
	FAKE_ROW(MemAlloc, 3020),
	FAKE_ROW(MemFree, 3020),
	FAKE_ROW(MemGetInfo, 3020),
	FAKE_ROW(MemsetD8Async, 3020),
	FAKE_ROW(MemcpyAsync, 4000),
	FAKE_ROW(IpcGetMemHandle, 4010),
	FAKE_ROW(IpcOpenMemHandle, 11000),
	FAKE_ROW(IpcCloseMemHandle, 4010),
	FAKE_ROW(MemHostRegister, 6050),
	FAKE_ROW(MemHostUnregister, 4000),
	{ 0 },
};
