/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-module.c - files of kernels: loaded when they are opened, unloaded behind their launches.
 *
 * To load waits for what runs on the devices, also for a stream that is blocked by a wait (facts.md, "Loading"), and CUDA puts
 * it off until a kernel is first looked at or launched. So it has two places here: cuda_module_load() for the devices that
 * are in use by then, and cuda_module_ready() for one that comes into use later. Look-ups and launches there load nothing.
 *
 * Owns for each module its CUlibrary (which belongs to no context), the kernels that were handed out, and its fences
 * (cuda-fence.c). Never launches and unloads at once: the caller keeps these apart.
 */
#include "device/cuda-module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/error.h"
#include "common/readable.h"

/* ---- loading ---- */

/* In the current context. Before 12.4, to ask for the function loads it. */
static CUresult function_load(CUkernel kernel)
{
	CUfunction function;
	CUresult   result = cuda.KernelGetFunction(&function, kernel);

	return result == CUDA_SUCCESS && cuda.FuncLoad ? cuda.FuncLoad(function) : result;
}

/* A kernel that is looked up later is loaded by its look-up (kernel_load). */
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

/* Waits for another thread that is loading it: the caller may block a stream as soon as this returns. */
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

/* Fails only if it can be loaded on no device. Of another device the launch there says so. */
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

static void module_free(struct module *module)
{
	struct kernel *kernel;

	while ((kernel = module->kernels)) {
		module->kernels = kernel->next;
		free(kernel);
	}
	cuda_fences_free(&module->fences);
	for (int i = 0; i < DEVICE_MAX; i++)
		pthread_mutex_destroy(&module->loading[i]);
	pthread_mutex_destroy(&module->lock);
	free(module->listed);
	free(module);
}

int cuda_module_load(const char *path, void **module)
{
	struct module *made;
	int            rc = file_readable(path);

	if (rc)
		return error_set(rc, "the module %s cannot be read: %s", path, strerror(-rc));
	made = calloc(1, sizeof(*made));
	if (!made)
		return error_set(-ENOMEM, "no memory for a module");
	pthread_mutex_init(&made->lock, NULL);
	pthread_mutex_init(&made->fences.lock, NULL);
	for (int i = 0; i < DEVICE_MAX; i++)
		pthread_mutex_init(&made->loading[i], NULL);
	rc = library_load(made, path);
	if (rc)
		goto free_module;
	rc = load_in_use(made);
	if (rc)
		goto unload_library;
	*module = made;
	return 0;

unload_library: {
	SAVE_ERROR();

	(void)library_unload(made);
}
free_module:
	module_free(made);
	return rc == -EINVAL ? -ENOEXEC : rc; /* CUDA_ERROR_INVALID_VALUE: the driver does not recognise the file */
}

/* The module is gone in any case; its code stays loaded where a kernel did not end well. */
int cuda_module_unload(void *pointer)
{
	struct module *module = pointer;
	int            rc = cuda_fences_wait(&module->fences);

	if (!rc)
		rc = library_unload(module);
	SAVE_ERROR();
	module_free(module);
	return rc;
}

/* ---- kernels and variables ---- */

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

/* Returns the existing one if another thread was first. */
static struct kernel *kernel_add(struct module *module, struct kernel *made)
{
	struct kernel *found;

	pthread_mutex_lock(&module->lock);
	found = kernel_find(module, made->symbol);
	if (!found) {
		LL_PREPEND(module->kernels, made);
	}
	pthread_mutex_unlock(&module->lock);
	if (found)
		free(made);
	return found ? found : made;
}

/* Where the driver could not list the kernels: loads this one on the devices where the module is loaded. */
static void kernel_load(const struct module *module, CUkernel handle)
{
	for (int i = 0; i < cuda_count() && !module->listed; i++) {
		CUDA_SCOPE(scope);

		if (atomic_load(&module->ready[i]) && !cuda_enter(&scope, i) && atomic_load(&module->ready[i]) == cuda_context_id())
			(void)function_load(handle); /* a launch reports the error */
	}
}

/* A second look-up returns the same kernel. It lives as long as the module. */
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

/* Managed memory exists once the library is loaded in a context (cuda.h): to ask for the module loads it. */
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
