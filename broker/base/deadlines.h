/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadlines.h - which of many deadlines comes first: a binary heap.
 *
 * Entering one and taking one out cost the logarithm of their number, looking at the first one nothing. Owns the array of
 * pointers; the deadlines are parts of what the caller keeps. Never looks at a clock.
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
	struct deadline **heap; /* the children of i are at 2i+1 and 2i+2, and none is before its parent */
	unsigned          count, room;
};

/* The array; the deadlines are forgotten. */
void deadlines_deinit(struct deadlines *deadlines);

int deadlines_add(struct deadlines *deadlines, struct deadline *deadline); /* -ENOMEM, nothing has changed */
void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline); /* must be there */

/* NULL: there is none. */
struct deadline *deadlines_first(const struct deadlines *deadlines);

#endif
