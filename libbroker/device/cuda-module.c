/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-module.c - modules, which are files of kernels: loaded when they are opened, unloaded after their launches
 * have ended.
 *
 * Loading waits for the work on a device, also for a stream that is blocked by a wait (facts.md, "Loading"). CUDA
 * would delay loading until a kernel is first looked up or launched. So modules are loaded explicitly: by
 * cuda_module_load() on all devices in use, and by cuda_module_ready() on a device that is used later. Look-ups and
 * launches on these devices load nothing, except that a look-up loads its kernel if the driver cannot list kernels
 * (before CUDA 12.4).
 *
 * Owns the CUlibrary of each module (which belongs to no context), the kernels that were looked up, and the module's
 * fences (cuda-fence.c). The caller makes sure that no launch of a module begins during or after its unloading.
 */
#include "device/cuda-module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/error.h"
#include "common/readable.h"

/* ---- loading ---- */

/* Loads the kernel in the current context, by cuFuncLoad or, before CUDA 12.4, by cuKernelGetFunction. */
static CUresult function_load(CUkernel kernel)
{
	CUfunction function;
	CUresult   result = cuda.KernelGetFunction(&function, kernel);

	return result == CUDA_SUCCESS && cuda.FuncLoad ? cuda.FuncLoad(function) : result;
}

/*
 * Returns the list of the module's kernels that were looked up so far. A later look-up loads its kernel
 * (kernel_load()).
 */
static struct kernel *kernels_known(struct module *module)
{
	struct kernel *kernels;

	pthread_mutex_lock(&module->lock);
	kernels = module->kernels;
	pthread_mutex_unlock(&module->lock);
	return kernels;
}

/* Loads all kernels of the file or, if the driver cannot list kernels, those that were looked up so far. */
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

/* Loads the module in the device's context, which is current, unless it is loaded. Call it under module->loading. */
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

/* Also waits for another thread's load of the module, because the caller may block a stream after the return. */
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

/*
 * Loads the module on all devices in use. Returns an error only if no load succeeded, because a launch on a device
 * reports that the module could not be loaded there.
 */
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

/* Sets module->listed to all kernels of the module, if the driver can list kernels. */
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

/* Frees `module` in any case. The module's code stays loaded if a launch failed or the end of a launch is unknown. */
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

/*
 * Adds the kernel to the module. If another thread has added it before, frees `made` and returns the existing kernel.
 */
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

/* If the driver cannot list kernels, loads this kernel on the devices where the module is loaded. */
static void kernel_load(const struct module *module, CUkernel handle)
{
	for (int i = 0; i < cuda_count() && !module->listed; i++) {
		CUDA_SCOPE(scope);

		if (atomic_load(&module->ready[i]) && !cuda_enter(&scope, i) &&
		    atomic_load(&module->ready[i]) == cuda_context_id())
			(void)function_load(handle); /* a launch on the device reports the error */
	}
}

/* All look-ups of a symbol return one kernel, which lives as long as the module. */
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

/* Loads the library first, by cuLibraryGetModule, because managed variables exist only in loaded libraries. */
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
