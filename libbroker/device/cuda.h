/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - inside of the CUDA device: the driver's functions, and the guard around every call of them.
 *
 * All work goes through the driver API, in the devices' primary contexts. The runtime uses the same, so pointers and
 * streams are valid for the user as well as for us. Nothing of the runtime is linked or called: its last
 * error and its current device are the user's, and its minimum driver is that of the toolkit. A context can be
 * pushed and popped without a trace. Ordinals are the driver's, which are the runtime's.
 *
 * Shared by the cuda-*.c files and by nothing else (but tests/gpu).
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
 * The driver's functions with the CUDA version whose form is meant: cuCtxGetDevice and cuCtxSynchronize change
 * theirs in 13.0, cuStreamWriteValue64 did in 11.7 (version 2, named cuStreamWriteValue64_v2 in the library).
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

/* Headers of before these versions have no types for them; the same type twice is C11. */
typedef CUresult(CUDAAPI *PFN_cuKernelGetParamInfo_v12040)(CUkernel kernel, size_t index, size_t *offset, size_t *size);
typedef CUresult(CUDAAPI *PFN_cuKernelGetParamCount_v13020)(CUkernel kernel, size_t *count);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetKernelCount_v12040)(unsigned int *count, CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryEnumerateKernels_v12040)(CUkernel *kernels, unsigned int count, CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuFuncLoad_v12040)(CUfunction function);

/* NULL where the driver is too old to have them. */
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

/* cuda-library.c. Filled by cuda_library_load() in start(), constant from then on. */
extern struct cuda_driver cuda;

/* -ENODEV: there is no driver here, and nothing else. -ENOTSUP: it is too old. -EIO: it cannot be used. */
int cuda_library_load(void);

/* The CUDA version that the driver supports, as cuda.h writes versions. Fails as loading does. Touches no device. */
int cuda_library_version(int *version);

/*
 * cuda-driver.c. Finds the functions and initialises the driver. -ENODEV: no driver or no device, and nothing else. renew is
 * called whenever a device that was reset has another context.
 */
int cuda_driver_load(void (*renew)(int ordinal, CUcontext primary));

/* Devices that the driver shows; 0 before cuda_driver_load(). */
int cuda_count(void);

/* -ENODEV with the error set unless 0 <= ordinal < cuda_count(). */
int cuda_check_ordinal(int ordinal);

/* 0 for success, else a negative errno; sets the error message "FORMAT failed: NAME (HINT)". */
int cuda_error(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The guard around calls of the driver: relaxed capture mode, so that no capture of any thread is disturbed
 * (facts.md: cuIpcOpenMemHandle and others invalidate a global one otherwise), and a context pushed where
 * another was current. Leaving restores both; a thread without a context is left without one.
 */
struct cuda_scope {
	CUstreamCaptureMode mode; /* the thread's own */
	bool                entered, pushed;
};

/* A guard that leaves by itself at the end of its block. */
#define CUDA_SCOPE(scope) struct cuda_scope scope __attribute__((cleanup(cuda_leave))) = { 0 }

/*
 * The primary context of ordinal becomes current; it is retained on first use, and again after a reset, and never released.
 */
int cuda_enter(struct cuda_scope *scope, int ordinal);

/*
 * Enters the stream's context; for the special streams the current one, or that of device 0 where there is none. Makes no
 * call on the stream that could disturb a capture. The caller asks cuda_stream_captured() next.
 */
int cuda_enter_stream(struct cuda_scope *scope, CUstream stream);

/* The legacy stream, by either name, or the thread's own: handles that each context has for a stream of its own. */
static inline bool cuda_stream_is_special(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* device.h's */
uint64_t cuda_epoch(int ordinal);

/* Of the current context, which has another one after a reset; 0: it was reset, or there is none. */
static inline unsigned long long cuda_context_id(void)
{
	unsigned long long id = 0;

	return cuda.CtxGetId(NULL, &id) == CUDA_SUCCESS ? id : 0;
}

/* Looks at all devices, and makes good a reset: after it each has its context again, and its pages are registered. */
void cuda_notice_resets(void);

/* Only the capture mode: for calls that need no context. */
int cuda_enter_relaxed(struct cuda_scope *scope);

void cuda_leave(struct cuda_scope *scope);

/* Ordinal of the calling thread's current context, 0 without one (the runtime's default). Makes none. */
int cuda_current(void);
int cuda_set_current(int ordinal);

/* A device whose primary context exists already where possible: the current one, one of ours, any, 0. */
int cuda_home(void);

/* Whether the device has a primary context, ours or the program's. Makes none. */
bool cuda_in_use(int ordinal);

static inline CUdeviceptr cuda_address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* cuda-memory.c */
int cuda_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr);
int cuda_zero(int ordinal, void *ptr, uint64_t size);
int cuda_export_handle(int ordinal, void *ptr, struct device_handle *handle, int *descriptor);
int cuda_release(int ordinal, void *ptr);
int cuda_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
int cuda_page_register(void *page, size_t size, bool writable);
int cuda_page_unregister(void *page);

/* After a reset of that device: registers its pages again, in its new context. Errors show when a page is used. */
void cuda_pages_renew(int ordinal, CUcontext primary);

/* cuda-vmm.c: the same for memory that is exported by a descriptor. size: whole granules. */
int  cuda_vmm_allocate(int ordinal, uint64_t size, void **ptr);
int  cuda_vmm_export(void *base, struct device_handle *handle, int *descriptor);
int  cuda_vmm_map(int ordinal, const struct device_memory *import, void **ptr);
int  cuda_vmm_extend(int ordinal, void *base, uint64_t offset, const struct device_memory *memory);
int  cuda_vmm_map_again(int ordinal, const void *ptr, bool writable, void **again);
int  cuda_vmm_make_writable(int ordinal, void *base);
int  cuda_vmm_unmap(int ordinal, void *base); /* no work is left on it: unmap(), and the owner's release() */
bool cuda_vmm_has(const void *base);          /* the memory at base is of that kind */

/* cuda-sync.c */
int cuda_close(int ordinal, void *ptr);
int cuda_sync(int ordinal, const struct device_handle *handle, uint64_t size);

/* True once a close was seen not to wait for the device's work. From then on each last close is tried, and fails with -EIO. */
bool cuda_closes_return(int ordinal);

/* cuda-processes.c */
int cuda_gone(pid_t pid, bool mps);

/* cuda-stream.c */
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

/* Whether the stream is being captured; -EBUSY where it cannot be used because another one is. */
int cuda_stream_captured(CUstream stream, bool *captured);

/* cuda-module.c, cuda-launch.c */
int cuda_module_load(const char *path, void **module);
int cuda_module_ready(void *module, int ordinal);
int cuda_module_kernel(void *module, const char *symbol, void **kernel);
int cuda_module_managed(void *module, const char *symbol, void **ptr, size_t *size);
int cuda_module_unload(void *module);
int cuda_module_launch(void *kernel, const gpub_launch_config *config, void **args);

#endif
