/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h */
#include "pool.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

#include <utlist.h>

#include "allocation.h"
#include "broker/base/context.h"
#include "broker/base/events.h"
#include "slab.h"
#include "usage.h"
#include "jobs.h"

/* milliseconds that evicted memory which is still mapped counts as available; it may never be closed */
#define PATIENCE_MS 2000

static struct pool_device *device_of(struct broker *broker, const struct allocation *allocation)
{
	return &broker->pool->device[allocation->device];
}

/* ---- memory that is being freed ---- */

static void returning(struct broker *broker, struct allocation *allocation)
{
	struct pool_device *device = device_of(broker, allocation);

	allocation->number = broker->pool->next++;
	device->releases++;
	device->returning += allocation->span;
}

/* Subtracts freed bytes from shortage->missing. Returns the bytes that are left over for the next shortage. */
static uint64_t shortage_fill(struct shortage *shortage, uint64_t bytes)
{
	uint64_t some = shortage->missing < bytes ? shortage->missing : bytes;

	shortage->missing -= some;
	shortage->left--;
	return bytes - some;
}

static void shortage_end(struct pool_device *device, struct shortage *shortage)
{
	DL_DELETE(device->shortages, shortage);
	device->claimed -= shortage->span;
	shortage->over(shortage->context);
}

void pool_returned(struct broker *broker, const struct allocation *allocation, int error)
{
	struct pool_device *device = device_of(broker, allocation);
	struct shortage *shortage, *next;
	uint64_t bytes = error ? 0 : allocation->span;

	device->releases--;
	device->returning -= allocation->span;
	device->room += bytes;
	DL_FOREACH_SAFE(device->shortages, shortage, next) {
		if (allocation->number >= shortage->before)
			continue;
		bytes = shortage_fill(shortage, bytes);
		if (!shortage->missing || !shortage->left)
			shortage_end(device, shortage);
	}
}

void pool_wake(struct broker *broker, unsigned device)
{
	if (broker->pool->wake)
		broker->pool->wake(broker, device);
}

void pool_device_failed(struct broker *broker, const struct job *job, const char *what, const char *so)
{
	char text[EVENT_TEXT_MAX];

	snprintf(text, sizeof text, "could not %s %llu bytes%s: %s", what, (unsigned long long)job->order.size, so,
		 job->outcome.text);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_DEVICE_FAILED,
						       .error = job->outcome.error,
						       .detail = job->order.device,
						       .text = text });
}

static void freed(struct job *job)
{
	struct broker *broker = job->context;
	struct allocation *allocation = job->subject;

	if (job->outcome.error) {
		pool_device_failed(broker, job, "free", "");
		/* the memory counted as freed when the pool took it, and is lost now */
		broker->counters.allocations_freed--;
		broker->counters.bytes_freed -= job->order.size;
	}
	DL_DELETE(broker->pool->leaving, allocation);
	allocation->job = job;
	pool_returned(broker, allocation, job->outcome.error);
	pool_wake(broker, job->order.device);
	broker_changed(broker);
	allocation_free(broker->tracking, allocation);
}

static void give_back(struct broker *broker, struct allocation *allocation)
{
	struct job *job = allocation->job;

	allocation->job = NULL;
	allocation->state = ALLOCATION_FREEING;
	tracked_changed(broker->tracking, &allocation->tracked);
	DL_APPEND(broker->pool->leaving, allocation);
	*job = (struct job){
		.order = { .device = allocation->device,
			   .memory = allocation->memory,
			   .size = allocation->span },
		.done = freed,
		.context = broker,
		.subject = allocation,
	};
	returning(broker, allocation);
	allocation_order_release(allocation, job);
	jobs_submit(broker->jobs, job);
}

/* ---- the shelves ---- */

static bool is_shelved(const struct allocation *allocation)
{
	return allocation->slab.shelf;
}

/*
 * Returns the kind by which pooled memory is found: that of one buffer of `span` bytes, whatever ranges it had before.
 */
static struct slab_kind kind_of(const struct slab_kind *slab, uint64_t span)
{
	struct slab_kind kind = *slab;

	kind.range = span;
	return kind;
}

/*
 * Puts zeroed memory on the shelf of its kind, where pool_take() finds it. Returns false if the pool has its largest
 * number of allocations, or the broker is out of memory.
 */
static bool shelve(struct pool *pool, struct allocation *allocation)
{
	if (pool->objects && pool->count >= pool->objects)
		return false;
	allocation->slab = (struct slab){ .kind = kind_of(&allocation->slab.kind, allocation->span), .vacant = 1 };
	slab_offer(&pool->slabs, &allocation->slab);
	pool->count += is_shelved(allocation);
	return is_shelved(allocation);
}

static void unshelve(struct pool *pool, struct allocation *allocation)
{
	slab_hide(&pool->slabs, &allocation->slab);
	pool->count--;
}

/* Has the device free pooled memory. Memory that is still being zeroed for the pool is freed when that is done. */
static void evict_pooled(void *context, struct spare *spare)
{
	struct broker *broker = context;
	struct allocation *allocation = (struct allocation *)((char *)spare - offsetof(struct allocation, spare));

	tracked_changed(broker->tracking, &allocation->tracked);
	if (!is_shelved(allocation)) {
		returning(broker, allocation);
		return;
	}
	unshelve(broker->pool, allocation);
	give_back(broker, allocation);
}

void pool_init(struct broker *broker, const struct pool_limits *limits, struct usages *usages)
{
	broker->pool->usages = usages;
	broker->pool->objects = limits->objects;
	usages->limit = limits->bytes;
	usages->patience_ms = PATIENCE_MS;
	usages->kind[SPARE_POOLED].evict = evict_pooled;
	usages->kind[SPARE_POOLED].context = broker;
}

void pool_forget(struct broker *broker)
{
	struct pool *pool = broker->pool;
	struct allocation *allocation;

	assert(!pool->count);
	while (pool->leaving) {
		allocation = pool->leaving;
		DL_DELETE(pool->leaving, allocation);
		allocation_free(broker->tracking, allocation);
	}
}

bool pool_accept(struct broker *broker, struct allocation *allocation, bool may_keep)
{
	struct usages *usages = broker->pool->usages;

	if (may_keep && !broker->stopping && allocation->span <= usages->limit)
		spare_enter(usages, allocation->usage, &allocation->spare, SPARE_POOLED, allocation->span);
	else
		returning(broker, allocation);
	return pool_keeps(allocation);
}

bool pool_keeps(const struct allocation *allocation)
{
	return allocation->spare.usage;
}

void pool_reject(struct broker *broker, struct allocation *allocation)
{
	spare_leave(broker->pool->usages, &allocation->spare);
	returning(broker, allocation);
}

void pool_put(struct broker *broker, struct allocation *allocation)
{
	if (shelve(broker->pool, allocation))
		return;
	spare_leave(broker->pool->usages, &allocation->spare);
	give_back(broker, allocation);
}

void pool_restore(struct broker *broker, struct allocation *allocation)
{
	struct usages *usages = broker->pool->usages;
	const struct slab_kind *kind = &allocation->slab.kind;
	struct usage *usage = usage_hold(usages, kind->device, kind->owner);

	slab_deinit(&allocation->slab);
	allocation->slab.bits = NULL;
	if (usage && allocation->state == ALLOCATION_POOLED && shelve(broker->pool, allocation))
		spare_enter(usages, usage, &allocation->spare, SPARE_POOLED, allocation->span);
	else
		give_back(broker, allocation);
	if (usage)
		usage_drop(usages, usage);
}

void pool_each(const struct broker *broker, unsigned device,
	       void (*visit)(void *context, struct allocation *allocation), void *context)
{
	const struct usage *usage;
	struct spare *spare;

	DL_FOREACH(broker->pool->usages->keeping[device], usage)
		DL_FOREACH(usage->spares[SPARE_POOLED], spare)
			visit(context, (struct allocation *)((char *)spare - offsetof(struct allocation, spare)));
}

struct allocation *pool_take(struct broker *broker, const struct slab_kind *slab, uint64_t span)
{
	struct slab_kind kind = kind_of(slab, span);
	struct allocation *allocation = allocation_of(slabs_find(&broker->pool->slabs, &kind));

	if (!allocation)
		return NULL;
	unshelve(broker->pool, allocation);
	spare_leave(broker->pool->usages, &allocation->spare);
	return allocation;
}

/* ---- how much a device has free ---- */

/* If the device had enough bytes free but refused the allocation, its free memory is fragmented, and counts as 0. */
void pool_refused(struct broker *broker, unsigned device, uint64_t span, uint64_t room)
{
	broker->pool->device[device].room = room < span ? room : 0;
}

void pool_made(struct broker *broker, unsigned device, uint64_t span)
{
	uint64_t *room = &broker->pool->device[device].room;

	*room -= span < *room ? span : *room;
}

/*
 * Only raises the known figure, because the device's answer may leave out memory that is being freed. pool_refused()
 * lowers the figure.
 */
void pool_told(struct broker *broker, unsigned device, uint64_t room)
{
	uint64_t *known = &broker->pool->device[device].room;

	*known = room > *known ? room : *known;
}

/* Returns free plus returning bytes, minus what other creates have claimed. Never negative. */
static uint64_t room_of(const struct pool_device *device)
{
	uint64_t room = device->room + device->returning;

	return room > device->claimed ? room - device->claimed : 0;
}

bool pool_has_room(const struct broker *broker, unsigned device, uint64_t span)
{
	return span <= broker->pool->device[device].room;
}

static uint64_t room_in_time(const struct broker *broker, unsigned device)
{
	const struct usages *usages = broker->pool->usages;

	return room_of(&broker->pool->device[device]) + usages->bytes[device][SPARE_POOLED] +
	       usages->bytes[device][SPARE_IDLE] + usages->leaving[device];
}

bool pool_may_have_room(const struct broker *broker, unsigned device, uint64_t span)
{
	return span <= room_in_time(broker, device);
}

/*
 * The bytes of room_in_time() contain the user's idle and leaving memory already, so these are subtracted from what the
 * user has.
 */
bool pool_needs_others(const struct broker *broker, unsigned device, uid_t uid, uint64_t span)
{
	const struct usage *usage = usage_find(broker->pool->usages, device, uid);
	uint64_t used = usage ? usage->made - usage->bytes[SPARE_IDLE] - usage->leaving : 0;

	return span > room_in_time(broker, device) + used;
}

static bool shortage_begin(struct broker *broker, struct pool_device *device, uint64_t span, struct shortage *shortage)
{
	uint64_t there = device->room > device->claimed ? device->room - device->claimed : 0;

	if (!device->releases)
		return false;
	shortage->before = broker->pool->next;
	shortage->left = device->releases;
	shortage->span = span;
	shortage->missing = span - (there < span ? there : span);
	device->claimed += span;
	DL_APPEND(device->shortages, shortage);
	return true;
}

bool pool_make_room(struct broker *broker, unsigned index, uid_t uid, uint64_t span, struct shortage *shortage)
{
	struct pool_device *device = &broker->pool->device[index];
	struct usages *usages = broker->pool->usages;
	uint64_t room = room_of(device), pooled = usages->bytes[index][SPARE_POOLED], leaving;
	uint64_t missing = span > room ? span - room : 0;

	usages_write_off_late(usages);
	leaving = usages->leaving[index];

	if (missing <= pooled) {
		usages_reclaim(usages, index, uid, SPARE_POOLED, missing);
		return shortage_begin(broker, device, span, shortage);
	}
	missing -= pooled;
	if (missing > leaving && missing - leaving <= usages->bytes[index][SPARE_IDLE])
		usages_reclaim(usages, index, uid, SPARE_IDLE, missing - leaving);
	return false;
}
