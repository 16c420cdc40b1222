/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h */
#include "memory.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <utlist.h>

#include "common/error.h"
#include "common/export.h"

/* ---- what becomes of an allocation ---- */

/* Notes that what the ledger says of the allocation has changed. */
static void changed(struct memory *memory, const struct allocation *allocation)
{
	tracked_changed(memory->tracking, &allocation->tracked);
}

/* Keeps new buffers from getting the allocation: takes it out of the slabs with room and out of idle memory. */
static void withdraw(struct memory *memory, struct allocation *allocation)
{
	slab_hide(&memory->slabs, &allocation->slab);
	if (allocation->state == ALLOCATION_IDLE)
		spare_leave(&memory->usages, &allocation->spare);
}

bool memory_keeps(const struct memory *memory, const struct allocation *allocation)
{
	return !allocation->slab.closed && allocation->span <= memory->usages.limit;
}

/* Makes an allocation that clients map and that has no buffers idle, or evicts it. */
static void keep_or_evict(struct memory *memory, struct allocation *allocation)
{
	if (!allocation->slab.vacant || !memory_keeps(memory, allocation)) {
		memory_evict(memory, allocation);
		return;
	}
	allocation->state = ALLOCATION_IDLE;
	changed(memory, allocation);
	spare_enter(&memory->usages, allocation->usage, &allocation->spare, SPARE_IDLE, allocation->span);
}

/*
 * Has memory freed that nothing can touch. It counts as memory on its way back to the device (pool.h), and no more as
 * its user's.
 */
static void release(struct memory *memory, struct allocation *allocation)
{
	allocation->state = ALLOCATION_FREEING;
	changed(memory, allocation);
	allocation->usage->made -= allocation->span;
	memory->orders.release(memory->orders.context, allocation);
}

/*
 * Has the last chunk of an allocation freed. The device's queue keeps the order, so a chunk is freed before its
 * allocation.
 */
static void chunk_release(struct memory *memory, struct allocation *allocation, struct allocation *chunk)
{
	DL_DELETE2(allocation->chunks, chunk, chunk_prev, chunk_next);
	chunk->parent = NULL;
	chunk->place = 0;
	allocation->chunk_count--;
	allocation->size -= chunk->span;
	release(memory, chunk);
}

void memory_decide_free(struct memory *memory, struct allocation *allocation)
{
	/* a buffer of the allocation can be acquired, or a session maps the allocation */
	bool in_reach = allocation->named || allocation->open;

	if (memory->doubted)
		return;
	if (in_reach && allocation->state == ALLOCATION_IN_USE && !allocation->buffers && !allocation->busy)
		keep_or_evict(memory, allocation);
	if (in_reach || allocation->state == ALLOCATION_FREEING)
		return;
	withdraw(memory, allocation);
	if (allocation->busy) /* a job of the device or a growth is under way, at whose end this is called again */
		return;
	usage_left(&memory->usages, &allocation->leaving);
	while (allocation->chunks)
		chunk_release(memory, allocation, allocation->chunks->chunk_prev);
	release(memory, allocation);
}

void memory_evict_again(struct memory *memory, struct allocation *allocation)
{
	if (allocation->untold)
		return;
	allocation->untold = true;
	DL_APPEND2(memory->evicted, allocation, evicted_prev, evicted_next);
}

void memory_evict(struct memory *memory, struct allocation *allocation)
{
	withdraw(memory, allocation);
	allocation->slab.closed = true;
	allocation->state = ALLOCATION_EVICTED;
	changed(memory, allocation);
	memory_evict_again(memory, allocation);
}

static void evicted_leave(struct memory *memory, struct allocation *allocation)
{
	if (allocation->untold)
		DL_DELETE2(memory->evicted, allocation, evicted_prev, evicted_next);
	allocation->untold = false;
}

struct allocation *memory_take_evicted(struct memory *memory)
{
	struct allocation *allocation = memory->evicted;

	if (allocation)
		evicted_leave(memory, allocation);
	return allocation;
}

/*
 * Evicts idle memory that is beyond the limit or that a create needs. Counts the bytes as available until the memory is
 * closed, for a while at most (struct leaving).
 */
static void evict_idle(void *context, struct spare *spare)
{
	struct memory *memory = context;
	struct allocation *allocation = (struct allocation *)((char *)spare - offsetof(struct allocation, spare));

	allocation->reclaimed = true;
	usage_leaving(&memory->usages, allocation->usage, &allocation->leaving, allocation->span);
	memory_evict(memory, allocation);
}

/* ---- making and forgetting ---- */

/*
 * Evicts as much idle memory of the owner as a create or growth of `span` bytes exceeds the owner's quota by, less what
 * is leaving already: both are charged to the owner, too. Evicts nothing if all of both is not enough.
 */
static void reclaim_charged(struct memory *memory, uid_t owner, uint64_t span)
{
	uint64_t quota = accounting_quota(memory->accounting, owner)->limit[RESOURCE_BYTES];
	uint64_t used = accounting_used(memory->accounting, owner, RESOURCE_BYTES);

	if (used + span > quota)
		usages_reclaim_charged(&memory->usages, owner, used + span - quota);
}

unsigned memory_descriptors(const struct memory *memory, unsigned exported)
{
	return memory->descriptors + export_of(exported)->by_descriptor;
}

static int allocation_new(struct memory *memory, const struct slab_kind *kind, uint64_t span,
			  struct allocation **result)
{
	struct allocation *allocation = calloc(1, sizeof *allocation);
	unsigned descriptors = memory_descriptors(memory, kind->exported);
	int error;

	if (!allocation || tracking_reserve(memory->tracking, 1) || slab_init(&allocation->slab, kind, span)) {
		free(allocation);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	reclaim_charged(memory, kind->owner, span);
	error = charge_take(&allocation->charge, memory->accounting, kind->owner, RESOURCE_BYTES, span);
	if (!error && descriptors)
		error = charge_take(&allocation->descriptors, memory->accounting, kind->owner, RESOURCE_DESCRIPTORS,
				    descriptors);
	if (error)
		goto refund;
	allocation->usage = usage_hold(&memory->usages, kind->device, kind->owner);
	if (!allocation->usage) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto refund;
	}
	allocation->descriptor = -1;
	allocation->serial = memory->next++;
	allocation->device = kind->device;
	allocation->span = allocation->size = allocation->reserved = span;
	DL_APPEND(memory->allocations, allocation);
	memory->bytes += span;
	tracked_begin(memory->tracking, &allocation->tracked, TRACKED_ALLOCATION);
	*result = allocation;
	return 0;
refund:
	charge_release(&allocation->descriptors, memory->accounting);
	charge_release(&allocation->charge, memory->accounting);
	slab_deinit(&allocation->slab);
	free(allocation);
	return error;
}

/*
 * Takes the allocation out of the lists and accounts of memory.c; one that the pool keeps stays in its user's spare
 * memory. Frees neither its struct nor its device memory.
 */
static void allocation_drop(struct memory *memory, struct allocation *allocation)
{
	assert(!allocation->buffers && !allocation->mappings && !allocation->named && !allocation->grant_count);
	withdraw(memory, allocation);
	evicted_leave(memory, allocation);
	slab_deinit(&allocation->slab);
	DL_DELETE(memory->allocations, allocation);
	memory->bytes -= allocation->span;
	addresses_give(&memory->addresses, allocation->address, allocation->reserved);
	allocation->address = 0;
	usage_left(&memory->usages, &allocation->leaving);
	usage_drop(&memory->usages, allocation->usage);
	allocation->usage = NULL;
	charge_release(&allocation->descriptors, memory->accounting);
	charge_release(&allocation->charge, memory->accounting);
	changed(memory, allocation);
}

void memory_init(struct memory *memory, struct accounting *accounting, const struct memory_orders *orders)
{
	*memory = (struct memory){ .accounting = accounting, .orders = *orders, .next = 1 };
	memory->usages.kind[SPARE_IDLE].evict = evict_idle;
	memory->usages.kind[SPARE_IDLE].context = memory;
}

void memory_deinit(struct memory *memory)
{
	struct allocation *allocation, *next;

	DL_FOREACH_SAFE(memory->allocations, allocation, next) {
		allocation_drop(memory, allocation);
		allocation_free(memory->tracking, allocation);
	}
	addresses_deinit(&memory->addresses);
	usages_deinit(&memory->usages);
}

int memory_take(struct memory *memory, const struct slab_kind *kind, uint64_t span, bool alone,
		struct allocation **result, uint32_t *range)
{
	bool is_new = alone || memory->doubted;
	struct allocation *allocation = is_new ? NULL : allocation_of(slabs_find(&memory->slabs, kind));
	int error = allocation ? 0 : allocation_new(memory, kind, span, &allocation);

	if (error)
		return error;
	allocation->slab.closed |= alone;
	changed(memory, allocation);
	if (allocation->state == ALLOCATION_IDLE) {
		allocation->state = ALLOCATION_IN_USE;
		spare_leave(&memory->usages, &allocation->spare);
	}
	*range = slab_take(&memory->slabs, &allocation->slab);
	*result = allocation;
	return 0;
}

void memory_ready(struct memory *memory, struct allocation *allocation)
{
	allocation->state = ALLOCATION_IN_USE;
	changed(memory, allocation);
	allocation->usage->made += allocation->span;
	slab_offer(&memory->slabs, &allocation->slab);
}

void memory_untake(struct memory *memory, struct allocation *allocation, uint32_t range)
{
	if (allocation_is_made(allocation)) {
		slab_vacate(&memory->slabs, &allocation->slab, range);
		memory_decide_free(memory, allocation);
		return;
	}
	allocation_drop(memory, allocation);
	allocation_free(memory->tracking, allocation);
}

void memory_reserve(struct memory *memory, struct allocation *allocation, uint64_t bytes)
{
	allocation->reserved = bytes;
	memory_make_private(memory, allocation); /* the handle opens the allocation's first part only */
}

int memory_place(struct memory *memory, struct allocation *allocation)
{
	/* only private memory, because no other buffer gets it: that buffer would get the address, too */
	assert(allocation_is_made(allocation) && allocation->is_private);
	allocation->address = addresses_take(&memory->addresses, allocation->reserved);
	changed(memory, allocation);
	return allocation->address ?
		       0 :
		       error_set(-ENOMEM, "no addresses are left for a buffer that all processes map at one address "
					  "(GPUB_SAME_ADDRESS): unlink others, or create it without");
}

static void lose_range(struct memory *memory, struct allocation *allocation)
{
	allocation->lost++;
	changed(memory, allocation);
}

void memory_order_clean(struct memory *memory, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	if (memory->orders.clean(memory->orders.context, allocation, range, serial))
		allocation->busy++;
	else
		lose_range(memory, allocation);
}

void memory_clean(struct memory *memory, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	memory_order_clean(memory, allocation, range, serial);
	memory_decide_free(memory, allocation);
}

void memory_cleaned(struct memory *memory, struct allocation *allocation, uint32_t range, int error)
{
	allocation->busy--;
	if (error)
		lose_range(memory, allocation);
	else
		slab_vacate(&memory->slabs, &allocation->slab, range);
	memory_decide_free(memory, allocation);
}

/* ---- an allocation that grows ---- */

void memory_hold(struct allocation *allocation)
{
	allocation->busy++;
}

void memory_unhold(struct memory *memory, struct allocation *allocation)
{
	allocation->busy--;
	memory_decide_free(memory, allocation);
}

int memory_grow(struct memory *memory, struct allocation *allocation, uint64_t span, struct allocation **chunk)
{
	struct slab_kind kind = allocation->slab.kind;
	int error;

	if (allocation->chunk_count + 1 == EXPORT_CHUNKS_MAX)
		return error_set(-ENOSPC,
				 "the buffer has grown %u times, and cannot grow again: grow in larger steps, such as "
				 "by half of the size",
				 allocation->chunk_count);
	kind.range = span;
	error = allocation_new(memory, &kind, span, chunk);
	if (!error)
		(*chunk)->slab.closed = (*chunk)->is_private = true;
	return error;
}

void memory_grown(struct memory *memory, struct allocation *allocation, struct allocation *chunk)
{
	memory_ready(memory, chunk);
	allocation_append(allocation, chunk);
}

void memory_not_grown(struct memory *memory, struct allocation *chunk)
{
	if (chunk->job) { /* the chunk has memory, which no client was sent */
		memory_ready(memory, chunk);
		release(memory, chunk);
		return;
	}
	allocation_drop(memory, chunk);
	allocation_free(memory->tracking, chunk);
}

void memory_shrink(struct memory *memory, struct allocation *allocation, uint64_t bytes)
{
	assert(!allocation->open);
	if (memory->doubted)
		return;
	while (allocation->chunks && allocation->size - allocation->chunks->chunk_prev->span >= bytes)
		chunk_release(memory, allocation, allocation->chunks->chunk_prev);
}

struct buffer *memory_released(struct memory *memory, struct allocation *allocation)
{
	struct buffer *buffers = allocation->buffers;

	assert(allocation->state == ALLOCATION_FREEING);
	allocation->buffers = NULL;
	allocation_drop(memory, allocation);
	return buffers;
}

void memory_keep(struct memory *memory, struct allocation *allocation)
{
	allocation->usage->made += allocation->span;
	memory_evict(memory, allocation);
}

void memory_release_again(struct memory *memory, struct allocation *allocation)
{
	memory->orders.release(memory->orders.context, allocation);
}

/* ---- another owner ---- */

void memory_make_private(struct memory *memory, struct allocation *allocation)
{
	allocation->slab.closed = allocation->is_private = true;
	changed(memory, allocation);
	slab_hide(&memory->slabs, &allocation->slab);
}

void memory_close_named(struct memory *memory)
{
	struct allocation *allocation;

	DL_FOREACH(memory->allocations, allocation)
		if (allocation_is_made(allocation) && !export_of(allocation->slab.kind.exported)->by_descriptor)
			memory_make_private(memory, allocation);
}

/* Lists the charges of an allocation and its chunks in `charges`. Returns their number. */
static size_t charges_of(struct allocation *allocation, struct charge **charges)
{
	struct allocation *chunk;
	size_t count = 0;

	charges[count++] = &allocation->charge;
	charges[count++] = &allocation->descriptors;
	DL_FOREACH2(allocation->chunks, chunk, chunk_next) {
		charges[count++] = &chunk->charge;
		charges[count++] = &chunk->descriptors;
	}
	return count;
}

static void usage_move(struct memory *memory, struct allocation *allocation, uid_t owner, struct usage *usage)
{
	allocation->usage->made -= allocation->span;
	usage->made += allocation->span;
	usage_drop(&memory->usages, allocation->usage);
	allocation->usage = usage;
	allocation->slab.kind.owner = owner;
	changed(memory, allocation);
}

int memory_change_owner(struct memory *memory, struct allocation *allocation, uid_t owner,
			struct charge *const charges[2])
{
	struct charge *old[2 + 2 * EXPORT_CHUNKS_MAX] = { charges[0], charges[1] };
	struct charge charged[sizeof old / sizeof *old] = { 0 };
	size_t count = 2 + charges_of(allocation, old + 2);
	struct usage *usage = usage_hold(&memory->usages, allocation->device, owner);
	struct allocation *chunk;
	int error = usage ? 0 : error_set(-ENOMEM, "the broker is out of memory");

	for (size_t i = 0; i < count && !error; i++)
		if (old[i]->account)
			error = charge_take(&charged[i], memory->accounting, owner, old[i]->resource, old[i]->amount);
	if (error)
		goto refund;
	memory_make_private(memory, allocation);
	DL_FOREACH2(allocation->chunks, chunk, chunk_next)
		/* cannot fail, because the call of usage_hold() above has made the usage */
		usage_move(memory, chunk, owner, usage_hold(&memory->usages, allocation->device, owner));
	usage_move(memory, allocation, owner, usage);
	for (size_t i = 0; i < count; i++) {
		charge_release(old[i], memory->accounting);
		*old[i] = charged[i];
	}
	return 0;
refund:
	for (size_t i = 0; i < count; i++)
		charge_release(&charged[i], memory->accounting);
	if (usage)
		usage_drop(&memory->usages, usage);
	return error;
}
