/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadlines.h - the first of many deadlines: a binary heap.
 *
 * To add or remove one costs the logarithm of their number; to read the first one costs nothing. Owns the array of pointers;
 * the deadlines are fields of the caller's objects. Never reads a clock.
 */
#ifndef GPUB_DEADLINES_H
#define GPUB_DEADLINES_H

#include <stdint.h>

struct deadline {
	uint64_t ms;
	unsigned place; /* in the heap */
};

/* Zero it to begin with. */
struct deadlines {
	struct deadline **heap; /* the children of i are at 2i+1 and 2i+2, and none is earlier than its parent */
	unsigned          count, room;
};

/* Frees the array; the deadlines are no longer in it. */
void deadlines_deinit(struct deadlines *deadlines);

int deadlines_add(struct deadlines *deadlines, struct deadline *deadline); /* -ENOMEM, nothing has changed */
void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline); /* must be there */

/* NULL: there is none. */
struct deadline *deadlines_first(const struct deadlines *deadlines);

#endif
