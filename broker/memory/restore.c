/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c - see restore.h */
#include "restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/error.h"
#include "common/export.h"
#include "job.h"

#define RANGES_MAX (1u << 20) /* ranges of an allocation at most: a granule has far fewer */

/* ---- what is noted ---- */

void allocation_note(const struct allocation *allocation, struct allocation_record *record)
{
	const struct slab *slab = &allocation->slab;

	*record = (struct allocation_record){
		.serial = allocation->serial,
		.parent = allocation->parent ? allocation->parent->serial : 0,
		.span = allocation->span,
		.reserved = allocation->reserved,
		.address = allocation->address,
		.memory = allocation->memory,
		.range = slab->kind.range,
		.device = slab->kind.device,
		.mode = slab->kind.mode,
		.exported = slab->kind.exported,
		.owner = slab->kind.owner,
		.group = slab->kind.group,
		.spare = allocation->spare.usage ? allocation->spare.number + 1 : 0,
		.chunk = allocation->place,
		.lost = allocation->lost,
		.state = (uint8_t)allocation->state,
		.dropped = !allocation->usage,
		.closed = slab->closed,
		.is_private = allocation->is_private,
		.reclaimed = allocation->reclaimed,
		.ended = allocation->ended,
		.releasing = allocation->releasing,
		.has_descriptor = allocation->descriptor >= 0,
	};
	memcpy(record->handle, allocation->handle.bytes, sizeof record->handle);
}

/* ---- what becomes of it ---- */

static int is_impossible(const struct allocation_record *record, const char *what)
{
	return error_set(-EBADMSG, "the ledger's record of allocation %llu has %s",
			 (unsigned long long)record->serial, what);
}

static int record_check(const struct allocation_record *record, int descriptor)
{
	if (!record->serial || !record->memory)
		return is_impossible(record, "no number");
	if (record->device >= DEVICE_MAX || record->exported >= export_count)
		return is_impossible(record, "an unknown device or kind of export");
	if (record->state <= ALLOCATION_MAKING || record->state > ALLOCATION_POOLED)
		return is_impossible(record, "an unknown state");
	if (record->dropped && record->state != ALLOCATION_FREEING && record->state != ALLOCATION_POOLED)
		return is_impossible(record, "no owner");
	if (!record->span || !record->range || record->range > record->span || record->reserved < record->span ||
	    record->span / record->range > RANGES_MAX)
		return is_impossible(record, "an impossible size");
	if (record->has_descriptor != (descriptor >= 0))
		return is_impossible(record, "no descriptor, or one that is not noted");
	return 0;
}

static struct slab_kind kind_of(const struct allocation_record *record)
{
	return (struct slab_kind){ .range = record->range,
				   .device = record->device,
				   .mode = record->mode,
				   .exported = record->exported,
				   .owner = record->owner,
				   .group = record->group };
}

static void copy(struct allocation *allocation, const struct allocation_record *record)
{
	allocation->state = (enum allocation_state)record->state;
	allocation->serial = record->serial;
	allocation->device = record->device;
	allocation->span = allocation->size = record->span;
	allocation->reserved = record->reserved;
	allocation->memory = record->memory;
	allocation->is_private = record->is_private;
	allocation->reclaimed = record->reclaimed;
	allocation->ended = record->ended;
	allocation->releasing = record->releasing;
	allocation->lost = record->lost;
	allocation->descriptor = -1;
	memcpy(allocation->handle.bytes, record->handle, sizeof allocation->handle.bytes);
	allocation->slab.closed = record->closed;
}

static bool is_in_use(const struct allocation *allocation)
{
	return allocation->state == ALLOCATION_IN_USE || allocation->state == ALLOCATION_IDLE ||
	       allocation->state == ALLOCATION_EVICTED;
}

/* Charges the owner, and takes the addresses. Undone by discard(). */
static int charge(struct memory *memory, struct allocation *allocation, uint64_t address)
{
	struct accounting *accounting = memory->accounting;
	uid_t owner = allocation->slab.kind.owner;
	unsigned descriptors = memory_descriptors(memory, allocation->slab.kind.exported);
	int error = charge_restore(&allocation->charge, accounting, owner, RESOURCE_BYTES, allocation->span);

	if (!error && descriptors)
		error = charge_restore(&allocation->descriptors, accounting, owner, RESOURCE_DESCRIPTORS, descriptors);
	if (!error && !(allocation->usage = usage_hold(&memory->usages, allocation->device, owner)))
		error = error_set(-ENOMEM, "the broker is out of memory");
	if (!error)
		error = addresses_claim(&memory->addresses, address, allocation->reserved);
	return error;
}

static void discard(struct memory *memory, struct allocation *allocation)
{
	if (allocation->usage)
		usage_drop(&memory->usages, allocation->usage);
	charge_release(&allocation->descriptors, memory->accounting);
	charge_release(&allocation->charge, memory->accounting);
	slab_deinit(&allocation->slab);
	allocation_free(NULL, allocation);
}

static void enter(struct memory *memory, struct allocation *allocation)
{
	DL_APPEND(memory->allocations, allocation);
	memory->bytes += allocation->span;
	if (is_in_use(allocation))
		allocation->usage->made += allocation->span;
}

int memory_restore(struct memory *memory, const struct allocation_record *record, int descriptor,
		   struct allocation **result)
{
	struct slab_kind kind = kind_of(record);
	struct allocation *allocation;
	int error = record_check(record, descriptor);

	if (!error)
		error = tracking_reserve(memory->tracking, 1);
	if (error)
		return error;
	allocation = calloc(1, sizeof *allocation);
	if (!allocation || !(allocation->job = calloc(1, sizeof *allocation->job)) ||
	    slab_init(&allocation->slab, &kind, record->span)) {
		free(allocation ? allocation->job : NULL);
		free(allocation);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	copy(allocation, record);
	error = record->dropped ? 0 : charge(memory, allocation, record->address);
	if (error) {
		discard(memory, allocation);
		return error;
	}
	allocation->address = record->address;
	allocation->descriptor = descriptor;
	if (!record->dropped)
		enter(memory, allocation);
	tracked_begin(memory->tracking, &allocation->tracked, TRACKED_ALLOCATION);
	*result = allocation;
	return 0;
}

void memory_restore_chunk(struct allocation *allocation, struct allocation *chunk)
{
	allocation_append(allocation, chunk);
}

int memory_restore_range(struct allocation *allocation, uint32_t range)
{
	if (!slab_claim(&allocation->slab, range))
		return 0;
	return error_set(-EBADMSG, "the ledger has two records of range %u of allocation %llu, or it has no such range",
			 range, (unsigned long long)allocation->serial);
}

/* Has all ranges zeroed that nothing has. */
static void clean_lost(struct memory *memory, struct allocation *allocation)
{
	allocation->lost = 0;
	if (allocation->state == ALLOCATION_IDLE)
		allocation->state = ALLOCATION_IN_USE;
	for (uint32_t range = 0; range < allocation->slab.ranges; range++)
		if (!slab_claim(&allocation->slab, range))
			memory_order_clean(memory, allocation, range, 0);
}

void memory_restored(struct memory *memory, struct allocation *allocation)
{
	if (memory->doubted)
		return;
	if (allocation->lost && is_in_use(allocation))
		clean_lost(memory, allocation);
	switch (allocation->state) {
	case ALLOCATION_IDLE:
		slab_offer(&memory->slabs, &allocation->slab);
		spare_enter(&memory->usages, allocation->usage, &allocation->spare, SPARE_IDLE, allocation->span);
		break;
	case ALLOCATION_IN_USE:
		slab_offer(&memory->slabs, &allocation->slab);
		break;
	case ALLOCATION_EVICTED:
		memory_evict_again(memory, allocation);
		break;
	default:
		break;
	}
}
