/* SPDX-License-Identifier: Apache-2.0 */
/* tracked.c - see tracked.h */
#include "tracked.h"

#include <stdlib.h>
#include <string.h>

void tracking_deinit(struct tracking *tracking)
{
	free(tracking->at);
	free(tracking->pending);
	free(tracking->changed);
	free(tracking->freed);
	memset(tracking, 0, sizeof *tracking);
}

static bool grow(void *array, size_t count, size_t size)
{
	void **old = array, *grown = reallocarray(*old, count, size);

	if (grown)
		*old = grown;
	return grown;
}

static bool slot_new(struct tracking *tracking)
{
	uint32_t room = tracking->room ? 2 * tracking->room : 64;

	if (tracking->slots == TRACKED_MAX)
		return false;
	if (tracking->slots == tracking->room) {
		if (!grow(&tracking->at, room, sizeof *tracking->at) ||
		    !grow(&tracking->pending, room / 64, sizeof *tracking->pending) ||
		    !grow(&tracking->changed, room, sizeof *tracking->changed) ||
		    !grow(&tracking->freed, room, sizeof *tracking->freed))
			return false;
		memset(tracking->pending + tracking->room / 64, 0, (room - tracking->room) / 8);
		tracking->room = room;
	}
	tracking->freed[tracking->freed_count++] = tracking->slots++;
	return true;
}

void tracking_put(struct tracking *tracking, uint32_t slot)
{
	uint64_t bit = 1ull << slot % 64;

	if (tracking->pending[slot / 64] & bit)
		return;
	tracking->pending[slot / 64] |= bit;
	tracking->changed[tracking->changed_count++] = slot;
}

uint32_t tracking_take(struct tracking *tracking)
{
	uint32_t slot = tracking->changed[--tracking->changed_count];

	tracking->pending[slot / 64] &= ~(1ull << slot % 64);
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
	tracking_put(tracking, slot);
}

void tracked_changed(struct tracking *tracking, const struct tracked *tracked)
{
	if (tracked->number)
		tracking_put(tracking, tracked->number - 1);
}

void tracked_end(struct tracking *tracking, struct tracked *tracked)
{
	if (!tracked->number)
		return;
	tracking->at[tracked->number - 1] = NULL;
	tracking->freed[tracking->freed_count++] = tracked->number - 1;
	tracking_put(tracking, tracked->number - 1);
	memset(tracked, 0, sizeof *tracked);
	while (tracking->slots && !tracking->at[tracking->slots - 1])
		tracking->slots--;
}
