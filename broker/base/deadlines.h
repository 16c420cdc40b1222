/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadlines.h - a binary heap of deadlines, which gives the earliest one.
 *
 * Adding or removing a deadline takes O(log n), and reading the earliest takes constant time. Owns an array of
 * pointers; the deadlines are fields of the caller's objects. Never reads a clock.
 */
#ifndef GPUB_DEADLINES_H
#define GPUB_DEADLINES_H

#include <stdint.h>

struct deadline {
	uint64_t ms;    /* milliseconds of a clock that the caller chooses */
	unsigned place; /* its index in the heap, while it is in one */
};

/* All zeroes: an empty heap. */
struct deadlines {
	struct deadline **heap; /* entry i has its children at 2i+1 and 2i+2, and no child is earlier than its parent */
	unsigned          count; /* deadlines in the heap */
	unsigned          room;  /* entries that the array has memory for */
};

/* Frees the array and empties the heap. The deadlines themselves stay the caller's. */
void deadlines_deinit(struct deadlines *deadlines);

int deadlines_add(struct deadlines *deadlines, struct deadline *deadline); /* 0, or -ENOMEM with the heap unchanged */
void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline); /* the deadline must be in the heap */

/* Returns the earliest deadline; NULL: the heap is empty. */
struct deadline *deadlines_first(const struct deadlines *deadlines);

#endif
