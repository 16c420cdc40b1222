/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-module.c - see host-module.h
 *
 * A module is a shared object with host twins of kernels (gpubroker-host.h). Owns the loaded modules and a record of
 * each kernel that was looked up. A module counts the references to its kernels, and unloading waits for the last
 * one. Never runs a kernel.
 *
 * As on CUDA, a module must be loaded on each device. Loading waits for all work queued on the device, also for work
 * after a wait. Opening a module loads it on the devices in use; host_module_ready() loads it on another device;
 * otherwise the first launch on a device loads it there. A reset of a device unloads all modules there.
 */
#include "host-module.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/error.h"
#include "common/readable.h"
#include "host-fault.h"
#include "host-gate.h"
#include "host-state.h"

struct host_module {
	struct host_module *next;
	void               *object;
	struct host_kernel *kernels;
	uint64_t            references; /* number of references to the module's kernels (host_kernel_hold()) */
	atomic_bool         loaded[DEVICE_MAX];
};

/* list of the open modules; the list, and all members of modules that are not atomic, are under host_state.lock */
static struct host_module *modules;
static pthread_cond_t unreferenced = PTHREAD_COND_INITIALIZER;
static atomic_uint late_loads, loads_waiting;

/* ---- references to kernels ---- */

static bool kernel_is_live(const struct host_kernel *kernel)
{
	for (const struct host_module *module = modules; module; module = module->next)
		for (const struct host_kernel *known = module->kernels; known; known = known->next)
			if (known == kernel)
				return true;
	return false;
}

int host_kernel_hold(struct host_kernel *kernel)
{
	bool live;

	pthread_mutex_lock(&host_state.lock);
	live = kernel_is_live(kernel);
	if (live)
		kernel->module->references++;
	pthread_mutex_unlock(&host_state.lock);
	return live ? 0 : error_set(-EINVAL, "the kernel's module was unloaded");
}

void host_kernel_drop(struct host_kernel *kernel)
{
	pthread_mutex_lock(&host_state.lock);
	if (!--kernel->module->references)
		pthread_cond_broadcast(&unreferenced);
	pthread_mutex_unlock(&host_state.lock);
}

/* ---- modules ---- */

static struct host_module *module_find(const void *handle)
{
	for (struct host_module *module = modules; module; module = module->next)
		if (module == handle)
			return module;
	error_set(-EINVAL, "%p is no module of the host device, or was unloaded", handle);
	return NULL;
}

/*
 * Loads the module on the device, which only waits for all work queued there. Meanwhile no thread can queue work. The
 * caller makes sure that the module is not unloaded.
 */
static void load_on(struct host_module *module, unsigned device)
{
	atomic_store(&host_state.in_use[device], true);
	atomic_fetch_add(&loads_waiting, 1);
	host_gate_close();
	host_gate_drain(device);
	host_gate_open();
	atomic_fetch_sub(&loads_waiting, 1);
	atomic_store(&module->loaded[device], true);
}

void host_kernel_load(const struct host_kernel *kernel, unsigned device)
{
	if (atomic_load(&kernel->module->loaded[device]))
		return;
	atomic_fetch_add(&late_loads, 1);
	load_on(kernel->module, device);
}

int host_module_ready(void *handle, int ordinal)
{
	struct host_module *module;
	int device = host_enter_device(HOST_OTHER, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	module = module_find(handle);
	pthread_mutex_unlock(&host_state.lock);
	if (!module)
		return -EINVAL;
	if (!atomic_load(&module->loaded[device]))
		load_on(module, (unsigned)device);
	return 0;
}

void host_modules_unload(unsigned device)
{
	for (struct host_module *module = modules; module; module = module->next)
		atomic_store(&module->loaded[device], false);
}

unsigned host_late_loads(void)
{
	return atomic_load(&late_loads);
}

unsigned host_loads_waiting(void)
{
	return atomic_load(&loads_waiting);
}

/*
 * Loads the shared object at `path`. Adds "./" to a path without '/', because dlopen() would search system directories
 * for it.
 */
static void *object_load(const char *path)
{
	char *local;
	void *object;

	if (strchr(path, '/'))
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (asprintf(&local, "./%s", path) < 0)
		return NULL;
	object = dlopen(local, RTLD_NOW | RTLD_LOCAL);
	free(local);
	return object;
}

int host_module_load(const char *path, void **handle)
{
	struct host_module *module;
	int rc = host_enter(HOST_MODULE);

	if (rc)
		return rc;
	rc = file_readable(path);
	if (rc)
		return error_set(rc, "the module %.200s cannot be read: %s", path, strerror(-rc));
	module = calloc(1, sizeof *module);
	if (!module)
		return error_set(-ENOMEM, "host device: no memory for a module");
	module->object = object_load(path);
	if (!module->object) {
		const char *why = dlerror();

		free(module);
		return error_set(-ENOEXEC, "the module cannot be loaded: %.240s", why ? why : "no memory");
	}
	for (unsigned i = 0; i < host_state.devices; i++)
		if (atomic_load(&host_state.in_use[i]))
			load_on(module, i);
	pthread_mutex_lock(&host_state.lock);
	LL_PREPEND(modules, module);
	pthread_mutex_unlock(&host_state.lock);
	*handle = module;
	return 0;
}

static const gpub_host_kernel *twin_find(const struct host_module *module, const char *symbol)
{
	const gpub_host_kernel *twin;
	char *name;

	if (asprintf(&name, "gpub_host_kernel_%s", symbol) < 0) {
		error_set(-ENOMEM, "host device: no memory for a kernel's name");
		return NULL;
	}
	twin = dlsym(module->object, name);
	free(name);
	if (!twin || !twin->run)
		error_set(-ENOENT, "the module has no kernel %.120s: publish its host twin with GPUB_HOST_KERNEL",
			  symbol);
	return twin && twin->run ? twin : NULL;
}

/*
 * Returns the struct host_kernel of a twin, which is made at the first look-up. NULL, error message set: no memory.
 * Call it under host_state.lock.
 */
static struct host_kernel *kernel_record(struct host_module *module, const gpub_host_kernel *twin)
{
	struct host_kernel *kernel;

	LL_SEARCH_SCALAR(module->kernels, kernel, twin, twin);
	if (kernel)
		return kernel;
	kernel = malloc(sizeof *kernel);
	if (!kernel) {
		error_set(-ENOMEM, "host device: no memory for a kernel's record");
		return NULL;
	}
	*kernel = (struct host_kernel){ .next = module->kernels, .module = module, .twin = twin };
	while (kernel->count < GPUB_HOST_PARAMS && twin->param_size[kernel->count]) {
		kernel->offset[kernel->count] = kernel->bytes;
		kernel->bytes += ((size_t)twin->param_size[kernel->count++] + 15) & ~(size_t)15;
	}
	module->kernels = kernel;
	return kernel;
}

static int kernel_locked(void *handle, const char *symbol, void **found)
{
	struct host_module *module = module_find(handle);
	const gpub_host_kernel *twin;
	struct host_kernel *kernel;

	if (!module)
		return -EINVAL;
	twin = twin_find(module, symbol);
	if (!twin)
		return -ENOENT;
	kernel = kernel_record(module, twin);
	if (!kernel)
		return -ENOMEM;
	*found = kernel;
	return 0;
}

int host_module_kernel(void *handle, const char *symbol, void **kernel)
{
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	pthread_mutex_lock(&host_state.lock);
	rc = kernel_locked(handle, symbol, kernel);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

static int managed_locked(void *handle, const char *symbol, void **ptr, size_t *size)
{
	struct host_module *module = module_find(handle);
	const ElfW(Sym) *entry = NULL;
	void *address;
	Dl_info info;

	if (!module)
		return -EINVAL;
	address = dlsym(module->object, symbol);
	if (!address || !dladdr1(address, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry)
		return error_set(-ENOENT, "the module has no variable %.120s", symbol);
	*ptr = address;
	*size = entry->st_size;
	return 0;
}

int host_module_managed(void *handle, const char *symbol, void **ptr, size_t *size)
{
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	pthread_mutex_lock(&host_state.lock);
	rc = managed_locked(handle, symbol, ptr, size);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

static void module_free(struct host_module *module)
{
	struct host_kernel *kernel;

	while ((kernel = module->kernels)) {
		module->kernels = kernel->next;
		free(kernel);
	}
	dlclose(module->object);
	free(module);
}

/* Removes the module from `modules`, so that no new launch finds it, then waits for the launches in progress. */
int host_module_unload(void *handle)
{
	struct host_module *module;
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	pthread_mutex_lock(&host_state.lock);
	module = module_find(handle);
	if (module)
		LL_DELETE(modules, module);
	while (module && module->references)
		pthread_cond_wait(&unreferenced, &host_state.lock);
	pthread_mutex_unlock(&host_state.lock);
	if (!module)
		return -EINVAL;
	module_free(module);
	return 0;
}

