/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - internals of the CUDA device: the driver's functions, and the guard around every call of one.
 *
 * All work goes through the driver API, in the primary contexts of the devices. The CUDA runtime uses the primary
 * contexts, too, so the program's pointers and streams are valid in this library, and this library's in the program.
 * The runtime is neither linked nor called, because its last error and its current device belong to the program, and
 * because the runtime would need the driver of its toolkit. Pushing and popping a context leaves no trace in the
 * program. Ordinals are the driver's, which equal the runtime's.
 *
 * Included only by the cuda-*.[ch] files and by tests.
 */
#ifndef GPUB_CUDA_H
#define GPUB_CUDA_H

#if HAVE_CUDA_TOOLKIT
#include <cuda.h>
#include <cudaTypedefs.h>
#else
#include "device/cuda-abi.h"
#endif

#include "device/device.h"

/*
 * The driver's functions, each with the CUDA version that introduced the form that is called here. Functions change
 * their form: cuCtxGetDevice in 13.0, and cuStreamWriteValue64 in 11.7 (exported as cuStreamWriteValue64_v2).
 */
#define CUDA_FUNCTIONS(X)                        \
	X(Init, 2000)                            \
	X(GetErrorName, 6000)                    \
	X(DeviceGetCount, 2000)                  \
	X(DeviceGetName, 2000)                   \
	X(DeviceGetUuid, 11040)                  \
	X(DeviceTotalMem, 3020)                  \
	X(DeviceGetAttribute, 2000)              \
	X(DevicePrimaryCtxRetain, 7000)          \
	X(DevicePrimaryCtxGetState, 7000)        \
	X(CtxGetCurrent, 4000)                   \
	X(CtxSetCurrent, 4000)                   \
	X(CtxPushCurrent, 4000)                  \
	X(CtxPopCurrent, 4000)                   \
	X(CtxGetDevice, 2000)                    \
	X(CtxGetId, 12000)                       \
	X(ThreadExchangeStreamCaptureMode, 10010) \
	X(MemAlloc, 3020)                        \
	X(MemFree, 3020)                         \
	X(MemGetInfo, 3020)                      \
	X(MemCreate, 10020)                      \
	X(MemRelease, 10020)                     \
	X(MemExportToShareableHandle, 10020)     \
	X(MemImportFromShareableHandle, 10020)   \
	X(MemAddressReserve, 10020)              \
	X(MemAddressFree, 10020)                 \
	X(MemMap, 10020)                         \
	X(MemUnmap, 10020)                       \
	X(MemSetAccess, 10020)                   \
	X(MemRetainAllocationHandle, 11000)      \
	X(MemsetD8Async, 3020)                   \
	X(MemcpyAsync, 4000)                     \
	X(MemHostRegister, 6050)                 \
	X(MemHostUnregister, 4000)               \
	X(IpcGetMemHandle, 4010)                 \
	X(IpcOpenMemHandle, 11000)               \
	X(IpcCloseMemHandle, 4010)               \
	X(StreamCreate, 2000)                    \
	X(StreamCreateWithPriority, 5050)        \
	X(StreamDestroy, 4000)                   \
	X(StreamSynchronize, 2000)               \
	X(StreamIsCapturing, 10000)              \
	X(StreamGetCtx, 9020)                    \
	X(StreamGetId, 12000)                    \
	X(StreamWriteValue64, 11070)             \
	X(StreamWaitValue64, 11070)              \
	X(StreamBatchMemOp, 11070)               \
	X(StreamWaitEvent, 3020)                 \
	X(EventCreate, 2000)                     \
	X(EventRecord, 2000)                     \
	X(EventQuery, 2000)                      \
	X(EventSynchronize, 2000)                \
	X(EventDestroy, 4000)                    \
	X(LibraryLoadFromFile, 12000)            \
	X(LibraryUnload, 12000)                  \
	X(LibraryGetKernel, 12000)               \
	X(LibraryGetModule, 12000)               \
	X(LibraryGetManaged, 12000)              \
	X(KernelGetFunction, 12000)              \
	X(KernelSetAttribute, 12000)             \
	X(LaunchKernel, 4000)

/* Types that older CUDA headers lack. C11 allows the same typedef twice, so they may also be in the headers. */
typedef CUresult(CUDAAPI *PFN_cuKernelGetParamInfo_v12040)(CUkernel kernel, size_t index, size_t *offset, size_t *size);
typedef CUresult(CUDAAPI *PFN_cuKernelGetParamCount_v13020)(CUkernel kernel, size_t *count);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetKernelCount_v12040)(unsigned int *count, CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryEnumerateKernels_v12040)(CUkernel *kernels, unsigned int count,
								CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuFuncLoad_v12040)(CUfunction function);

/* Functions that are NULL in `cuda` if the driver is too old. */
#define CUDA_OPTIONAL(X)                  \
	X(KernelGetParamInfo, 12040)      \
	X(KernelGetParamCount, 13020)     \
	X(LibraryGetKernelCount, 12040)   \
	X(LibraryEnumerateKernels, 12040) \
	X(FuncLoad, 12040)

struct cuda_driver {
#define CUDA_FIELD(name, version) PFN_cu##name##_v##version name;
	CUDA_FUNCTIONS(CUDA_FIELD)
	CUDA_OPTIONAL(CUDA_FIELD)
#undef CUDA_FIELD
};

/* The driver's functions. Owned by cuda-library.c: cuda_library_load() fills it in start(), and then it is constant. */
extern struct cuda_driver cuda;

/*
 * Loads the driver's library. -ENODEV: only if there is no driver. -ENOTSUP: the driver is too old. -EIO: the driver
 * does not work.
 */
int cuda_library_load(void);

/* Stores the CUDA version that the driver supports (12080 is 12.8). Errors as cuda_library_load(). Uses no device. */
int cuda_library_version(int *version);

/*
 * Loads the driver's library and initialises the driver. -ENODEV: only if there is no driver or no device. renew() is
 * called when a new context is found on a device that was reset.
 */
int cuda_driver_load(void (*renew)(int ordinal, CUcontext primary));

/* Returns the number of devices that the driver shows; 0 before cuda_driver_load(). */
int cuda_count(void);

/* Returns 0 if 0 <= ordinal < cuda_count(). Otherwise -ENODEV with the error message set. */
int cuda_check_ordinal(int ordinal);

/* Returns 0 for CUDA_SUCCESS. Otherwise a negative errno, error message "FORMAT failed: NAME (HINT)". */
int cuda_error(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The guard around calls of the driver. Entering sets the thread's capture mode to relaxed, so that a call disturbs
 * no thread's graph capture (facts.md: cuIpcOpenMemHandle and others would invalidate a global capture). All but
 * cuda_enter_relaxed() push a context unless it is current already. Leaving restores mode and context; a thread that
 * had no context has none again.
 */
struct cuda_scope {
	CUstreamCaptureMode mode; /* the thread's capture mode before the guard; valid if `entered` */
	bool                entered, pushed; /* entered: the mode was changed; pushed: a context was pushed */
};

/* Declares a guard that is left at the end of its block. */
#define CUDA_SCOPE(scope) struct cuda_scope scope __attribute__((cleanup(cuda_leave))) = { 0 }

/*
 * Enters the guard with the primary context of device `ordinal`. The context is retained at the first use and again
 * after a reset of the device, and is never released.
 */
int cuda_enter(struct cuda_scope *scope, int ordinal);

/*
 * Enters the guard with the stream's context. For a special stream (cuda_stream_is_special()) this is the current
 * context, or device 0's if no context is current. Makes no call on the stream that could disturb a capture. Before the
 * caller uses the stream, it must find out whether the stream is being captured.
 */
int cuda_enter_stream(struct cuda_scope *scope, CUstream stream);

/* Whether the stream's handle means the legacy or the per-thread default stream, of which each context has one. */
static inline bool cuda_stream_is_special(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* The function epoch() of struct device. */
uint64_t cuda_epoch(int ordinal);

/* Returns the id of the current context. 0: no context is current, or its device was reset. */
static inline unsigned long long cuda_context_id(void)
{
	unsigned long long id = 0;

	return cuda.CtxGetId(NULL, &id) == CUDA_SUCCESS ? id : 0;
}

/*
 * Checks all devices for resets. For each device that was reset, retains the new primary context, and registers the
 * device's pages again.
 */
void cuda_notice_resets(void);

/* Enters the guard without a context, only with the relaxed capture mode, for calls that need no context. */
int cuda_enter_relaxed(struct cuda_scope *scope);

void cuda_leave(struct cuda_scope *scope);

/* Returns the device of the thread's current context, or 0 without a context, as the runtime does. Makes no context. */
int cuda_current(void);
int cuda_set_current(int ordinal);

/*
 * Returns a device for calls that need any context: the current device, else one whose context this library or the
 * program has made, else 0. Makes no context.
 */
int cuda_home(void);

/* Whether the device has a primary context, made by this library or by the program. Makes no context. */
bool cuda_in_use(int ordinal);

static inline CUdeviceptr cuda_address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* The functions of struct device that are in cuda-memory.c. */
int cuda_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr);
int cuda_adopt(int ordinal, const struct device_memory *memory, void **ptr);
int cuda_zero(int ordinal, void *ptr, uint64_t size);
int cuda_export_handle(int ordinal, void *ptr, struct device_handle *handle, int *descriptor);
int cuda_release(int ordinal, void *ptr);
int cuda_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
int cuda_page_register(void *page, size_t size, bool writable);
int cuda_page_unregister(void *page);

/*
 * After a reset of the device: registers the device's pages again, in its new context `primary`. Ignores errors,
 * because the next use of a page reports them.
 */
void cuda_pages_renew(int ordinal, CUcontext primary);

/* The functions of cuda-vmm.c, for memory that is exported by a descriptor. size: bytes, a multiple of the granule. */
int  cuda_vmm_allocate(int ordinal, uint64_t size, void **ptr);
int  cuda_vmm_adopt(int ordinal, const struct device_memory *adopted, void **ptr);
int  cuda_vmm_export(void *base, struct device_handle *handle, int *descriptor);
int  cuda_vmm_map(int ordinal, const struct device_memory *import, void **ptr);
int  cuda_vmm_extend(int ordinal, void *base, uint64_t offset, int descriptor, uint64_t size);
int  cuda_vmm_map_again(int ordinal, const void *ptr, bool writable, void **again);
int  cuda_vmm_make_writable(int ordinal, void *base);
/* for memory that no work uses: the importer's unmap(), owner's release() */
int  cuda_vmm_unmap(int ordinal, void *base);
bool cuda_vmm_has(const void *base);          /* whether cuda-vmm.c has mapped memory that begins at base */

/* The functions of struct device that are in cuda-sync.c. */
int cuda_close(int ordinal, void *ptr);
int cuda_sync(int ordinal, const struct device_handle *handle, uint64_t size);

/*
 * Whether a close of an IPC handle was seen to return before the device's work was done, or could not be seen to wait.
 * If true, cuda_close() tests each close, and fails with -EIO unless the close is seen to wait.
 */
bool cuda_closes_return(int ordinal);

/* The function of struct device that is in cuda-processes.c. */
int cuda_gone(pid_t pid, bool mps);

/* The functions of struct device that are in cuda-stream.c. */
int  cuda_stream_write(void *stream, uint64_t *word, uint64_t value);
int  cuda_stream_wait(void *stream, const uint64_t *word, uint64_t value);
int  cuda_stream_write_many(void *stream, const struct device_word *words, unsigned count);
int  cuda_stream_wait_many(void *stream, const struct device_word *words, unsigned count);
int  cuda_stream_after(void *stream, void *other);
int  cuda_stream_create(int ordinal, int priority, void **stream);
int  cuda_stream_sync(void *stream);
int  cuda_stream_sync_until(void *stream, int (*over)(void *), void *context);
void cuda_stream_destroy(void *stream);
int  cuda_copy(void *stream, void *dst, const void *src, uint64_t size);

/* Stores whether the stream is being captured. -EBUSY: the stream cannot be used while another stream is captured. */
int cuda_stream_captured(CUstream stream, bool *captured);

/* The functions of struct device that are in cuda-module.c and cuda-launch.c. */
int cuda_module_load(const char *path, void **module);
int cuda_module_ready(void *module, int ordinal);
int cuda_module_kernel(void *module, const char *symbol, void **kernel);
int cuda_module_managed(void *module, const char *symbol, void **ptr, size_t *size);
int cuda_module_unload(void *module);
int cuda_module_launch(void *kernel, const gpub_launch_config *config, void **args);

#endif
