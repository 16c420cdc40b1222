/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-module.c - kernels on the host device: host twins in a shared object (gpubroker-host.h).
 *
 * Owns the loaded modules and a record for each kernel that was looked up. A module counts its launches in flight, and
 * is unloaded behind the last of them. Never runs a kernel in the caller: a stream's thread does.
 *
 * As on CUDA, a module has to be loaded on each device, and that waits for all that is queued there, be it parked in a wait:
 * when it is opened, on the devices in use; with host_module_ready(); else at its first launch there. A reset of a device
 * unloads all modules there.
 */
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

#define BLOCK_THREADS_MAX 1024u
#define BLOCK_Z_MAX       64u
#define GRID_X_MAX        0x7fffffffu
#define GRID_YZ_MAX       65535u
#define SHARED_MAX        (227u << 10) /* what an H200 gives to one block; here only its limit is modelled */

struct host_module;

/* What a kernel handle points to. */
struct host_kernel {
	struct host_kernel     *next;
	struct host_module     *module;
	const gpub_host_kernel *twin;
};

struct host_module {
	struct host_module *next;
	void               *object;
	struct host_kernel *kernels;
	uint64_t            in_flight;
	bool                loaded[DEVICE_MAX];
};

static struct host_module *modules; /* under host_state.lock, as all in this file */
static pthread_cond_t landed = PTHREAD_COND_INITIALIZER;
static atomic_uint late_loads, loads_waiting;

/* ---- holds on kernels ---- */

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
		kernel->module->in_flight++;
	pthread_mutex_unlock(&host_state.lock);
	return live ? 0 : error_set(-EINVAL, "the kernel's module was unloaded");
}

void host_kernel_drop(struct host_kernel *kernel)
{
	pthread_mutex_lock(&host_state.lock);
	if (!--kernel->module->in_flight)
		pthread_cond_broadcast(&landed);
	pthread_mutex_unlock(&host_state.lock);
}

const uint32_t *host_kernel_sizes(const struct host_kernel *kernel)
{
	return kernel->twin->param_size;
}

/* Each parameter begins at a multiple of 16, so that any type may be read in place. */
static size_t param_room(uint32_t size)
{
	return ((size_t)size + 15) & ~(size_t)15;
}

void host_kernel_run(const struct host_task *task)
{
	const gpub_host_kernel *twin = task->launch.kernel->twin;
	const uint8_t *param = task->params;
	void *args[GPUB_HOST_PARAMS];

	for (int i = 0; i < GPUB_HOST_PARAMS && twin->param_size[i]; i++) {
		args[i] = (void *)param;
		param += param_room(twin->param_size[i]);
	}
	twin->run(&task->launch.config, args);
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

/* Nobody can queue meanwhile. The module is the caller's, or one that it holds. */
static void load_on(struct host_module *module, unsigned device)
{
	host_device_use(device);
	atomic_fetch_add(&loads_waiting, 1);
	host_gate_close();
	host_gate_drain(device);
	host_gate_open();
	atomic_fetch_sub(&loads_waiting, 1);
	pthread_mutex_lock(&host_state.lock);
	module->loaded[device] = true;
	pthread_mutex_unlock(&host_state.lock);
}

static bool is_loaded_on(const struct host_module *module, unsigned device)
{
	bool loaded;

	pthread_mutex_lock(&host_state.lock);
	loaded = module->loaded[device];
	pthread_mutex_unlock(&host_state.lock);
	return loaded;
}

int host_module_ready(void *handle, int ordinal)
{
	struct host_module *module;
	int device, rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	device = host_device_of(ordinal);
	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	module = module_find(handle);
	pthread_mutex_unlock(&host_state.lock);
	if (!module)
		return -EINVAL;
	if (!is_loaded_on(module, (unsigned)device))
		load_on(module, (unsigned)device);
	return 0;
}

void host_modules_unload(unsigned device)
{
	for (struct host_module *module = modules; module; module = module->next)
		module->loaded[device] = false;
}

unsigned host_late_loads(void)
{
	return atomic_load(&late_loads);
}

unsigned host_loads_waiting(void)
{
	return atomic_load(&loads_waiting);
}

/* A path without '/' would send dlopen() through the system's libraries. */
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
	if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS))
		return error_set(-errno, "the module %.200s cannot be read: %m", path);
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
		if (host_device_in_use(i))
			load_on(module, i);
	pthread_mutex_lock(&host_state.lock);
	module->next = modules;
	modules = module;
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

/* The record of that kernel, made at the first look-up. */
static struct host_kernel *kernel_record(struct host_module *module, const gpub_host_kernel *twin)
{
	struct host_kernel *kernel = module->kernels;

	while (kernel && kernel->twin != twin)
		kernel = kernel->next;
	if (kernel)
		return kernel;
	kernel = malloc(sizeof *kernel);
	if (!kernel) {
		error_set(-ENOMEM, "host device: no memory for a kernel's record");
		return NULL;
	}
	*kernel = (struct host_kernel){ .next = module->kernels, .module = module, .twin = twin };
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
	while (module->kernels) {
		struct host_kernel *kernel = module->kernels;

		module->kernels = kernel->next;
		free(kernel);
	}
	dlclose(module->object);
	free(module);
}

/* Taken from the list first: no launch finds it any more, and those in flight are waited for. */
int host_module_unload(void *handle)
{
	struct host_module *module, **link = &modules;
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	pthread_mutex_lock(&host_state.lock);
	module = module_find(handle);
	while (module && *link != module)
		link = &(*link)->next;
	if (module)
		*link = module->next;
	while (module && module->in_flight)
		pthread_cond_wait(&landed, &host_state.lock);
	pthread_mutex_unlock(&host_state.lock);
	if (!module)
		return -EINVAL;
	module_free(module);
	return 0;
}

/* ---- launches ---- */

static int grid_check(const uint32_t grid[3])
{
	if (!grid[0] || !grid[1] || !grid[2])
		return error_set(-EINVAL, "a grid of %ux%ux%u blocks is empty", grid[0], grid[1], grid[2]);
	if (grid[0] > GRID_X_MAX || grid[1] > GRID_YZ_MAX || grid[2] > GRID_YZ_MAX)
		return error_set(-EINVAL, "a grid of %ux%ux%u blocks is too large: at most %ux%ux%u", grid[0], grid[1],
				 grid[2], GRID_X_MAX, GRID_YZ_MAX, GRID_YZ_MAX);
	return 0;
}

static int block_check(const uint32_t block[3])
{
	uint64_t threads = (uint64_t)block[0] * block[1];

	if (!threads || !block[2])
		return error_set(-EINVAL, "a block of %ux%ux%u threads is empty", block[0], block[1], block[2]);
	if (threads > BLOCK_THREADS_MAX || block[2] > BLOCK_Z_MAX || threads * block[2] > BLOCK_THREADS_MAX)
		return error_set(-EINVAL, "a block of %ux%ux%u threads is too large: at most %u in all, %u in z",
				 block[0], block[1], block[2], BLOCK_THREADS_MAX, BLOCK_Z_MAX);
	return 0;
}

static int config_check(const gpub_launch_config *config)
{
	int rc;

	if (config->struct_size < sizeof *config)
		return error_set(-EINVAL, "a launch config of %u bytes: start from GPUB_LAUNCH_INIT",
				 config->struct_size);
	rc = grid_check(config->grid);
	if (!rc)
		rc = block_check(config->block);
	if (!rc && config->shared_bytes > SHARED_MAX)
		rc = error_set(-EINVAL, "%u bytes of shared memory are too many: at most %u", config->shared_bytes,
			       SHARED_MAX);
	return rc;
}

static int args_check(const struct host_kernel *kernel, void **args)
{
	const uint32_t *size = kernel->twin->param_size;

	for (int i = 0; i < GPUB_HOST_PARAMS && size[i]; i++)
		if (!args || !args[i])
			return error_set(-EINVAL, "the kernel has a parameter %d, of %u bytes, and the launch has no "
						  "args[%d] for it: point it to the value",
					 i, size[i], i);
	return 0;
}

/* The task with a copy of the parameters: the caller may change them as soon as the launch returns. */
static struct host_task *launch_task(struct host_kernel *kernel, const gpub_launch_config *config, void **args)
{
	const uint32_t *size = kernel->twin->param_size;
	struct host_task *task;
	uint8_t *param;
	size_t room = 0;

	for (int i = 0; i < GPUB_HOST_PARAMS && size[i]; i++)
		room += param_room(size[i]);
	task = host_task_new(HOST_TASK_KERNEL, room);
	if (!task)
		return NULL;
	task->launch.kernel = kernel;
	memcpy(&task->launch.config, config, sizeof *config);
	param = task->params;
	for (int i = 0; i < GPUB_HOST_PARAMS && size[i]; i++) {
		memcpy(param, args[i], size[i]);
		param += param_room(size[i]);
	}
	return task;
}

/* Takes over the task and its kernel's hold. */
static int launch_queue(struct host_stream *stream, unsigned device, struct host_task *task)
{
	int rc = 0;

	if (stream->device != device)
		rc = error_set(-EINVAL, "the stream is of host device %u, the launch of host device %u",
			       stream->device, device);
	if (!rc)
		rc = host_capture_refuse(stream, false);
	if (!rc)
		rc = host_task_check(task, device);
	if (rc)
		host_task_free(task, true);
	return rc ? rc : host_queue(stream, task);
}

static int launch_held(struct host_kernel *kernel, const gpub_launch_config *config, void **args, unsigned device)
{
	int rc = args_check(kernel, args);
	struct host_stream *stream = rc ? NULL : host_stream_get(config->stream, device);
	struct host_task *task = stream ? launch_task(kernel, config, args) : NULL;

	if (task)
		rc = launch_queue(stream, device, task);
	else
		host_kernel_drop(kernel);
	if (!task && !rc)
		rc = stream ? -ENOMEM : -EINVAL;
	if (stream)
		host_stream_put(stream);
	return rc;
}

static void load_late(const struct host_kernel *kernel, unsigned device)
{
	if (is_loaded_on(kernel->module, device))
		return;
	atomic_fetch_add(&late_loads, 1);
	load_on(kernel->module, device);
}

int host_module_launch(void *kernel, const gpub_launch_config *config, void **args)
{
	int device, rc = host_enter(HOST_LAUNCH);

	if (rc)
		return rc;
	device = host_device_of(config->device);
	if (device < 0)
		return device;
	rc = config_check(config);
	if (rc)
		return rc;
	rc = host_kernel_hold(kernel);
	if (rc)
		return rc;
	load_late(kernel, (unsigned)device);
	host_gate_pass();
	rc = launch_held(kernel, config, args, (unsigned)device);
	host_gate_leave();
	return rc;
}
