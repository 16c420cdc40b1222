/* SPDX-License-Identifier: Apache-2.0 */
/* deadlines.c - see deadlines.h */
#include "deadlines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void deadlines_deinit(struct deadlines *deadlines)
{
	free(deadlines->heap);
	memset(deadlines, 0, sizeof *deadlines);
}

static void put(struct deadlines *deadlines, unsigned place, struct deadline *deadline)
{
	deadlines->heap[place] = deadline;
	deadline->place = place;
}

/* Puts the deadline at the free index `place`, or higher up the heap, so that its parent is not later. */
static void rise(struct deadlines *deadlines, unsigned place, struct deadline *deadline)
{
	while (place && deadlines->heap[(place - 1) / 2]->ms > deadline->ms) {
		put(deadlines, place, deadlines->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	put(deadlines, place, deadline);
}

/* Puts the deadline at the free index `place`, or further down the heap, so that no child is earlier. */
static void sink(struct deadlines *deadlines, unsigned place, struct deadline *deadline)
{
	unsigned child;

	for (; (child = 2 * place + 1) < deadlines->count; place = child) {
		if (child + 1 < deadlines->count && deadlines->heap[child + 1]->ms < deadlines->heap[child]->ms)
			child++;
		if (deadlines->heap[child]->ms >= deadline->ms)
			break;
		put(deadlines, place, deadlines->heap[child]);
	}
	put(deadlines, place, deadline);
}

static bool grow(struct deadlines *deadlines)
{
	unsigned room = deadlines->room ? 2 * deadlines->room : 16;
	struct deadline **heap = reallocarray(deadlines->heap, room, sizeof *heap);

	if (!heap)
		return false;
	deadlines->heap = heap;
	deadlines->room = room;
	return true;
}

int deadlines_add(struct deadlines *deadlines, struct deadline *deadline)
{
	if (deadlines->count == deadlines->room && !grow(deadlines))
		return -ENOMEM;
	rise(deadlines, deadlines->count++, deadline);
	return 0;
}

void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline)
{
	struct deadline *last = deadlines->heap[--deadlines->count];
	unsigned place = deadline->place;

	if (last == deadline)
		return;
	if (place && deadlines->heap[(place - 1) / 2]->ms > last->ms)
		rise(deadlines, place, last);
	else
		sink(deadlines, place, last);
}

struct deadline *deadlines_first(const struct deadlines *deadlines)
{
	return deadlines->count ? deadlines->heap[0] : NULL;
}
