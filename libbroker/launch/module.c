/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - see module.h */
#include "module.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/devices.h"
#include "client/fork.h"
#include "common/environment.h"
#include "common/error.h"
#include "common/readable.h"
#include "common/thread.h"

#define MODULES_MAX 256
#define PLACE_BITS  8 /* a token's low bits: the index in places[]; the bits above: the place's generation, from 1 on */

/*
 * A module's kernels are in blocks, each of which has room for twice as many as the block before. So kernels never
 * move, and a launch takes no lock.
 */
#define BLOCK_FIRST 4u
#define BLOCKS      14u
#define KERNEL_BITS 16
#define KERNELS_MAX (BLOCK_FIRST * ((1u << BLOCKS) - 1))

_Static_assert(KERNELS_MAX < 1u << KERNEL_BITS, "a kernel's number fits into its handle");

enum place_state { PLACE_FREE = 0, PLACE_OPEN, PLACE_CLOSING };

/* The state of a place is its generation and enum place_state, in one word, so that both change atomically. */
#define PLACE_STATE(generation, state) ((uint64_t)(generation) << 2 | (uint64_t)(state))

struct place {
	_Atomic uint64_t     state; /* PLACE_STATE() */
	_Atomic uint32_t     users; /* number of threads between place_enter() and place_leave() */
	/* the members from here to `loaded` are constant while the place is PLACE_OPEN or PLACE_CLOSING */
	const struct device *device;
	struct gpub_client  *client;
	void                *loaded; /* the module, as device->module_load() gave it */
	/* the kernels that were looked up: added under places_lock, never changed, freed with the module */
	_Atomic uint32_t     kernels; /* number of kernels that were looked up */
	/* the kernels, as device->module_kernel() gave them, in blocks (kernel_at()) */
	void               **block[BLOCKS];
};

static struct place places[MODULES_MAX];
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * opened: number of modules that were opened so far. ready: for each kind and ordinal of a device, ready_with() of the
 * value that `opened` had when modules_ready() last loaded all modules on the device, and of the device's epoch.
 */
static _Atomic uint64_t opened, ready[DEVICE_KINDS][DEVICE_MAX];

/* ---- finding the file ---- */

static int try_file(const char *directory, size_t length, const char *path, const char *suffix, char *file,
		    size_t size)
{
	int written = snprintf(file, size, "%.*s%s%s%s", (int)length, directory, length ? "/" : "", path, suffix);

	if (written < 0 || (size_t)written >= size)
		return -ENAMETOOLONG;
	return file_readable(file);
}

static int find_file(const char *path, const char *suffix, char *file, size_t size)
{
	const char *list = environment_get("GPUBROKER_MODULE_PATH"), *colon;

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

/*
 * Returns the place of the module with this token. A token is generation << PLACE_BITS | index of the place.
 * Generations begin with 1, so no token is 0.
 */
static struct place *place_of(uint64_t token)
{
	return &places[token & (MODULES_MAX - 1)];
}

static uint64_t state_of(uint64_t token, enum place_state state)
{
	return PLACE_STATE(token >> PLACE_BITS, state);
}

/* Returns a free place. *token: the token for the next module in this place. NULL: all places are used. */
static struct place *place_free(uint64_t *token)
{
	for (uint64_t i = 0; i < MODULES_MAX; i++) {
		uint64_t state = atomic_load(&places[i].state);

		if (state & 3)
			continue;
		*token = ((state >> 2) + 1) << PLACE_BITS | i;
		return &places[i];
	}
	return NULL;
}

static int place_take(struct gpub_client *client, void *loaded, uint64_t *token)
{
	struct place *place;

	pthread_mutex_lock(&places_lock);
	place = place_free(token);
	if (place) {
		place->device = client->device;
		place->client = client;
		place->loaded = loaded;
		atomic_store(&place->state, state_of(*token, PLACE_OPEN));
		atomic_fetch_add(&opened, 1);
	}
	pthread_mutex_unlock(&places_lock);
	return place ? 0 : error_set(-EMFILE, "%d modules are open: close some", MODULES_MAX);
}

/*
 * Counts the caller as a user of the module, and returns the module's place. NULL: the module is not open. The order of
 * the two steps matters: this function first counts the user, then checks the state, and a close first changes the
 * state, then waits for the users.
 */
static struct place *place_enter(uint64_t token)
{
	struct place *place = place_of(token);

	atomic_fetch_add(&place->users, 1);
	if (atomic_load(&place->state) == state_of(token, PLACE_OPEN))
		return place;
	atomic_fetch_sub(&place->users, 1);
	return NULL;
}

static void place_leave(struct place *place)
{
	atomic_fetch_sub(&place->users, 1);
}

static uint64_t module_token(const gpub_module *module)
{
	return (uint64_t)(uintptr_t)module;
}

/* Whether a module with this token was ever open. */
static bool token_was_given(uint64_t token)
{
	uint64_t generation = token >> PLACE_BITS;

	return generation && generation <= atomic_load(&place_of(token)->state) >> 2;
}

static int module_enter(const gpub_module *module, struct place **place)
{
	uint64_t token = module_token(module);

	*place = place_enter(token);
	if (*place)
		return 0;
	if (!token_was_given(token))
		return error_set(-EINVAL, "this is no module: take it from gpub_module_open()");
	return error_set(-ESTALE, "this module was closed: open it again");
}

/* ---- kernels ---- */

/*
 * Returns the entry of kernel number `i` in the place's blocks. *block: the index of its block. NULL: the block is not
 * allocated yet.
 */
static void **kernel_at(struct place *place, uint32_t i, unsigned *block)
{
	*block = 31u - (unsigned)__builtin_clz(i / BLOCK_FIRST + 1);
	return place->block[*block] ? &place->block[*block][i - BLOCK_FIRST * ((1u << *block) - 1)] : NULL;
}

static void *kernel_get(struct place *place, uint32_t i)
{
	unsigned block;
	void **at = kernel_at(place, i, &block);

	return at ? *at : NULL;
}

/* Returns the handle of kernel number `i`: its module's token in the high bits, i + 1 in the low KERNEL_BITS bits. */
static uintptr_t handle_of(uint64_t token, uint32_t i)
{
	return (uintptr_t)token << KERNEL_BITS | (i + 1);
}

/* Returns the device's kernel that kernel.handle stands for. NULL: the handle is not one of the place's module. */
static void *kernel_find(struct place *place, gpub_kernel kernel)
{
	uint32_t i = ((uint32_t)(uintptr_t)kernel.handle & ((1u << KERNEL_BITS) - 1)) - 1;

	if (i >= atomic_load_explicit(&place->kernels, memory_order_acquire) ||
	    (uintptr_t)kernel.handle != handle_of(kernel.token, i))
		return NULL;
	return kernel_get(place, i);
}

static int kernel_append(struct place *place, void *kernel)
{
	uint32_t count = atomic_load(&place->kernels);
	unsigned block;
	void   **at;

	if (count == KERNELS_MAX)
		return error_set(-EMFILE, "%u kernels of this module were looked up: that is the limit", KERNELS_MAX);
	at = kernel_at(place, count, &block);
	if (!at)
		at = place->block[block] = calloc(BLOCK_FIRST << block, sizeof *at);
	if (!at)
		return error_set(-ENOMEM, "no memory for a kernel");
	*at = kernel;
	atomic_store_explicit(&place->kernels, count + 1, memory_order_release);
	return 0;
}

/* Stores the kernel's number in its module. Adds the kernel to the module first, if it has no number yet. */
static int kernel_add(struct place *place, void *kernel, uint32_t *number)
{
	uint32_t count, i = 0;
	int error = 0;

	pthread_mutex_lock(&places_lock);
	count = atomic_load(&place->kernels);
	while (i < count && kernel_get(place, i) != kernel)
		i++;
	if (i == count)
		error = kernel_append(place, kernel);
	pthread_mutex_unlock(&places_lock);
	*number = i;
	return error;
}

static void kernels_free(struct place *place)
{
	atomic_store(&place->kernels, 0);
	for (unsigned block = 0; block < BLOCKS; block++) {
		free(place->block[block]);
		place->block[block] = NULL;
	}
}

/* ---- devices ---- */

/*
 * Returns the number `modules` of opened modules and the device's epoch in one word. A reset of the device, which
 * unloads all modules there, changes the epoch, so that the word of before the reset does not match any more.
 */
static uint64_t ready_with(uint64_t modules, const struct device *device, int ordinal)
{
	return modules << 32 | (device->epoch ? (uint32_t)device->epoch(ordinal) : 0);
}

/* Ignores errors, because a launch of the module on the device reports them. */
void modules_ready(const struct gpub_client *client, int ordinal)
{
	SAVE_ERROR();
	_Atomic uint64_t *loaded = &ready[client->device->kind][ordinal];
	uint64_t all = ready_with(atomic_load(&opened), client->device, ordinal);

	if (atomic_load(loaded) == all)
		return;
	for (uint64_t i = 0; i < MODULES_MAX; i++) {
		uint64_t state = atomic_load(&places[i].state);
		struct place *place = (state & 3) == PLACE_OPEN ? place_enter((state >> 2) << PLACE_BITS | i) : NULL;

		if (!place)
			continue;
		if (place->device == client->device)
			(void)place->device->module_ready(place->loaded, ordinal);
		place_leave(place);
	}
	atomic_store(loaded, all);
}

/* ---- the public functions ---- */

static int file_load(const struct device *device, const char *path, void **loaded)
{
	char file[4096];
	int error = find_file(path, device->module_suffix, file, sizeof file);

	if (!error)
		return device->module_load(file, loaded);
	error_set(error, "no module '%s%s' was found: give its path, or add its directory to GPUBROKER_MODULE_PATH",
		  path, device->module_suffix);
	environment_note(error, "GPUBROKER_MODULE_PATH");
	return error;
}

int gpub_module_open(gpub_module **result, gpub_client *client, const char *path)
{
	int error = client_check(client);
	uint64_t token = 0;
	void *loaded;
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!result || !path || !*path)
		return error_set(-EINVAL, "a module needs a path, and a place to put it");
	error = file_load(client->device, path, &loaded);
	if (error)
		return error;
	error = place_take(client, loaded, &token);
	if (error) {
		SAVE_ERROR();

		client->device->module_unload(loaded);
	} else {
		*result = (gpub_module *)(uintptr_t)token;
	}
	return error;
}

int gpub_module_kernel(gpub_module *module, const char *symbol, gpub_kernel *kernel)
{
	struct place *place;
	uint32_t number;
	void *found;
	int error = client_check_process();
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!module || !symbol || !kernel)
		return error_set(-EINVAL, "a kernel needs an open module, a name, and a place to put it");
	error = module_enter(module, &place);
	if (error)
		return error;
	error = place->device->module_kernel(place->loaded, symbol, &found);
	if (!error)
		error = kernel_add(place, found, &number);
	if (!error)
		*kernel = (gpub_kernel){ module_token(module), (void *)handle_of(module_token(module), number) };
	place_leave(place);
	return error;
}

int gpub_module_managed(gpub_module *module, const char *symbol, void **ptr, size_t *size)
{
	struct place *place;
	int error = client_check_process();
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!module || !symbol || !ptr || !size)
		return error_set(-EINVAL, "a managed variable needs an open module, a name, and places for its "
					  "address and size");
	error = module_enter(module, &place);
	if (error)
		return error;
	error = place->device->module_managed(place->loaded, symbol, ptr, size);
	place_leave(place);
	return error;
}

static int launch_open(struct place *place, gpub_kernel kernel, const gpub_launch_config *config, void **args)
{
	gpub_launch_config resolved = *config;
	void *found = kernel_find(place, kernel);
	int error = client_check(place->client), index;

	if (error)
		return error;
	if (!found)
		return error_set(-EINVAL, "this is no kernel of its module: take it from gpub_module_kernel() and do "
					  "not change it");
	index = client_device_index(place->client, config->device);
	if (index < 0)
		return index;
	resolved.device = place->client->ordinal_of[index];
	return place->device->module_launch(found, &resolved, args);
}

/* Returns the error for a kernel whose module is not open, and sets the error message. */
static int kernel_refuse(gpub_kernel kernel)
{
	if (!token_was_given(kernel.token))
		return error_set(-EINVAL, "this is no kernel: take it from gpub_module_kernel() and do not change it");
	return error_set(-ESTALE, "this kernel's module was closed: open it again");
}

int gpub_launch(gpub_kernel kernel, const gpub_launch_config *config, void **args)
{
	struct place *place;
	int error;
	HOLD_CANCELLATION();

	if (!config || config->struct_size != sizeof *config || config->reserved)
		return error_set(-EINVAL, "there is no launch configuration: start from GPUB_LAUNCH_INIT");
	place = place_enter(kernel.token);
	if (!place)
		return kernel_refuse(kernel);
	error = launch_open(place, kernel, config, args);
	place_leave(place);
	return error;
}

/* If several threads close a module, only the thread that sets PLACE_CLOSING unloads it and frees its place. */
int gpub_module_close(gpub_module *module)
{
	uint64_t token = module_token(module), state = state_of(token, PLACE_OPEN);
	struct place *place = place_of(token);
	int error;
	HOLD_CANCELLATION();

	if (!module)
		return 0;
	error = client_check_process();
	if (error)
		return error;
	if (!atomic_compare_exchange_strong(&place->state, &state, state_of(token, PLACE_CLOSING)))
		return error_set(-EINVAL, "this module was closed before");
	while (atomic_load(&place->users))
		sched_yield();
	error = place->device->module_unload(place->loaded);
	kernels_free(place);
	atomic_store(&place->state, state_of(token, PLACE_FREE));
	return error;
}
