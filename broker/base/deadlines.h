/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadlines.h - a set of deadlines, which gives the earliest one: the C library's balanced tree, tsearch(3).
 *
 * Each function takes O(log n). Owns the nodes of the tree; the deadlines are fields of the caller's objects, and the
 * caller removes each of them. Never reads a clock.
 */
#ifndef GPUB_DEADLINES_H
#define GPUB_DEADLINES_H

#include <stdint.h>

struct deadline {
	uint64_t ms; /* milliseconds of a clock that the caller chooses; does not change while it is in a set */
};

/* All zeroes: an empty set. */
struct deadlines {
	void *tree;
};

int deadlines_add(struct deadlines *deadlines, struct deadline *deadline); /* 0, or -ENOMEM with the set unchanged */
void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline); /* the deadline must be in the set */

/* Returns the earliest deadline; NULL: the set is empty. */
struct deadline *deadlines_first(const struct deadlines *deadlines);

#endif
