/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-module.c - files of kernels: loaded when they are opened, launched anywhere, unloaded behind their work.
 *
 * Loading waits for what runs on the devices, also for a stream that is parked in a wait (facts.md, "Loading"), and CUDA puts
 * it off until a kernel is first looked at or launched. So it has two places here, cuda_module_load() for the devices that
 * are in use by then and cuda_module_ready() for one that comes into use later: look-ups and launches there load nothing.
 *
 * Owns for each module its CUlibrary (which belongs to no context), the kernels handed out, and an event for
 * each stream that it is busy on. The event is recorded behind every launch, and unloading waits for those
 * events: a synchronisation of the whole context would wait for strangers, and is not allowed while any of
 * its streams is being captured (CUDA programming guide, "Prohibited and Unhandled Operations").
 *
 * Never knows of a replay: a launch that was captured runs again with its graph, so the graph must be gone
 * before the module is. Never launches and unloads at once: the caller keeps these apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "device/cuda.h"

#define SHARED_BYTES_PLAIN (48u << 10) /* more dynamic shared memory needs the kernel's attribute (cuda.h) */

#define FENCES_FRESH 16 /* so many events are made before idle ones are looked for */

/*
 * The last launch of a module on one stream, which is known by its id: handles are used again by the driver,
 * and the per-thread stream has one handle for many streams. So is its context: a reset of the device makes another with the same
 * handle, and the event of a context that is gone must not be touched (facts.md).
 */
struct fence {
	struct fence      *next;
	unsigned long long stream, context;
	int                ordinal;
	CUevent            event;
	atomic_uint        users; /* launches that have yet to record it: it stays theirs */
	_Atomic(CUresult)  unmarked; /* why a launch could not be marked: nobody knows when that one ends */
};

struct kernel {
	struct kernel *next;
	struct module *module;
	CUkernel       handle;
	bool           counted; /* the driver said how many parameters there are */
	size_t         params;
	atomic_int     first; /* not counted: 1 it has a parameter, -1 none, or the driver cannot say; 0 not asked yet */
	_Atomic uint64_t shared_bytes[DEVICE_MAX]; /* dynamic shared memory allowed so far, and in which context (shared_in) */
	char           symbol[];
};

struct module {
	CUlibrary       library;
	CUkernel       *listed; /* all kernels of the file; NULL where the driver cannot list them (before 12.4) */
	unsigned        listed_count;
	_Atomic uint64_t ready[DEVICE_MAX]; /* the id of the context that it was loaded into, or is being loaded */
	pthread_mutex_t  loading[DEVICE_MAX]; /* over a load, which waits for what runs; no look-up and no launch takes it */
	pthread_mutex_t lock; /* kernels, fences, shared_bytes; never held over a launch or a wait */
	struct kernel  *kernels;
	struct fence   *fences;
	unsigned        fence_count;
};

static void locks_init(struct module *module)
{
	pthread_mutex_init(&module->lock, NULL);
	for (int i = 0; i < DEVICE_MAX; i++)
		pthread_mutex_init(&module->loading[i], NULL);
}

static void locks_destroy(struct module *module)
{
	for (int i = 0; i < DEVICE_MAX; i++)
		pthread_mutex_destroy(&module->loading[i]);
	pthread_mutex_destroy(&module->lock);
}

/* ---- loading ---- */

/* In the current context. Before 12.4 it is the function's handle that loads it. */
static CUresult function_load(CUkernel kernel)
{
	CUfunction function;
	CUresult   result = cuda.KernelGetFunction(&function, kernel);

	return result == CUDA_SUCCESS && cuda.FuncLoad ? cuda.FuncLoad(function) : result;
}

/* Of the kernels that are looked up meanwhile each is loaded by who looks it up (kernel_load). */
static struct kernel *kernels_known(struct module *module)
{
	struct kernel *kernels;

	pthread_mutex_lock(&module->lock);
	kernels = module->kernels;
	pthread_mutex_unlock(&module->lock);
	return kernels;
}

static CUresult functions_load(struct module *module)
{
	CUmodule loaded;
	CUresult result = cuda.LibraryGetModule(&loaded, module->library);

	for (unsigned i = 0; module->listed && i < module->listed_count && result == CUDA_SUCCESS; i++)
		result = function_load(module->listed[i]);
	for (struct kernel *kernel = module->listed ? NULL : kernels_known(module); kernel && result == CUDA_SUCCESS;
	     kernel = kernel->next)
		result = function_load(kernel->handle);
	return result;
}

/* In the current context. */
static int module_load_locked(struct module *module, int ordinal)
{
	uint64_t context = cuda_context_id();
	int      rc;

	if (context && atomic_exchange(&module->ready[ordinal], context) == context)
		return 0;
	rc = cuda_error(functions_load(module), "loading the module on device %d", ordinal);
	if (rc)
		atomic_store(&module->ready[ordinal], 0);
	return rc;
}

/* Where another thread is loading it, this one waits for that: whoever is told "ready" may park a stream. */
int cuda_module_ready(void *pointer, int ordinal)
{
	struct module *module = pointer;
	int            rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	pthread_mutex_lock(&module->loading[ordinal]);
	rc = module_load_locked(module, ordinal);
	pthread_mutex_unlock(&module->loading[ordinal]);
	return rc;
}

/* A device that it cannot be loaded on is none to launch it on, which the launch says; but one there must be. */
static int load_in_use(struct module *module)
{
	bool loaded = false;
	int  failed = 0;

	for (int i = 0; i < cuda_count(); i++) {
		int rc = cuda_in_use(i) ? cuda_module_ready(module, i) : 0;

		loaded = loaded || (!rc && atomic_load(&module->ready[i]));
		failed = failed ? failed : rc;
	}
	return loaded ? 0 : failed;
}

static void kernels_list(struct module *module)
{
	unsigned count = 0;

	if (!cuda.LibraryGetKernelCount || !cuda.LibraryEnumerateKernels ||
	    cuda.LibraryGetKernelCount(&count, module->library) != CUDA_SUCCESS)
		return;
	module->listed = calloc(count, sizeof(*module->listed));
	if (!module->listed)
		return;
	if (cuda.LibraryEnumerateKernels(module->listed, count, module->library) == CUDA_SUCCESS) {
		module->listed_count = count;
		return;
	}
	free(module->listed);
	module->listed = NULL;
}

static int library_load(struct module *module, const char *path)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter_relaxed(&scope);
	if (!rc)
		rc = cuda_error(cuda.LibraryLoadFromFile(&module->library, path, NULL, NULL, 0, NULL, NULL, 0),
				"loading the module %s", path);
	if (!rc)
		kernels_list(module);
	return rc;
}

static int library_unload(struct module *module)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter_relaxed(&scope);
	return rc ? rc : cuda_error(cuda.LibraryUnload(module->library), "unloading the module");
}

int cuda_module_load(const char *path, void **module)
{
	struct module *made;
	int            rc;

	if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS))
		return error_set(-errno, "the module %s cannot be read: %s", path, strerror(errno));
	made = calloc(1, sizeof(*made));
	if (!made)
		return error_set(-ENOMEM, "no memory for a module");
	locks_init(made);
	rc = library_load(made, path);
	if (rc)
		goto free_module;
	rc = load_in_use(made);
	if (rc)
		goto unload_library;
	*module = made;
	return 0;

unload_library: {
	KEEP_ERROR();

	(void)library_unload(made);
}
free_module:
	locks_destroy(made);
	free(made->listed);
	free(made);
	return rc == -EINVAL ? -ENOEXEC : rc; /* the driver calls a file that it cannot make out that, too */
}

static struct kernel *kernel_find(struct module *module, const char *symbol)
{
	struct kernel *kernel = module->kernels;

	while (kernel && strcmp(kernel->symbol, symbol))
		kernel = kernel->next;
	return kernel;
}

static int kernel_make(struct module *module, const char *symbol, struct kernel **made)
{
	size_t         length = strlen(symbol) + 1;
	struct kernel *kernel = calloc(1, sizeof(*kernel) + length);
	int            rc;
	CUDA_SCOPE(scope);

	if (!kernel)
		return error_set(-ENOMEM, "no memory for a kernel");
	memcpy(kernel->symbol, symbol, length);
	kernel->module = module;
	rc = cuda_enter_relaxed(&scope);
	if (!rc)
		rc = cuda_error(cuda.LibraryGetKernel(&kernel->handle, module->library, symbol),
				"looking for the kernel %s", symbol);
	if (rc) {
		free(kernel);
		return rc;
	}
	kernel->counted = cuda.KernelGetParamCount &&
			  cuda.KernelGetParamCount(kernel->handle, &kernel->params) == CUDA_SUCCESS;
	*made = kernel;
	return 0;
}

/* The one that is there already, if another thread was first. */
static struct kernel *kernel_add(struct module *module, struct kernel *made)
{
	struct kernel *found;

	pthread_mutex_lock(&module->lock);
	found = kernel_find(module, made->symbol);
	if (!found) {
		made->next = module->kernels;
		module->kernels = made;
	}
	pthread_mutex_unlock(&module->lock);
	if (found)
		free(made);
	return found ? found : made;
}

/* What the driver could not list is loaded when it is looked up, on the devices where its module is, and no reset has unloaded it. */
static void kernel_load(const struct module *module, CUkernel handle)
{
	for (int i = 0; i < cuda_count() && !module->listed; i++) {
		CUDA_SCOPE(scope);

		if (atomic_load(&module->ready[i]) && !cuda_enter(&scope, i) && atomic_load(&module->ready[i]) == cuda_context_id())
			(void)function_load(handle); /* the launch says what is wrong */
	}
}

/* Asked for again, a kernel is the same: copies and repeats cost nothing and live as long as the module. */
int cuda_module_kernel(void *pointer, const char *symbol, void **kernel)
{
	struct module *module = pointer;
	struct kernel *found, *made = NULL;
	int            rc;

	pthread_mutex_lock(&module->lock);
	found = kernel_find(module, symbol);
	pthread_mutex_unlock(&module->lock);
	if (!found) {
		rc = kernel_make(module, symbol, &made);
		if (rc)
			return rc;
		found = kernel_add(module, made);
		kernel_load(module, found->handle);
	}
	*kernel = found;
	return 0;
}

/* Managed memory exists once the library is loaded in some context (cuda.h): asking for the module loads it. */
int cuda_module_managed(void *pointer, const char *symbol, void **ptr, size_t *size)
{
	struct module *module = pointer;
	CUmodule       loaded;
	CUdeviceptr    address;
	size_t         bytes;
	int            rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, cuda_home());
	if (!rc)
		rc = cuda_error(cuda.LibraryGetModule(&loaded, module->library), "loading the module");
	if (!rc)
		rc = cuda_error(cuda.LibraryGetManaged(&address, &bytes, module->library, symbol),
				"looking for the __managed__ variable %s", symbol);
	if (rc)
		return rc;
	*ptr = (void *)(uintptr_t)address;
	*size = bytes;
	return 0;
}

/* ---- launching ---- */

static struct fence *fence_find(struct module *module, unsigned long long context, unsigned long long stream)
{
	struct fence *fence = module->fences;

	while (fence && (fence->stream != stream || fence->context != context))
		fence = fence->next;
	return fence;
}

/* One whose launches are all complete, so that a program with ever new streams keeps few events. */
static struct fence *fence_find_idle(struct module *module, unsigned long long context)
{
	struct fence *fence = module->fence_count < FENCES_FRESH ? NULL : module->fences;

	while (fence && (fence->context != context || atomic_load(&fence->users) ||
			 atomic_load(&fence->unmarked) != CUDA_SUCCESS || cuda.EventQuery(fence->event) != CUDA_SUCCESS))
		fence = fence->next;
	return fence;
}

/* In the stream's context: event and stream must be of one. */
static int fence_make(struct module *module, int ordinal, struct fence **made)
{
	struct fence *fence = calloc(1, sizeof(*fence));
	int           rc;

	if (!fence)
		return error_set(-ENOMEM, "no memory for a launch");
	rc = cuda_error(cuda.EventCreate(&fence->event, CU_EVENT_DISABLE_TIMING), "making an event");
	if (rc) {
		free(fence);
		return rc;
	}
	fence->ordinal = ordinal;
	fence->next = module->fences;
	module->fences = *made = fence;
	module->fence_count++;
	return 0;
}

static int fence_take_locked(struct module *module, int ordinal, unsigned long long stream, struct fence **fence)
{
	unsigned long long context = cuda_context_id();
	int                rc = 0;

	*fence = fence_find(module, context, stream);
	if (!*fence)
		*fence = fence_find_idle(module, context);
	if (!*fence)
		rc = fence_make(module, ordinal, fence);
	if (rc)
		return rc;
	(*fence)->context = context;
	(*fence)->stream = stream;
	atomic_fetch_add(&(*fence)->users, 1);
	return 0;
}

static int fence_take(struct module *module, int ordinal, CUstream stream, struct fence **fence)
{
	unsigned long long id;
	int                rc = cuda_error(cuda.StreamGetId(stream, &id), "looking at the stream");

	if (rc)
		return rc;
	pthread_mutex_lock(&module->lock);
	rc = fence_take_locked(module, ordinal, id, fence);
	pthread_mutex_unlock(&module->lock);
	return rc;
}

/* One word, so that the two change together. Nothing that was set in a context that was reset counts in the next one. */
static uint64_t shared_in(unsigned long long context, uint32_t bytes)
{
	return context << 32 | bytes;
}

static bool shared_bytes_allowed(uint64_t allowed, unsigned long long context, uint32_t bytes)
{
	return allowed >> 32 == (uint32_t)context && (uint32_t)allowed >= bytes;
}

/* The attribute is the kernel's, not the launch's: it only grows, so that no thread takes another's away. */
static CUresult shared_bytes_raise(struct kernel *kernel, int ordinal, unsigned long long context, uint32_t bytes)
{
	CUresult result = CUDA_SUCCESS;

	if (bytes > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&kernel->module->lock);
	if (!shared_bytes_allowed(atomic_load(&kernel->shared_bytes[ordinal]), context, bytes)) {
		result = cuda.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes,
						 kernel->handle, ordinal);
		if (result == CUDA_SUCCESS)
			atomic_store(&kernel->shared_bytes[ordinal], shared_in(context, bytes));
	}
	pthread_mutex_unlock(&kernel->module->lock);
	return result;
}

/* In the device's context. */
static CUresult shared_bytes_allow(struct kernel *kernel, const gpub_launch_config *config)
{
	unsigned long long context;

	if (config->shared_bytes <= SHARED_BYTES_PLAIN)
		return CUDA_SUCCESS;
	context = cuda_context_id();
	if (shared_bytes_allowed(atomic_load(&kernel->shared_bytes[config->device]), context, config->shared_bytes))
		return CUDA_SUCCESS;
	return shared_bytes_raise(kernel, config->device, context, config->shared_bytes);
}

/* cuda.h, cuLaunchKernel: a CUkernel may be passed so; the context is the stream's, or the current one. */
static int launch(struct kernel *kernel, const gpub_launch_config *config, void **args)
{
	CUresult result = shared_bytes_allow(kernel, config);

	if (result == CUDA_SUCCESS)
		result = cuda.LaunchKernel((CUfunction)kernel->handle, config->grid[0], config->grid[1], config->grid[2],
					   config->block[0], config->block[1], config->block[2],
					   config->shared_bytes, config->stream, args, NULL);
	return cuda_error(result, "launching %s on device %d", kernel->symbol, config->device);
}

/*
 * No lock around launch and record: a launch can block on a full queue, and another thread's may be what
 * empties it. Each thread records behind its own launch, so the last record is behind all of them. What was launched is
 * launched, so the call succeeds also where it cannot be marked; then the module stays loaded (fence_wait).
 */
static int launch_fenced(struct kernel *kernel, const gpub_launch_config *config, void **args,
			 struct fence *fence)
{
	int rc = launch(kernel, config, args);

	if (!rc) {
		CUresult result = cuda.EventRecord(fence->event, config->stream);

		if (result != CUDA_SUCCESS)
			atomic_store(&fence->unmarked, result);
	}
	atomic_fetch_sub(&fence->users, 1);
	return rc;
}

static bool has_first(struct kernel *kernel)
{
	int    first = atomic_load(&kernel->first);
	size_t offset, size;

	if (!first) {
		first = cuda.KernelGetParamInfo &&
			cuda.KernelGetParamInfo(kernel->handle, 0, &offset, &size) == CUDA_SUCCESS ? 1 : -1;
		atomic_store(&kernel->first, first);
	}
	return first > 0;
}

/*
 * The driver follows args without a look: with none, or too few, the process would crash. Drivers before 13.2 cannot say how
 * many parameters there are, and to ask for one that is not there is an API error, which tools like compute-sanitizer
 * count. So of those only the first is asked for, and only where args has none.
 */
static int args_check(struct kernel *kernel, void **args)
{
	size_t needed = kernel->params;

	if (!kernel->counted)
		needed = (!args || !args[0]) && has_first(kernel) ? 1 : 0;
	for (size_t i = 0; i < needed; i++)
		if (!args || !args[i])
			return error_set(-EINVAL, "%s has a parameter %zu, and the launch has no args[%zu] for it: point it "
						  "to the value",
					 kernel->symbol, i, i);
	return 0;
}

/* The context that a special stream means to the caller. NULL: that device's own, for another one is current, or none. */
static CUcontext current_on(int ordinal)
{
	CUcontext current = NULL;
	CUdevice  device;

	if (cuda.CtxGetCurrent(&current) != CUDA_SUCCESS || !current)
		return NULL;
	return cuda.CtxGetDevice(&device) == CUDA_SUCCESS && device == ordinal ? current : NULL;
}

/*
 * Enters the primary context of the launch's device, and makes sure that the stream is of it before anything runs. Streams of
 * contexts that the program made are refused: such a context can be destroyed with the events on which the unloading waits.
 */
static int launch_enter(struct cuda_scope *scope, const gpub_launch_config *config)
{
	bool      special = cuda_stream_is_special(config->stream);
	CUcontext context = special ? current_on(config->device) : NULL, primary = NULL;
	int       rc = cuda_enter(scope, config->device);

	if (!rc)
		rc = cuda_error(cuda.CtxGetCurrent(&primary), "looking at the context");
	if (!rc && !special)
		rc = cuda_error(cuda.StreamGetCtx(config->stream, &context), "looking at the stream");
	if (!rc && context && context != primary)
		rc = error_set(-EINVAL, "the stream is not of device %d's primary context, where modules are launched: take one "
					"that gpub_stream_create() or cudaStreamCreate() made on that device", config->device);
	return rc;
}

/* A launch that is captured marks nothing: it runs with its graph. */
int cuda_module_launch(void *pointer, const gpub_launch_config *config, void **args)
{
	struct kernel *kernel = pointer;
	struct fence  *fence;
	bool           captured;
	int            rc;
	CUDA_SCOPE(scope);

	rc = launch_enter(&scope, config);
	if (!rc)
		rc = cuda_stream_captured(config->stream, &captured);
	if (!rc)
		rc = args_check(kernel, args);
	if (rc)
		return rc;
	if (captured)
		return launch(kernel, config, args);
	rc = fence_take(kernel->module, config->device, config->stream, &fence);
	return rc ? rc : launch_fenced(kernel, config, args, fence);
}

/* ---- unloading ---- */

/* An event that was never recorded counts as complete; what ran in a context that was reset has ended. */
static int fence_wait(struct fence *fence)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, fence->ordinal);
	if (rc || cuda_context_id() != fence->context)
		return rc;
	rc = cuda_error(cuda.EventSynchronize(fence->event), "a kernel of the module");
	return rc ? rc : cuda_error(atomic_load(&fence->unmarked), "marking a launch of the module");
}

static int fences_wait(struct module *module)
{
	int rc = 0;

	for (struct fence *fence = module->fences; fence; fence = fence->next) {
		int one = fence_wait(fence);

		rc = rc ? rc : one;
	}
	return rc;
}

static void fence_free(struct fence *fence)
{
	CUDA_SCOPE(scope);

	if (!cuda_enter(&scope, fence->ordinal) && cuda_context_id() == fence->context)
		(void)cuda.EventDestroy(fence->event);
	free(fence);
}

static void fences_free(struct module *module)
{
	for (struct fence *fence = module->fences, *next; fence; fence = next) {
		next = fence->next;
		fence_free(fence);
	}
}

static void kernels_free(struct module *module)
{
	for (struct kernel *kernel = module->kernels, *next; kernel; kernel = next) {
		next = kernel->next;
		free(kernel);
	}
}

/* The module is gone in any case; its code stays loaded where a kernel did not end well. */
int cuda_module_unload(void *pointer)
{
	struct module *module = pointer;
	int            rc = fences_wait(module);

	if (!rc)
		rc = library_unload(module);
	fences_free(module);
	kernels_free(module);
	locks_destroy(module);
	free(module->listed);
	free(module);
	return rc;
}
