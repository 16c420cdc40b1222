/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-driver.c - the driver's functions, its errors, and the context that a call runs in.
 *
 * Owns the table of entry points and one retained reference to the primary context of each device that was
 * used; they are never released, since mappings and streams live in them until the process ends. Never
 * changes the calling thread's context except in cuda_set_current(), and never touches the runtime's state
 * (its last error belongs to the user wherever one copy of the runtime is shared).
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/error.h"
#include "device/cuda.h"

struct cuda_driver cuda;

static int             device_count;
static _Atomic(CUcontext) primaries[DEVICE_MAX];
static pthread_mutex_t primaries_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	const char  *name;
	unsigned int version;
	size_t       offset;
	bool         optional;
} functions[] = {
#define CUDA_ROW(name, version) { "cu" #name, version, offsetof(struct cuda_driver, name), false },
	CUDA_FUNCTIONS(CUDA_ROW)
#undef CUDA_ROW
#define CUDA_ROW(name, version) { "cu" #name, version, offsetof(struct cuda_driver, name), true },
	CUDA_OPTIONAL(CUDA_ROW)
#undef CUDA_ROW
};

/* ---- entry points ---- */

/*
 * The oldest form of each function that has our signature. Before CUDA 12.5 the runtime picks by its own
 * version, which gives the same ones. Legacy streams: NULL is the legacy stream whatever the flags we had.
 */
static cudaError_t entry_point(const char *name, unsigned int version, void **function)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	cudaError_t                          result;

#if CUDART_VERSION >= 12050
	result = cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableLegacyStream, &found);
#else
	(void)version;
	result = cudaGetDriverEntryPoint(name, function, cudaEnableLegacyStream, &found);
#endif
	if (result == cudaSuccess && (found != cudaDriverEntryPointSuccess || !*function))
		result = cudaErrorSymbolNotFound;
	return result;
}

static int entry_points_failed(cudaError_t result, const char *name)
{
	switch (result) {
	case cudaErrorSymbolNotFound:
	case cudaErrorInvalidValue: /* what ByVersion says to a driver older than the version asked for */
		return error_set(-ENODEV, "the NVIDIA driver is too old: it has no %s; CUDA 12 needs driver 525 or newer",
				 name);
	case cudaErrorInsufficientDriver: /* also where libcuda.so.1 is not found at all */
		return error_set(-ENODEV, "no NVIDIA driver for CUDA %d.%d: libcuda.so.1 is missing or too old; install "
				 "or update the driver, or choose the host device",
				 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	case cudaErrorNoDevice:
		return error_set(-ENODEV, "the NVIDIA driver shows no device; see nvidia-smi and CUDA_VISIBLE_DEVICES");
	default:
		return error_set(-ENODEV, "the NVIDIA driver did not start: %s", cudaGetErrorName(result));
	}
}

static int entry_points_load(void)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void       *function = NULL;
		cudaError_t result = entry_point(functions[i].name, functions[i].version, &function);

		if (result != cudaSuccess && functions[i].optional)
			continue;
		if (result != cudaSuccess)
			return entry_points_failed(result, functions[i].name);
		*(void **)((char *)&cuda + functions[i].offset) = function;
	}
	return 0;
}

static int driver_init(void)
{
	int      count = 0;
	CUresult result = cuda.Init(0);

	if (result == CUDA_SUCCESS)
		result = cuda.DeviceGetCount(&count);
	if (result != CUDA_SUCCESS)
		return cuda_error(result, "starting CUDA");
	if (count == 0)
		return error_set(-ENODEV, "CUDA shows no device; see nvidia-smi and CUDA_VISIBLE_DEVICES");
	device_count = count < DEVICE_MAX ? count : DEVICE_MAX;
	return 0;
}

/* The entry points come through the runtime: its last error is put right where it was clean before. */
int cuda_driver_load(void)
{
	cudaError_t before = cudaPeekAtLastError();
	int         rc = entry_points_load();

	/* also of an optional one that was not found */
	if (before == cudaSuccess)
		(void)cudaGetLastError();
	return rc ? rc : driver_init();
}

int cuda_count(void)
{
	return device_count;
}

int cuda_check_ordinal(int ordinal)
{
	if (ordinal >= 0 && ordinal < device_count)
		return 0;
	return error_set(-ENODEV, "there is no CUDA device %d in this process; it sees %d", ordinal, device_count);
}

/* ---- errors ---- */

/* Anything not listed is -EIO: most are sticky, and this process's context is then lost. */
static const struct {
	CUresult    result;
	int         code;
	const char *mend;
} errors[] = {
	{ CUDA_ERROR_INVALID_VALUE, -EINVAL, "an argument is out of the device's range" },
	{ CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM, "the device is full: free or trim something first" },
	{ CUDA_ERROR_NOT_INITIALIZED, -ENOTSUP, "CUDA was started before this process was forked: fork first" },
	{ CUDA_ERROR_DEINITIALIZED, -EIO, "the process is exiting" },
	{ CUDA_ERROR_STUB_LIBRARY, -ENODEV, "the stub libcuda was found: take its directory off LD_LIBRARY_PATH" },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, -ENODEV, "the device is busy or in exclusive mode: see nvidia-smi -c" },
	{ CUDA_ERROR_NO_DEVICE, -ENODEV, "see nvidia-smi and CUDA_VISIBLE_DEVICES" },
	{ CUDA_ERROR_INVALID_DEVICE, -ENODEV, "this process sees no such device" },
	{ CUDA_ERROR_DEVICE_NOT_LICENSED, -ENODEV, "the device has no licence" },
	{ CUDA_ERROR_INVALID_IMAGE, -ENOEXEC, "the file is not a fatbin, cubin or PTX" },
	{ CUDA_ERROR_INVALID_CONTEXT, -EINVAL, "no context, or another than the one that it belongs to" },
	{ CUDA_ERROR_NO_BINARY_FOR_GPU, -ENOEXEC, "compile it for this GPU's architecture, or with PTX" },
	{ CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, -ENODEV, "the device cannot reach the memory's device" },
	{ CUDA_ERROR_INVALID_PTX, -ENOEXEC, "the PTX does not compile" },
	{ CUDA_ERROR_JIT_COMPILER_NOT_FOUND, -ENOEXEC, "the driver's PTX compiler is not installed" },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, -ENOEXEC, "the PTX is newer than the driver: update the driver" },
	{ CUDA_ERROR_JIT_COMPILATION_DISABLED, -ENOEXEC, "unset CUDA_DISABLE_PTX_JIT" },
	{ CUDA_ERROR_INVALID_SOURCE, -ENOEXEC, "the file is not device code" },
	{ CUDA_ERROR_FILE_NOT_FOUND, -ENOENT, "no such file" },
	{ CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, -ENOENT, "a symbol that it needs is not there" },
	{ CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, -ENOEXEC, "the driver could not load it" },
	{ CUDA_ERROR_INVALID_HANDLE, -EINVAL, "the stream or handle does not belong to this device" },
	{ CUDA_ERROR_NOT_FOUND, -ENOENT, "no such symbol; is it declared extern \"C\"?" },
	{ CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, -EINVAL, "the block is too large for the kernel's registers or memory" },
	{ CUDA_ERROR_TOO_MANY_PEERS, -ENODEV, "the device has no peer connection left" },
	{ CUDA_ERROR_NOT_PERMITTED, -EPERM, "the driver does not permit it here" },
	{ CUDA_ERROR_NOT_SUPPORTED, -ENOTSUP, "the device or the platform does not support it" },
	{ CUDA_ERROR_SYSTEM_NOT_READY, -ENODEV, "the system is not ready: is nvidia-fabricmanager running?" },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, -ENODEV, "libcuda and the kernel module differ: reboot or reinstall" },
	{ CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, -ENODEV, "the device takes no forward-compatible libcuda" },
	{ CUDA_ERROR_MPS_CONNECTION_FAILED, -ENODEV, "the MPS daemon does not answer: see CUDA_MPS_PIPE_DIRECTORY" },
	{ CUDA_ERROR_MPS_SERVER_NOT_READY, -EAGAIN, "the MPS server is restarting: try again" },
	{ CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, -EUSERS, "the MPS server takes no more clients" },
	{ CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, -EUSERS, "the MPS server takes no more connections" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, -EBUSY, "the stream is being captured into a graph" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, -EBUSY, "the stream's capture was invalidated: end it first" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, -EBUSY,
	  "a blocking stream is being captured, and the legacy stream cannot be used meanwhile" },
};

static const char *error_name(CUresult result)
{
	const char *name = NULL;

	if (!cuda.GetErrorName || cuda.GetErrorName(result, &name) != CUDA_SUCCESS || !name)
		return "an unknown CUDA error";
	return name;
}

int cuda_error(CUresult result, const char *format, ...)
{
	char        what[160];
	int         code = -EIO;
	const char *mend = "this process's context is lost if a kernel failed: look for the first failure, and restart";
	va_list     arguments;

	if (result == CUDA_SUCCESS)
		return 0;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].result == result) {
			code = errors[i].code;
			mend = errors[i].mend;
		}
	}
	return error_set(code, "%s failed: %s (%s)", what, error_name(result), mend);
}

/* ---- contexts ---- */

/* Runs inside a guard: the first retain makes the context, which a capture elsewhere must not notice. */
static int primary_retain(int ordinal, CUcontext *primary)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&primaries_lock);
	*primary = atomic_load(&primaries[ordinal]);
	if (!*primary) {
		result = cuda.DevicePrimaryCtxRetain(primary, ordinal);
		if (result == CUDA_SUCCESS)
			atomic_store(&primaries[ordinal], *primary);
	}
	pthread_mutex_unlock(&primaries_lock);
	return cuda_error(result, "making a context on device %d", ordinal);
}

static int primary_get(int ordinal, CUcontext *primary)
{
	*primary = NULL;
	if (cuda_check_ordinal(ordinal))
		return -ENODEV;
	*primary = atomic_load_explicit(&primaries[ordinal], memory_order_acquire);
	return *primary ? 0 : primary_retain(ordinal, primary);
}

static int scope_push(struct cuda_scope *scope, CUcontext context)
{
	CUcontext current = NULL;
	CUresult  result = cuda.CtxGetCurrent(&current);

	if (result == CUDA_SUCCESS && current == context)
		return 0;
	result = cuda.CtxPushCurrent(context);
	scope->pushed = result == CUDA_SUCCESS;
	return cuda_error(result, "entering a context");
}

int cuda_enter_relaxed(struct cuda_scope *scope)
{
	CUresult result;

	if (device_cuda_forked())
		return error_set(-ENOTSUP, "CUDA was started before this process was forked; it cannot work here");
	scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	result = cuda.ThreadExchangeStreamCaptureMode(&scope->mode);
	scope->entered = result == CUDA_SUCCESS;
	return cuda_error(result, "changing the thread's capture mode");
}

int cuda_enter(struct cuda_scope *scope, int ordinal)
{
	CUcontext primary;
	int       rc = cuda_enter_relaxed(scope);

	if (!rc)
		rc = primary_get(ordinal, &primary);
	return rc ? rc : scope_push(scope, primary);
}

int cuda_enter_stream(struct cuda_scope *scope, CUstream stream)
{
	CUcontext context = NULL;
	CUresult  result;
	int       rc = cuda_enter_relaxed(scope);

	if (rc)
		return rc;
	result = cuda.StreamGetCtx(stream, &context);
	if (result == CUDA_ERROR_INVALID_CONTEXT) /* documented: a special stream and no current context */
		rc = primary_get(0, &context);
	else
		rc = cuda_error(result, "looking at the stream");
	return rc ? rc : scope_push(scope, context);
}

void cuda_leave(struct cuda_scope *scope)
{
	CUcontext popped;

	if (scope->pushed)
		(void)cuda.CtxPopCurrent(&popped);
	if (scope->entered)
		(void)cuda.ThreadExchangeStreamCaptureMode(&scope->mode);
	scope->pushed = scope->entered = false;
}

int cuda_current(void)
{
	CUdevice device;

	/* since CUDA 12.0 cudaSetDevice() makes the context current at once, so this sees it */
	return cuda.CtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

int cuda_set_current(int ordinal)
{
	CUcontext primary;
	int       rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter_relaxed(&scope);
	if (!rc)
		rc = primary_get(ordinal, &primary);
	return rc ? rc : cuda_error(cuda.CtxSetCurrent(primary), "making device %d current", ordinal);
}

static bool primary_active(int ordinal)
{
	unsigned int flags;
	int          active = 0;

	return cuda.DevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active;
}

int cuda_home(void)
{
	CUdevice device;

	if (cuda.CtxGetDevice(&device) == CUDA_SUCCESS)
		return device;
	for (int i = 0; i < device_count; i++) {
		if (atomic_load(&primaries[i]))
			return i;
	}
	for (int i = 0; i < device_count; i++) {
		if (primary_active(i))
			return i;
	}
	return 0;
}
