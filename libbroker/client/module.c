/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - gpub_module_* and gpub_launch: files of kernels, loaded once for all devices.
 *
 * A kernel is a value that names its module by a place and a generation in a fixed table, so a kernel of a
 * closed module is refused and never followed. A close waits for launches that other threads are in the
 * middle of, then for those in flight on the devices, then unloads. Owns the table and the loaded files.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define MODULES_MAX 256
#define PLACE_BITS  8

struct gpub_module {
	struct gpub_client  *client;
	const struct device *device;
	void                *loaded;
	uint64_t             token; /* generation << 8 | place */
};

/* state = generation << 1 | open, so one word tells a launch that its module is still the one it means. */
struct place {
	_Atomic uint64_t     state;
	_Atomic uint32_t     launching; /* threads between the look at state and the launch */
	const struct device *device;
	struct gpub_client  *client;
};

static struct place places[MODULES_MAX];
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- finding the file ---- */

static int try_file(const char *directory, size_t length, const char *path, const char *suffix, char *file,
		    size_t size)
{
	int written = snprintf(file, size, "%.*s%s%s%s", (int)length, directory, length ? "/" : "", path, suffix);

	if (written < 0 || (size_t)written >= size)
		return -ENAMETOOLONG;
	return access(file, R_OK) ? -errno : 0;
}

static int find_file(const char *path, const char *suffix, char *file, size_t size)
{
	const char *list = getenv("GPUBROKER_MODULE_PATH"), *colon;

	if (strchr(path, '/'))
		return try_file("", 0, path, suffix, file, size);
	for (; list && *list; list = *colon ? colon + 1 : colon) {
		colon = strchrnul(list, ':');
		if (colon > list && !try_file(list, (size_t)(colon - list), path, suffix, file, size))
			return 0;
	}
	return try_file(PKGLIBDIR, strlen(PKGLIBDIR), path, suffix, file, size);
}

/* ---- the table ---- */

static int place_take(struct gpub_module *module)
{
	int error = -EMFILE;

	pthread_mutex_lock(&places_lock);
	for (uint64_t i = 0; i < MODULES_MAX && error; i++) {
		uint64_t state = atomic_load(&places[i].state);

		if (state & 1)
			continue;
		places[i].device = module->device;
		places[i].client = module->client;
		module->token = ((state >> 1) + 1) << PLACE_BITS | i;
		atomic_store(&places[i].state, ((state >> 1) + 1) << 1 | 1);
		error = 0;
	}
	pthread_mutex_unlock(&places_lock);
	return error ? error_set(error, "%d modules are open: close some", MODULES_MAX) : 0;
}

static struct place *place_of(uint64_t token)
{
	return &places[token & (MODULES_MAX - 1)];
}

static bool place_current(const struct place *place, uint64_t token)
{
	return atomic_load(&place->state) == (token >> PLACE_BITS << 1 | 1);
}

/* ---- the public functions ---- */

static int module_load(struct gpub_module *module, const char *path)
{
	char file[4096];
	int error = find_file(path, module->device->module_suffix, file, sizeof file);

	if (error)
		return error_set(error, "no module '%s%s' is to be found: give its path, or add its directory to "
					"GPUBROKER_MODULE_PATH",
				 path, module->device->module_suffix);
	return module->device->module_load(file, &module->loaded);
}

int gpub_module_open(gpub_module **result, gpub_client *client, const char *path)
{
	struct gpub_module *module;
	int error = client_check(client);

	if (error)
		return error;
	if (!result || !path || !*path)
		return error_set(-EINVAL, "a module needs a path, and a place to put it");
	module = calloc(1, sizeof *module);
	if (!module)
		return error_set(-ENOMEM, "out of memory for a module");
	module->client = client;
	module->device = client->device;
	error = module_load(module, path);
	if (error)
		goto free_module;
	error = place_take(module);
	if (error)
		goto unload;
	*result = module;
	return 0;
unload:
	module->device->module_unload(module->loaded);
free_module:
	free(module);
	return error;
}

int gpub_module_kernel(gpub_module *module, const char *symbol, gpub_kernel *kernel)
{
	void *handle;
	int error = client_check_process();

	if (error)
		return error;
	if (!module || !symbol || !kernel)
		return error_set(-EINVAL, "a kernel needs an open module, a name, and a place to put it");
	error = module->device->module_kernel(module->loaded, symbol, &handle);
	if (!error)
		*kernel = (gpub_kernel){ module->token, handle };
	return error;
}

int gpub_module_managed(gpub_module *module, const char *symbol, void **ptr, size_t *size)
{
	int error = client_check_process();

	if (error)
		return error;
	if (!module || !symbol || !ptr || !size)
		return error_set(-EINVAL, "a managed variable needs an open module, a name, and places for its "
					  "address and size");
	return module->device->module_managed(module->loaded, symbol, ptr, size);
}

static int launch_open(struct place *place, gpub_kernel kernel, const gpub_launch_config *config, void **args)
{
	gpub_launch_config resolved = *config;
	int error = client_check(place->client), index;

	if (error)
		return error;
	index = client_device_index(place->client, config->device);
	if (index < 0)
		return index;
	resolved.device = place->client->ordinal_of[index];
	return place->device->module_launch(kernel.handle, &resolved, args);
}

int gpub_launch(gpub_kernel kernel, const gpub_launch_config *config, void **args)
{
	struct place *place = place_of(kernel.token);
	int error = -ESTALE;

	if (!config || config->struct_size != sizeof *config || config->reserved)
		return error_set(-EINVAL, "there is no launch configuration: start from GPUB_LAUNCH_INIT");
	/* announce, then look: the closer changes the state, then waits for those announced */
	atomic_fetch_add(&place->launching, 1);
	if (place_current(place, kernel.token))
		error = launch_open(place, kernel, config, args);
	else
		error_set(error, "this kernel's module was closed: open it again");
	atomic_fetch_sub(&place->launching, 1);
	return error;
}

int gpub_module_close(gpub_module *module)
{
	struct place *place;
	int error;

	if (!module)
		return 0;
	error = client_check_process();
	if (error)
		return error;
	place = place_of(module->token);
	if (!place_current(place, module->token))
		return error_set(-EINVAL, "this module was closed before");
	atomic_fetch_and(&place->state, ~1ull);
	while (atomic_load(&place->launching))
		sched_yield();
	error = module->device->module_unload(module->loaded);
	free(module);
	return error;
}
