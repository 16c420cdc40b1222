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
	/* time in milliseconds of a clock that the caller chooses; does not change while the deadline is in a set */
	uint64_t ms;
};

/* All zeroes: an empty set. */
struct deadlines {
	void *tree;
};

/* returns 0, or -ENOMEM with the set unchanged */
int deadlines_add(struct deadlines *deadlines, struct deadline *deadline);
void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline); /* the deadline must be in the set */

/* Returns the earliest deadline; NULL: the set is empty. */
struct deadline *deadlines_first(const struct deadlines *deadlines);

#endif
