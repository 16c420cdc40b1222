/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-memory.c - device memory, which the broker allocates and clients open, and host pages that the device writes.
 *
 * Clients close memory by cuda-sync.c. Owns a private stream for each device, on which the broker zeroes memory, and
 * the list of registered pages. Frees only memory that the caller names by its pointer. Never retries.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/error.h"
#include "common/size.h"
#include "device/cuda.h"

_Static_assert(sizeof(CUipcMemHandle) == DEVICE_HANDLE_SIZE, "a handle is what the wire says");

static CUstream        zero_streams[DEVICE_MAX];
static pthread_mutex_t zero_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the owner's half ---- */

static int ipc_allocate(int ordinal, uint64_t size, void **ptr)
{
	char        text[SIZE_TEXT_MAX];
	CUdeviceptr address;
	int         rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = cuda_error(cuda.MemAlloc(&address, size), "allocating %s on device %d", size_format(size, text),
				ordinal);
	if (!rc)
		*ptr = (void *)(uintptr_t)address;
	return rc;
}

int cuda_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr)
{
	switch (exported) {
	case EXPORT_IPC:
		return ipc_allocate(ordinal, size, ptr);
	case EXPORT_VMM:
		return cuda_vmm_allocate(ordinal, size, ptr);
	default:
		return error_set(-ENOTSUP, "CUDA devices have no such export of memory");
	}
}

int cuda_adopt(int ordinal, const struct device_memory *memory, void **ptr)
{
	if (!memory->export->by_descriptor)
		return error_set(-ENOTSUP, "memory of CUDA IPC cannot be taken over from an owner that has ended");
	return cuda_vmm_adopt(ordinal, memory, ptr);
}

/*
 * Stores the device's private stream, on which memory is zeroed, and makes it at the first use. Call it in the device's
 * context. The stream is non-blocking, so that it does not wait for work on the legacy stream.
 */
static int zero_stream(int ordinal, CUstream *stream)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&zero_lock);
	if (!zero_streams[ordinal])
		result = cuda.StreamCreate(&zero_streams[ordinal], CU_STREAM_NON_BLOCKING);
	*stream = zero_streams[ordinal];
	pthread_mutex_unlock(&zero_lock);
	return cuda_error(result, "making a stream on device %d", ordinal);
}

int cuda_zero(int ordinal, void *ptr, uint64_t size)
{
	CUstream stream;
	CUresult result;
	int      rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = zero_stream(ordinal, &stream);
	if (rc)
		return rc;
	result = cuda.MemsetD8Async(cuda_address(ptr), 0, size, stream);
	if (result == CUDA_SUCCESS)
		result = cuda.StreamSynchronize(stream);
	return cuda_error(result, "zeroing %" PRIu64 " bytes on device %d", size, ordinal);
}

/* ptr must be the base of an allocation, because the handle of another address also opens the base (docs/facts.md). */
static int ipc_export(int ordinal, void *ptr, struct device_handle *handle)
{
	CUipcMemHandle ipc;
	int            rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = cuda_error(cuda.IpcGetMemHandle(&ipc, cuda_address(ptr)), "exporting memory of device %d",
				ordinal);
	if (!rc)
		memcpy(handle->bytes, &ipc, sizeof(ipc));
	return rc;
}

int cuda_export_handle(int ordinal, void *ptr, struct device_handle *handle, int *descriptor)
{
	if (cuda_vmm_has(ptr))
		return cuda_vmm_export(ptr, handle, descriptor);
	*descriptor = -1;
	return ipc_export(ordinal, ptr, handle);
}

int cuda_release(int ordinal, void *ptr)
{
	int rc;
	CUDA_SCOPE(scope);

	if (cuda_vmm_has(ptr))
		return cuda_vmm_unmap(ordinal, ptr);
	rc = cuda_enter(&scope, ordinal);
	return rc ? rc : cuda_error(cuda.MemFree(cuda_address(ptr)), "freeing memory of device %d", ordinal);
}

/* ---- the importer's half ---- */

static int open_failed(CUresult result, int ordinal)
{
	if (result == CUDA_ERROR_INVALID_CONTEXT) /* the error in a process with the exporter's pid (docs/facts.md) */
		return error_set(-EINVAL,
				 "opening a buffer on device %d failed: it was exported by this process, or by one "
				 "with the same number in another pid namespace: start this process anew (docker run "
				 "--init)",
				 ordinal);
	if (result == CUDA_ERROR_MAP_FAILED)
		return error_set(-ENODEV, "opening a buffer on device %d failed: the device cannot reach the buffer's "
				 "device, or has no address space left", ordinal);
	return cuda_error(result, "opening a buffer on device %d", ordinal);
}

/*
 * The driver requires CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS (docs/facts.md). The size is not needed, because the driver
 * knows it by the handle.
 */
int cuda_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	CUipcMemHandle ipc;
	CUdeviceptr    address;
	CUresult       result;
	int            rc;
	CUDA_SCOPE(scope);

	(void)size;
	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	memcpy(&ipc, handle->bytes, sizeof(ipc));
	result = cuda.IpcOpenMemHandle(&address, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	explicit_bzero(&ipc, sizeof(ipc));
	if (result != CUDA_SUCCESS)
		return open_failed(result, ordinal);
	*ptr = (void *)(uintptr_t)address;
	return 0;
}

/* ---- pages that the device writes ---- */

static bool device_has(CUdevice_attribute attribute, int ordinal)
{
	int value = 0;

	return cuda.DeviceGetAttribute(&value, attribute, ordinal) == CUDA_SUCCESS && value;
}

/* Checks that all devices can use a registered page by its host address, because stream operations on any device do. */
static int page_devices_check(void)
{
	for (int i = 0; i < cuda_count(); i++) {
		if (!device_has(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, i))
			return error_set(-ENOTSUP,
					 "device %d cannot use host addresses of registered memory; take it out of "
					 "CUDA_VISIBLE_DEVICES",
					 i);
		if (!device_has(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, i))
			return error_set(-ENOTSUP, "device %d has no 64-bit stream memory operations; take it out of "
					 "CUDA_VISIBLE_DEVICES", i);
	}
	return 0;
}

/*
 * Returns the flags to register a page. A read-only page needs CU_MEMHOSTREGISTER_READ_ONLY (NVIDIA's cuda.h), except
 * on a device that uses the host's page tables and does not support the flag.
 */
static unsigned int page_flags(int ordinal, bool writable)
{
	unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

	if (writable)
		return flags;
	if (!device_has(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, ordinal) &&
	    device_has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, ordinal))
		return flags;
	return flags | CU_MEMHOSTREGISTER_READ_ONLY;
}

/* A registered page, which is in the list to be registered again after a reset, and found when it is unregistered. */
struct page {
	void        *address;
	size_t       size;
	bool         writable;
	int          ordinal; /* ordinal of the device in whose context the page is registered */
	struct page *prev, *next; /* links of the list `pages` */
};

static struct page    *pages;
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Registers the page, for all contexts (CU_MEMHOSTREGISTER_PORTABLE). Call it in the context of device page->ordinal.
 */
static CUresult page_register(const struct page *page)
{
	return cuda.MemHostRegister(page->address, page->size, page_flags(page->ordinal, page->writable));
}

static CUresult page_add(struct page *page)
{
	CUresult result;

	pthread_mutex_lock(&pages_lock);
	result = page_register(page);
	if (result == CUDA_SUCCESS)
		DL_PREPEND(pages, page);
	pthread_mutex_unlock(&pages_lock);
	return result;
}

/* Sets the relaxed capture mode, because the caller's guard could not if the thread's own context was reset. */
void cuda_pages_renew(int ordinal, CUcontext primary)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	const struct page  *page;
	CUcontext           popped;
	bool                relaxed;

	if (cuda.CtxPushCurrent(primary) != CUDA_SUCCESS)
		return;
	relaxed = cuda.ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
	pthread_mutex_lock(&pages_lock);
	DL_FOREACH(pages, page)
		if (page->ordinal == ordinal)
			(void)page_register(page);
	pthread_mutex_unlock(&pages_lock);
	if (relaxed)
		(void)cuda.ThreadExchangeStreamCaptureMode(&mode);
	(void)cuda.CtxPopCurrent(&popped);
}

int cuda_page_register(void *address, size_t size, bool writable)
{
	int          ordinal = cuda_home(), rc;
	CUresult     result;
	struct page *page;
	CUDA_SCOPE(scope);

	rc = page_devices_check();
	if (!rc)
		rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	page = malloc(sizeof(*page));
	if (!page)
		return error_set(-ENOMEM, "no memory to register a page with CUDA");
	*page = (struct page){ .address = address, .size = size, .writable = writable, .ordinal = ordinal };
	result = page_add(page);
	if (result != CUDA_SUCCESS)
		free(page);
	if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return error_set(-EEXIST, "CUDA has memory registered at %p, where the program has none any more: call "
				 "cudaHostUnregister() before you unmap registered memory", address);
	return cuda_error(result, "registering %zu bytes of shared host memory with CUDA", size);
}

/* Removes the page from `pages`, so that a reset does not register it again, and returns it. NULL: it is not there. */
static struct page *page_take(const void *address)
{
	struct page *page;

	pthread_mutex_lock(&pages_lock);
	DL_SEARCH_SCALAR(pages, page, address, address);
	if (page)
		DL_DELETE(pages, page);
	pthread_mutex_unlock(&pages_lock);
	return page;
}

static void page_put_back(struct page *page)
{
	pthread_mutex_lock(&pages_lock);
	DL_PREPEND(pages, page);
	pthread_mutex_unlock(&pages_lock);
}

/*
 * Holds no lock while it calls the driver, because the call waits for kernels. Succeeds also if a reset of the device
 * has ended the registration.
 */
int cuda_page_unregister(void *address)
{
	struct page *page;
	CUresult     result;
	int          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, cuda_home());
	if (rc)
		return rc;
	page = page_take(address);
	if (!page)
		return error_set(-EINVAL, "no page at %p is registered", address);
	result = cuda.MemHostUnregister(address);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) {
		page_put_back(page);
		return cuda_error(result, "unregistering shared host memory");
	}
	free(page);
	return 0;
}
