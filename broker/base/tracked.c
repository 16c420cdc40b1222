/* SPDX-License-Identifier: Apache-2.0 */
/* tracked.c - see tracked.h */
#include "tracked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

void tracking_deinit(struct tracking *tracking)
{
	free(tracking->at);
	free(tracking->freed);
	for (unsigned sink = 0; sink < SINKS; sink++) {
		free(tracking->changes[sink].pending);
		free(tracking->changes[sink].slot);
	}
	memset(tracking, 0, sizeof *tracking);
}

static bool grow(void *array, size_t count, size_t size)
{
	void **old = array, *grown = reallocarray(*old, count, size);

	if (grown)
		*old = grown;
	return grown;
}

static bool changes_grow(struct tracking_changes *changes, uint32_t from, uint32_t room)
{
	if (!grow(&changes->pending, room / 64, sizeof *changes->pending) ||
	    !grow(&changes->slot, room, sizeof *changes->slot))
		return false;
	memset(changes->pending + from / 64, 0, (room - from) / 8);
	return true;
}

/* Grows the arrays. Returns false if there is no memory, or more slots than there may be. */
static bool room_grow(struct tracking *tracking, uint32_t room)
{
	if (room > TRACKED_MAX || (tracking->reserve && tracking->reserve(tracking->context, room)) ||
	    !grow(&tracking->at, room, sizeof *tracking->at) ||
	    !grow(&tracking->freed, room, sizeof *tracking->freed))
		return false;
	for (unsigned sink = 0; sink < SINKS; sink++)
		if (!changes_grow(&tracking->changes[sink], tracking->room, room))
			return false;
	tracking->room = room;
	return true;
}

static bool room_double(struct tracking *tracking)
{
	uint32_t room = tracking->room ? 2 * tracking->room : 64;

	if (tracking->room < TRACKED_MAX && room > TRACKED_MAX)
		room = TRACKED_MAX;
	return room_grow(tracking, room);
}

static bool slot_new(struct tracking *tracking)
{
	if (tracking->room - tracking->slots <= tracking->promised && !room_double(tracking))
		return false;
	tracking->freed[tracking->freed_count++] = tracking->slots++;
	return true;
}

int tracking_reserve(struct tracking *tracking, unsigned count)
{
	while (tracking && tracking->room - tracking->slots < count + tracking->promised)
		if (!room_double(tracking))
			return error_set(-ENOMEM, "the broker is out of memory");
	return 0;
}

int tracking_expect(struct tracking *tracking, uint32_t slots)
{
	uint32_t room = (slots + 63) / 64 * 64;

	if (room > TRACKED_MAX)
		room = TRACKED_MAX;
	if (room <= tracking->room || room_grow(tracking, room))
		return 0;
	return error_set(-ENOMEM, "the broker is out of memory");
}

void tracking_put(struct tracking *tracking, enum tracking_sink sink, uint32_t slot)
{
	struct tracking_changes *changes = &tracking->changes[sink];
	uint64_t bit = 1ull << slot % 64;

	if (changes->pending[slot / 64] & bit)
		return;
	changes->pending[slot / 64] |= bit;
	changes->slot[changes->count++] = slot;
}

#define STATUS (1u << SINK_STATUS)
#define LEDGER (1u << SINK_LEDGER)

/* Which of the two have objects of a type. */
static const uint8_t sinks_of[TRACKED_TYPES] = {
	[TRACKED_DEVICE] = STATUS,	 [TRACKED_USER] = STATUS,	  [TRACKED_SESSION] = STATUS | LEDGER,
	[TRACKED_BUFFER] = STATUS | LEDGER, [TRACKED_MAPPING] = STATUS | LEDGER, [TRACKED_GRANT] = STATUS | LEDGER,
	[TRACKED_TIMELINE] = STATUS | LEDGER, [TRACKED_WAIT] = STATUS,	  [TRACKED_REQUEST] = STATUS,
	[TRACKED_ADDRESS] = STATUS,	 [TRACKED_HISTOGRAM] = STATUS,	  [TRACKED_JOB] = STATUS,
	[TRACKED_ALLOCATION] = LEDGER,	 [TRACKED_CLEANING] = LEDGER,	  [TRACKED_TICKET] = LEDGER,
	[TRACKED_PENDING] = LEDGER,	 [TRACKED_OWED] = LEDGER,
};

/*
 * An object may get the slot of one of another type, which was written elsewhere too: there the slot is marked since
 * the end of that object.
 */
static void mark(struct tracking *tracking, const struct tracked *tracked)
{
	unsigned sinks = sinks_of[tracked->type];

	if (sinks & STATUS)
		tracking_put(tracking, SINK_STATUS, tracked->number - 1);
	if (sinks & LEDGER)
		tracking_put(tracking, SINK_LEDGER, tracked->number - 1);
	tracking->urgent |= sinks & LEDGER && tracked->type != TRACKED_OWED;
}

uint32_t tracking_take(struct tracking *tracking, enum tracking_sink sink)
{
	struct tracking_changes *changes = &tracking->changes[sink];
	uint32_t slot = changes->slot[--changes->count];

	changes->pending[slot / 64] &= ~(1ull << slot % 64);
	return slot;
}

/*
 * Takes a free slot from the stack `freed`; skips entries from tracking->slots on, which are not in use any more. Makes
 * a new slot if the stack is empty. Returns false if no slot can be made.
 */
static bool slot_find(struct tracking *tracking, uint32_t *slot)
{
	do {
		if (!tracking->freed_count && !slot_new(tracking))
			return false;
		*slot = tracking->freed[--tracking->freed_count];
	} while (*slot >= tracking->slots);
	return true;
}

void tracked_begin(struct tracking *tracking, struct tracked *tracked, enum tracked_type type)
{
	uint32_t slot;

	if (!tracking || !slot_find(tracking, &slot))
		return;
	tracking->at[slot] = tracked;
	tracked->number = (slot + 1) & 0xffffff;
	tracked->type = (uint8_t)type;
	mark(tracking, tracked);
}

void tracked_changed(struct tracking *tracking, const struct tracked *tracked)
{
	if (tracked->number)
		mark(tracking, tracked);
}

void tracked_swap(struct tracking *tracking, struct tracked *one, struct tracked *other)
{
	struct tracked before = *one;

	if (!one->number || !other->number)
		return;
	*one = *other;
	*other = before;
	tracking->at[one->number - 1] = one;
	tracking->at[other->number - 1] = other;
	tracked_changed(tracking, one);
	tracked_changed(tracking, other);
}

void tracked_end(struct tracking *tracking, struct tracked *tracked)
{
	if (!tracked->number)
		return;
	tracking->at[tracked->number - 1] = NULL;
	tracking->freed[tracking->freed_count++] = tracked->number - 1;
	mark(tracking, tracked);
	memset(tracked, 0, sizeof *tracked);
	while (tracking->slots && !tracking->at[tracking->slots - 1])
		tracking->slots--;
}
