/* SPDX-License-Identifier: Apache-2.0 */
/* mapping.c - see mapping.h */
#include "mapping.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/sealed.h"
#include "devices.h"
#include "trace.h"

/* Unseals the handle of a GRANT that grant_check() has checked. */
static int grant_unseal(const struct gpub_client *client, const struct wire_grant *grant,
			struct device_handle *handle)
{
	struct sealed_handle sealed = client->board.handles[grant->place]; /* a copy, which the broker cannot change */
	struct seal_terms terms = board_grant_terms(client->board.header, client->session, grant);

	return handle_unseal(handle, &terms, &sealed, client->key);
}

/* ---- calls of one epoch ---- */

/*
 * For each device of each kind: the calls of this process in progress that open, extend, wait for or close memory on
 * the device, but for closes of mappings that survive a reset. All these calls are of one epoch of the device. A driver
 * identifies an open handle by its address, and after a reset it may open another handle at that address. So a close
 * that began before the reset must end before any memory is opened after the reset, and a close that begins after the
 * reset must do nothing.
 */
static struct calls {
	/* one for each device, because reading a device's epoch may wait for a reset of that device */
	pthread_mutex_t lock;
	pthread_cond_t  ended;
	uint64_t        epoch; /* the device's epoch of the calls in progress */
	unsigned        running; /* number of calls in progress */
} calls[DEVICE_KINDS][DEVICE_MAX] = { /* valid after a fork, too: a child uses no kind that its parent has used */
#define NO_CALLS { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER }
	[0 ... DEVICE_KINDS - 1] = { [0 ... DEVICE_MAX - 1] = NO_CALLS },
};

/* Whether the device was reset after the epoch `epoch`, and can be used again. */
static bool epoch_is_over(const struct gpub_client *client, int ordinal, uint64_t epoch)
{
	uint64_t now = client_epoch(client, ordinal);

	return now && now != epoch;
}

/*
 * Waits for the device's calls of other epochs to end, then begins a call of `epoch`. No call of another epoch runs
 * until device_call_end(). False: the epoch has ended, and no call has begun.
 */
static bool device_call_begin(const struct gpub_client *client, int ordinal, uint64_t epoch)
{
	struct calls *of = &calls[client->device->kind][ordinal];
	bool over;

	pthread_mutex_lock(&of->lock);
	while (!(over = epoch_is_over(client, ordinal, epoch)) && of->running && of->epoch != epoch)
		pthread_cond_wait(&of->ended, &of->lock);
	if (!over) {
		of->epoch = epoch;
		of->running++;
	}
	pthread_mutex_unlock(&of->lock);
	return !over;
}

static void device_call_end(const struct gpub_client *client, int ordinal)
{
	struct calls *of = &calls[client->device->kind][ordinal];

	pthread_mutex_lock(&of->lock);
	if (!--of->running)
		pthread_cond_broadcast(&of->ended);
	pthread_mutex_unlock(&of->lock);
}

/* ---- opening ---- */

/*
 * Stores the device's present epoch. An unused device has no epoch, so this function uses the device first, so that the
 * next reset can be detected.
 */
static int epoch_begin(const struct gpub_client *client, int ordinal, uint64_t *epoch)
{
	int error = 0;

	*epoch = client_epoch(client, ordinal);
	if (*epoch || !client->device->epoch)
		return 0;
	error = client->device->check(ordinal);
	*epoch = client_epoch(client, ordinal);
	return error;
}

/* Maps the chunks of client->chunks, from index `first` on, behind each view of the mapping that is mapped. */
static int chunks_map(const struct gpub_client *client, const struct mapping *mapping, unsigned first)
{
	const struct chunks *chunks = &client->chunks;
	int error = 0;

	for (int view = 0; view < VIEWS; view++) {
		void *base = mapping->base[view];

		if (!base || (view == VIEW_WRITE && base == mapping->base[VIEW_READ]))
			continue;
		for (unsigned i = first; i < chunks->count && !error; i++)
			error = client->device->extend(mapping->ordinal, base, chunks->chunk[i].offset,
						       chunks->chunk[i].file.fd, chunks->chunk[i].span);
	}
	return error;
}

/*
 * Closes memory that was opened for the first lease and given to no lease, so that there is no work to wait for. (A
 * kind of export with close_waits waits nevertheless.)
 */
static void memory_close_unused(const struct device *device, struct mapping *mapping)
{
	void *base = mapping->base[view_of(mapping->opened.rights)];

	if (mapping_export(mapping)->close_waits)
		(void)device->close(mapping->ordinal, base);
	else
		(void)device->unmap(mapping->ordinal, base);
	memset(mapping->base, 0, sizeof mapping->base);
}

/*
 * Returns what device->map() is to open: the first chunk of client->chunks or, if the handle alone opens the memory,
 * all of it.
 */
static struct device_memory memory_of(const struct gpub_client *client, const struct device_handle *handle,
				      const struct mapping *mapping)
{
	const struct chunk *chunk = &client->chunks.chunk[0];
	struct device_memory memory = { .handle = *handle,
					.export = mapping_export(mapping),
					.descriptor = -1,
					.size = mapping->size };

	if (memory.export->by_descriptor) {
		memory.descriptor = chunk->file.fd;
		memory.size = chunk->span;
	}
	return memory;
}

/* Maps the view that the GRANT's rights need, with all chunks of client->chunks. */
static int memory_map(const struct gpub_client *client, const struct device_handle *handle, struct mapping *mapping)
{
	const struct wire_grant *grant = &mapping->opened;
	struct device_memory memory = memory_of(client, handle, mapping);
	int error;

	memory.writable = grant->rights & GPUB_WRITE;
	memory.address = (void *)(uintptr_t)grant->address;
	memory.reserved = grant->reserve;
	error = client->device->map(mapping->ordinal, &memory, &mapping->base[view_of(grant->rights)]);

	sodium_memzero(&memory.handle, sizeof memory.handle);
	if (error)
		return error;
	if (memory.address && memory.writable)
		mapping->base[VIEW_READ] = mapping->base[VIEW_WRITE];
	if (mapping_export(mapping)->by_descriptor)
		error = chunks_map(client, mapping, 1);
	if (error)
		memory_close_unused(client->device, mapping);
	return error;
}

static int memory_open(const struct gpub_client *client, const struct device_handle *handle, struct mapping *mapping)
{
	int error;

	if (mapping_export(mapping)->views)
		return memory_map(client, handle, mapping);
	error = client->device->open(mapping->ordinal, handle, mapping->size, &mapping->base[VIEW_READ]);
	mapping->base[VIEW_WRITE] = mapping->base[VIEW_READ];
	return error;
}

/*
 * Opens the memory in the epoch mapping->epoch. *error: 0 or the error. False: the device was reset before or
 * meanwhile, so *error means nothing, and the memory is not open.
 */
static bool handle_open_in(const struct gpub_client *client, const struct device_handle *handle,
			   struct mapping *mapping, int *error)
{
	bool same;

	if (!device_call_begin(client, mapping->ordinal, mapping->epoch))
		return false;
	*error = memory_open(client, handle, mapping);
	same = client_epoch(client, mapping->ordinal) == mapping->epoch;
	if (!same && !*error)
		memory_close_unused(client->device, mapping);
	device_call_end(client, mapping->ordinal);
	return same;
}

static int handle_open(const struct gpub_client *client, const struct device_handle *handle, struct mapping *mapping)
{
	int error;

	do
		error = epoch_begin(client, mapping->ordinal, &mapping->epoch);
	while (!error && !handle_open_in(client, handle, mapping, &error));
	return error;
}

int mapping_open(struct gpub_client *client, const struct wire_grant *grant, int ordinal, struct mapping **result)
{
	struct mapping *mapping = calloc(1, sizeof *mapping);
	struct device_handle handle;
	int error;

	if (!mapping)
		return error_set(-ENOMEM, "out of memory for another mapping");
	mapping->id = grant->mapping;
	mapping->opened = *grant;
	mapping->size = grant->span;
	mapping->ordinal = ordinal;
	mapping->quiesced = true; /* no lease was taken yet */
	error = grant_unseal(client, grant, &handle);
	CRASH_POINT(handle_unsealed);
	if (!error) {
		TRACE("open");
		error = handle_open(client, &handle, mapping);
	}
	sodium_memzero(&handle, sizeof handle);
	if (error) {
		free(mapping);
		return error;
	}
	*result = mapping;
	return 0;
}

bool mapping_is_lost(const struct gpub_client *client, const struct mapping *mapping)
{
	return epoch_is_over(client, mapping->ordinal, mapping->epoch);
}

/*
 * Unmaps the view at `base`. done: true if no work on the view is left; false: waits for the work. A reset of the
 * device ends all work, but leaves the view mapped unless the kind of export has ends_at_reset.
 */
static int view_unmap(const struct gpub_client *client, const struct mapping *mapping, void *base, bool done)
{
	bool stays = !mapping_export(mapping)->ends_at_reset;
	int error = -EBUSY;

	done |= stays && mapping_is_lost(client, mapping);
	if (!done)
		error = client->device->close(mapping->ordinal, base);
	if (done || (error && stays && mapping_is_lost(client, mapping)))
		error = client->device->unmap(mapping->ordinal, base);
	return error;
}

/*
 * Unmaps all views. The close of the first view waits for the work on both views. So the second view is unmapped
 * without a wait, unless the kind of export has close_waits.
 */
static int views_unmap(const struct gpub_client *client, struct mapping *mapping)
{
	bool may_unmap = !mapping_export(mapping)->close_waits, done = may_unmap && mapping->quiesced;
	int error = 0;

	if (mapping->base[VIEW_READ] == mapping->base[VIEW_WRITE])
		mapping->base[VIEW_READ] = NULL;
	for (int view = 0; view < VIEWS && !error; view++) {
		if (!mapping->base[view])
			continue;
		error = view_unmap(client, mapping, mapping->base[view], done);
		done = may_unmap;
		if (!error)
			mapping->base[view] = NULL;
	}
	return error;
}

/*
 * Maps the memory of the other view again as `view`. If the mapping has a given address, makes the other view writable
 * instead, which then is both views. *base: the address of the view. Call it without client->lock.
 */
static int view_make(const struct gpub_client *client, const struct mapping *mapping, enum view view, void **base)
{
	int error;

	if (!device_call_begin(client, mapping->ordinal, mapping->epoch))
		return -EAGAIN;
	TRACE("view");
	*base = mapping->base[!view];
	if (mapping->opened.address)
		error = client->device->make_writable(mapping->ordinal, *base);
	else
		error = client->device->map_again(mapping->ordinal, *base, view == VIEW_WRITE, base);
	device_call_end(client, mapping->ordinal);
	return error;
}

/*
 * Waits until no other thread changes the mapping's views or size, and keeps other threads from doing so until
 * change_end(). A reset may end the caller's hold meanwhile, but no thread closes the mapping before change_end(). Call
 * it under client->lock.
 */
static void change_begin(struct gpub_client *client, struct mapping *mapping)
{
	mapping->syncing++;
	while (mapping->changing)
		pthread_cond_wait(&client->changed, &client->lock);
	mapping->changing = true;
}

static void change_end(struct gpub_client *client, struct mapping *mapping)
{
	mapping->changing = false;
	mapping->syncing--;
	pthread_cond_broadcast(&client->changed);
}

static int view_add(struct gpub_client *client, struct mapping *mapping, enum view view)
{
	void *base = NULL;
	int error;

	pthread_mutex_unlock(&client->lock);
	error = view_make(client, mapping, view, &base);
	pthread_mutex_lock(&client->lock);
	if (!error)
		mapping->base[view] = base;
	return error && mapping_is_lost(client, mapping) ? -EAGAIN : error;
}

int mapping_view(struct gpub_client *client, struct mapping *mapping, enum view view)
{
	int error = 0;

	if (mapping->base[view])
		return 0;
	change_begin(client, mapping);
	if (!mapping->base[view])
		error = view_add(client, mapping, view);
	change_end(client, mapping);
	return error;
}

/* Maps the chunks of client->chunks behind all mapped views. Call it without client->lock. */
static int views_extend(const struct gpub_client *client, const struct mapping *mapping)
{
	int error;

	if (!device_call_begin(client, mapping->ordinal, mapping->epoch))
		return -EAGAIN;
	TRACE("extend");
	error = chunks_map(client, mapping, 0);
	device_call_end(client, mapping->ordinal);
	return error;
}

int mapping_extend(struct gpub_client *client, struct mapping *mapping, const struct wire_grant *grant)
{
	int error;

	change_begin(client, mapping);
	if (mapping_export(mapping)->growable)
		error = chunks_check(&client->chunks, grant, mapping->size);
	else
		error = error_set(-EPROTO, "the broker sent more of memory that cannot grow");
	if (!error) {
		pthread_mutex_unlock(&client->lock);
		error = views_extend(client, mapping);
		pthread_mutex_lock(&client->lock);
	}
	if (!error) {
		client->mapping_bytes += grant->span - mapping->size;
		mapping->size = grant->span;
	} else if (mapping_is_lost(client, mapping)) {
		error = -EAGAIN;
	}
	change_end(client, mapping);
	return error;
}

int mapping_unmap(struct gpub_client *client, struct mapping *mapping)
{
	const struct export *export = mapping_export(mapping);
	int error;

	if (export->views && !export->ends_at_reset) {
		TRACE("close");
		return views_unmap(client, mapping);
	}
	if (!device_call_begin(client, mapping->ordinal, mapping->epoch))
		return 0;
	TRACE("close");
	error = export->views ? views_unmap(client, mapping) :
				client->device->close(mapping->ordinal, mapping->base[VIEW_READ]);
	device_call_end(client, mapping->ordinal);
	/* it is no error if a reset has closed the handle before this call */
	return error && mapping_is_lost(client, mapping) ? 0 : error;
}

int mapping_add(struct gpub_client *client, struct mapping *mapping)
{
	HASH_ADD(hh, client->mappings_by_id, id, sizeof mapping->id, mapping);
	if (!table_added(mapping))
		return error_set(-ENOMEM, "out of memory for another mapping");
	DL_APPEND(client->mappings, mapping);
	for (int scope = 0; scope < CACHE_SCOPES; scope++)
		mapping->passed[scope] = client->passes;
	client->mapping_count++;
	client->mapping_bytes += mapping->size;
	return 0;
}

void mapping_want(struct gpub_client *client, struct mapping *mapping)
{
	if (!mapping->wanted && !mapping_export(mapping)->close_waits && !mapping->leaked) {
		DL_APPEND2(client->wanted, mapping, wanted_prev, wanted_next);
		mapping->passed_wanted = client->passes;
		client->newly_due = true;
	}
	mapping->wanted = true;
}

static void mapping_unlist(struct gpub_client *client, struct mapping *mapping)
{
	if (mapping->wanted && !mapping_export(mapping)->close_waits)
		DL_DELETE2(client->wanted, mapping, wanted_prev, wanted_next);
	DL_DELETE(client->mappings, mapping);
	client->mapping_count--;
	client->mapping_bytes -= mapping->size;
}

void mapping_remove(struct gpub_client *client, struct mapping *mapping)
{
	mapping_unlist(client, mapping);
	HASH_DELETE(hh, client->mappings_by_id, mapping);
	free(mapping);
}

void mapping_leak(struct gpub_client *client, struct mapping *mapping)
{
	mapping_unlist(client, mapping);
	mapping->leaked = true;
}

void mappings_forget(struct gpub_client *client)
{
	struct mapping *mapping, *next;

	HASH_ITER(hh, client->mappings_by_id, mapping, next) {
		HASH_DELETE(hh, client->mappings_by_id, mapping);
		free(mapping);
	}
}

struct mapping *mapping_find(struct gpub_client *client, uint64_t id)
{
	struct mapping *mapping;

	HASH_FIND(hh, client->mappings_by_id, &id, sizeof id, mapping);
	return mapping;
}

void mapping_attach(struct mapping *mapping, struct record *record)
{
	record->mapping = mapping;
	DL_APPEND2(mapping->records, record, mapping_prev, mapping_next);
}

void mapping_detach(struct record *record)
{
	if (record->mapping)
		DL_DELETE2(record->mapping->records, record, mapping_prev, mapping_next);
	record->mapping = NULL;
}

struct record *mapping_record(const struct mapping *mapping, uint64_t serial)
{
	struct record *record;

	for (record = mapping->records; record; record = record->mapping_next)
		if (atomic_load(&record->serial) == serial)
			return record;
	return NULL;
}

/* Shows by a range on a profiler's time line that the driver cannot wait for work. No call of the library fails. */
static void say_unsupported(void)
{
	TRACE("this driver's closes do not wait for work: return leases in stream order");
}

int mapping_sync(struct gpub_client *client, struct mapping *mapping)
{
	struct device_handle handle = { { 0 } };
	uint64_t size = mapping->size; /* a growth may change it once client->lock is released */
	bool views = mapping_export(mapping)->views;
	int error = views ? 0 : grant_unseal(client, &mapping->opened, &handle);

	mapping->syncing++;
	pthread_mutex_unlock(&client->lock);
	/* if the epoch is over, there is nothing to wait for: a reset has ended all queued work */
	if (!error && device_call_begin(client, mapping->ordinal, mapping->epoch)) {
		TRACE("sync");
		error = client->device->sync(mapping->ordinal, views ? NULL : &handle, size);
		device_call_end(client, mapping->ordinal);
		if (error == -ENOTSUP)
			say_unsupported();
	}
	sodium_memzero(&handle, sizeof handle);
	pthread_mutex_lock(&client->lock);
	mapping->syncing--;
	pthread_cond_broadcast(&client->changed);
	return error;
}
