/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-driver.c - the driver's start, its errors, and the context that a call runs in.
 *
 * Owns one reference to the primary context of each device that was used. Never releases a context, because mappings
 * and streams live in the context until the process ends. Never changes the calling thread's context except in
 * cuda_set_current().
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/error.h"
#include "device/cuda.h"

static int                device_count;
static _Atomic(CUcontext) primaries[DEVICE_MAX]; /* retained primary context of each device; NULL: not used yet */
/* id of the primary context of each device; a reset of the device changes the id, but not the context's handle */
static _Atomic uint64_t   epochs[DEVICE_MAX];
static pthread_mutex_t    primaries_lock = PTHREAD_MUTEX_INITIALIZER; /* held while a context is made */
static void (*renew_after_reset)(int ordinal, CUcontext primary);

/* ---- errors ---- */

/*
 * Errno and hint for results of the driver. Results that are not listed are -EIO, because most of them are sticky:
 * every later call fails.
 */
static const struct cuda_row {
	CUresult    result;
	int         code;
	const char *hint;
} errors[] = {
	{ CUDA_ERROR_INVALID_VALUE, -EINVAL, "an argument is out of the device's range" },
	{ CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM,
	  "the device is full, or this process's limit under MPS is reached: free or trim something first" },
	{ CUDA_ERROR_NOT_INITIALIZED, -ENOTSUP, "CUDA was started before this process was forked: fork first" },
	{ CUDA_ERROR_DEINITIALIZED, -EIO, "the process is exiting" },
	{ CUDA_ERROR_STUB_LIBRARY, -EIO, "the stub libcuda was found: take its directory off LD_LIBRARY_PATH" },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, -EIO, "the device is busy or in exclusive mode: see nvidia-smi -c" },
	{ CUDA_ERROR_INVALID_DEVICE, -ENODEV,
	  "the driver shows no such device: see nvidia-smi and CUDA_VISIBLE_DEVICES" },
	{ CUDA_ERROR_DEVICE_NOT_LICENSED, -EIO, "the device has no licence: see nvidia-smi -q" },
	{ CUDA_ERROR_INVALID_IMAGE, -ENOEXEC, "the file is not a fatbin, cubin or PTX" },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, -EIO, "the device was reset: make streams and acquire leases again" },
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
	{ CUDA_ERROR_OPERATING_SYSTEM, -EIO,
	  "the kernel refused the driver: may this process open /dev/nvidia*, and what does the kernel's log say?" },
	{ CUDA_ERROR_INVALID_HANDLE, -EINVAL, "the stream or handle does not belong to this device" },
	{ CUDA_ERROR_NOT_FOUND, -ENOENT, "no such symbol; is it declared extern \"C\"?" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, -EIO,
	  "a kernel used memory that is not mapped here, or, under MPS, another client of the server died in a kernel: "
	  "restart this process" },
	{ CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, -EINVAL, "the block is too large for the kernel's registers or memory" },
	{ CUDA_ERROR_TOO_MANY_PEERS, -ENODEV, "the device has no peer connection left" },
	{ CUDA_ERROR_NOT_PERMITTED, -EPERM, "the driver does not permit it here" },
	{ CUDA_ERROR_NOT_SUPPORTED, -ENOTSUP, "the device or the platform does not support it" },
	{ CUDA_ERROR_SYSTEM_NOT_READY, -EIO,
	  "the system is not ready: is nvidia-fabricmanager running, in the driver's version?" },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, -EIO,
	  "libcuda and the kernel module are of different versions: reboot, or reinstall the driver" },
	{ CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, -EIO,
	  "the device takes no forward-compatible libcuda: take its directory off LD_LIBRARY_PATH, or update the "
	  "driver" },
	{ CUDA_ERROR_MPS_CONNECTION_FAILED, -EIO, "the MPS daemon does not answer: see CUDA_MPS_PIPE_DIRECTORY" },
	{ CUDA_ERROR_MPS_RPC_FAILURE, -EIO, "the MPS daemon or its server has ended: restart this process" },
	{ CUDA_ERROR_MPS_SERVER_NOT_READY, -EBUSY, "the MPS server is restarting: try again" },
	{ CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, -EUSERS,
	  "the MPS server takes no more clients: end some, or run this one without MPS" },
	{ CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, -EUSERS,
	  "the MPS server has no connection left: lower CUDA_DEVICE_MAX_CONNECTIONS of its clients, or end some" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, -EBUSY, "the stream is being captured into a graph" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, -EBUSY, "the stream's capture was invalidated: end it first" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, -EBUSY,
	  "a blocking stream is being captured, and the legacy stream cannot be used meanwhile" },
};

static const struct cuda_row *error_find(CUresult result)
{
	static const struct cuda_row unlisted = {
		.code = -EIO, .hint = "see nvidia-smi and the kernel's log; after a failed kernel restart this process"
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].result == result)
			return &errors[i];
	return &unlisted;
}

int cuda_error(CUresult result, const char *format, ...)
{
	const struct cuda_row *row;
	const char            *name = NULL;
	char                   what[160];
	va_list                arguments;

	if (result == CUDA_SUCCESS)
		return 0;
	row = error_find(result);
	if (!cuda.GetErrorName || cuda.GetErrorName(result, &name) != CUDA_SUCCESS || !name)
		name = "an unknown CUDA error";
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return error_set(row->code, "%s failed: %s (%s)", what, name, row->hint);
}

/* ---- start ---- */

static int driver_init(void)
{
	int      count = 0, rc;
	CUresult result = cuda.Init(0);

	if (result == CUDA_SUCCESS)
		result = cuda.DeviceGetCount(&count);
	if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && count == 0))
		return error_set(-ENODEV, "CUDA shows no device: see nvidia-smi and CUDA_VISIBLE_DEVICES, and whether "
					  "this process may open /dev/nvidiactl");
	rc = cuda_error(result, "starting CUDA");
	if (rc) /* does not return -ENODEV, which means that the machine has no driver or no device */
		return rc == -ENODEV ? -EIO : rc;
	device_count = count < DEVICE_MAX ? count : DEVICE_MAX;
	return 0;
}

int cuda_driver_load(void (*renew)(int ordinal, CUcontext primary))
{
	int rc = cuda_library_load();

	renew_after_reset = renew;
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
	return error_set(-ENODEV, "there is no CUDA device %d in this process: it sees %d, numbered from 0", ordinal,
			 device_count);
}

/* ---- contexts ---- */

/*
 * Returns false if the device was reset since its primary context was retained. After a reset the context has the same
 * handle, but no id or, once the device was used again, another id (docs/facts.md). Other errors of cuCtxGetId do not
 * mean a reset.
 */
static bool primary_is_unchanged(int ordinal, CUcontext primary)
{
	unsigned long long id;
	CUresult           result = cuda.CtxGetId(primary, &id);

	if (result != CUDA_SUCCESS)
		return result != CUDA_ERROR_CONTEXT_IS_DESTROYED && result != CUDA_ERROR_INVALID_CONTEXT;
	return id == atomic_load_explicit(&epochs[ordinal], memory_order_acquire);
}

/*
 * Retains the device's primary context and stores its id. If the device was reset, so that the id is another than
 * before, calls renew_after_reset(). A retain waits for a reset in progress, so a context with the new id has no work
 * from before the reset. Call it under primaries_lock.
 */
static CUresult primary_retain_locked(int ordinal)
{
	unsigned long long id = 0;
	CUcontext          primary = NULL;
	CUresult           result = cuda.DevicePrimaryCtxRetain(&primary, ordinal);

	if (result == CUDA_SUCCESS)
		result = cuda.CtxGetId(primary, &id);
	if (result != CUDA_SUCCESS)
		return result;
	if (atomic_load(&primaries[ordinal]) && atomic_load(&epochs[ordinal]) != id)
		renew_after_reset(ordinal, primary);
	atomic_store(&epochs[ordinal], id);
	atomic_store(&primaries[ordinal], primary);
	return CUDA_SUCCESS;
}

/*
 * Retains the device's primary context, unless it is retained and the device was not reset since. Call it inside a
 * guard, because making a context would disturb captures.
 */
static int primary_retain(int ordinal)
{
	CUcontext primary;
	CUresult  result = CUDA_SUCCESS;

	pthread_mutex_lock(&primaries_lock);
	primary = atomic_load(&primaries[ordinal]);
	if (!primary || !primary_is_unchanged(ordinal, primary))
		result = primary_retain_locked(ordinal);
	pthread_mutex_unlock(&primaries_lock);
	return cuda_error(result, "making a context on device %d", ordinal);
}

static int primary_get(int ordinal, CUcontext *primary)
{
	int rc = 0;

	*primary = NULL;
	if (cuda_check_ordinal(ordinal))
		return -ENODEV;
	*primary = atomic_load_explicit(&primaries[ordinal], memory_order_acquire);
	if (*primary && primary_is_unchanged(ordinal, *primary))
		return 0;
	rc = primary_retain(ordinal);
	*primary = atomic_load(&primaries[ordinal]);
	return rc;
}

static __attribute__((noinline)) uint64_t epoch_after_reset(int ordinal)
{
	struct saved_error why;
	CUDA_SCOPE(scope);

	if (!cuda_enter_relaxed(&scope) && !primary_retain(ordinal))
		return atomic_load(&epochs[ordinal]);
	why = error_save();
	error_set(-EIO, "device %d was reset, and cannot be used again: %s", ordinal, why.text);
	return 0;
}

uint64_t cuda_epoch(int ordinal)
{
	CUcontext primary = atomic_load_explicit(&primaries[ordinal], memory_order_acquire);

	if (!primary || __builtin_expect(primary_is_unchanged(ordinal, primary), 1))
		return atomic_load_explicit(&epochs[ordinal], memory_order_relaxed);
	return epoch_after_reset(ordinal);
}

void cuda_notice_resets(void)
{
	for (int i = 0; i < device_count; i++)
		(void)cuda_epoch(i);
}

/* Makes the context current, by a push if another context is. scope->pushed: whether it was pushed. */
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

static CUresult scope_relax(struct cuda_scope *scope)
{
	CUresult result;

	scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	result = cuda.ThreadExchangeStreamCaptureMode(&scope->mode);
	scope->entered = result == CUDA_SUCCESS;
	return result;
}

/*
 * Makes the context current. Then sets the relaxed capture mode, if cuda_enter_relaxed() could not, because the
 * thread's own context, which was current, had been reset.
 */
static int scope_enter(struct cuda_scope *scope, CUcontext context)
{
	int rc = scope_push(scope, context);

	if (!rc && !scope->entered)
		(void)scope_relax(scope);
	return rc;
}

int cuda_enter_relaxed(struct cuda_scope *scope)
{
	CUresult result;

	if (device_cuda_forked())
		return error_set(-ENOTSUP, "CUDA was started before this process was forked; it cannot work here");
	result = scope_relax(scope);
	/* the thread's own context was reset, which has ended captures in it */
	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return 0;
	return cuda_error(result, "changing the thread's capture mode");
}

int cuda_enter(struct cuda_scope *scope, int ordinal)
{
	CUcontext primary;
	int       rc = cuda_enter_relaxed(scope);

	if (!rc)
		rc = primary_get(ordinal, &primary);
	return rc ? rc : scope_enter(scope, primary);
}

/*
 * Stores the stream's context. A special stream belongs to the current context. The driver is not asked about a special
 * stream, because a call on the legacy stream while a blocking stream is being captured would invalidate that capture,
 * also in relaxed mode (docs/facts.md).
 */
static CUresult stream_context(CUstream stream, CUcontext *context)
{
	return cuda_stream_is_special(stream) ? cuda.CtxGetCurrent(context) : cuda.StreamGetCtx(stream, context);
}

int cuda_enter_stream(struct cuda_scope *scope, CUstream stream)
{
	CUcontext context = NULL;
	int       rc = cuda_enter_relaxed(scope);

	if (!rc)
		rc = cuda_error(stream_context(stream, &context), "looking at the stream");
	if (!rc && !context)
		rc = primary_get(0, &context);
	return rc ? rc : scope_enter(scope, context);
}

void cuda_leave(struct cuda_scope *scope)
{
	CUcontext popped;

	if (scope->entered) /* called before the pop, because it fails while a context that was destroyed is current */
		(void)cuda.ThreadExchangeStreamCaptureMode(&scope->mode);
	if (scope->pushed)
		(void)cuda.CtxPopCurrent(&popped);
	scope->pushed = scope->entered = false;
}

/*
 * Returns the device of the current context, by the handles in primaries, because the driver may not tell the device of
 * a context that was reset. 0: no device is known for it.
 */
static int current_after_reset(void)
{
	CUcontext current = NULL;

	(void)cuda.CtxGetCurrent(&current);
	for (int i = 0; current && i < device_count; i++)
		if (atomic_load(&primaries[i]) == current)
			return i;
	return 0;
}

/*
 * Stores the device of the current context. False: no context is current, or the driver does not tell its device, as
 * after a reset. Without a current context the driver is not asked for the device, because the call would be an API
 * error, which tools such as compute-sanitizer count.
 */
static bool current_device(CUdevice *device)
{
	CUcontext current = NULL;

	return cuda.CtxGetCurrent(&current) == CUDA_SUCCESS && current && cuda.CtxGetDevice(device) == CUDA_SUCCESS;
}

int cuda_current(void)
{
	CUdevice device;

	/* since CUDA 12.0 cudaSetDevice() makes the device's context current at once */
	return current_device(&device) ? device : current_after_reset();
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

bool cuda_in_use(int ordinal)
{
	return atomic_load(&primaries[ordinal]) || primary_active(ordinal);
}

int cuda_home(void)
{
	CUdevice device;

	if (current_device(&device))
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
