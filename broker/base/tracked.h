/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracked.h - which objects have a record in the status file, where it stands, and which of them changed since it was written.
 *
 * Owns the slots: an object takes one when it begins and gives it back when it ends. To mark a change is constant work and
 * cannot fail. Knows neither what an object is nor what its record says: status/ writes the records, and whoever changes an
 * object calls tracked_changed().
 */
#ifndef GPUB_TRACKED_H
#define GPUB_TRACKED_H

#include <stdbool.h>
#include <stdint.h>

#define TRACKED_MAX (2u << 20) /* objects that begin when there are so many are not shown */

enum tracked_type {
	TRACKED_NONE,
	TRACKED_DEVICE,
	TRACKED_USER,
	TRACKED_SESSION,
	TRACKED_BUFFER,
	TRACKED_GRANT,
	TRACKED_USE,
	TRACKED_TIMELINE,
	TRACKED_WAIT,    /* of a stream, as its process says */
	TRACKED_REQUEST, /* that waits in the broker */
	TRACKED_ADDRESS,
	TRACKED_HISTOGRAM,
	TRACKED_JOB, /* of a launcher */
	TRACKED_TYPES
};

/* Part of the object. All zeroes: it has no slot, and to change or end it does nothing. */
struct tracked {
	uint32_t number : 24; /* of its slot, from 1 */
	uint32_t type : 8;    /* enum tracked_type */
};

/* All zeroes to begin with. The arrays have room for as many slots as ever were taken at once. */
struct tracking {
	struct tracked **at;      /* the object in each slot; NULL: it is free */
	uint64_t        *pending; /* a bit a slot: it is among the changed */
	uint32_t        *changed; /* slots that are to be written */
	uint32_t        *freed;   /* slots that are free, or behind the last one; the last of these is taken next */
	uint32_t         changed_count, freed_count, room;
	uint32_t         slots; /* up to the last that has an object, or that was just taken */
};

void tracking_deinit(struct tracking *tracking);

/* The object is there. It is not shown where tracking is NULL, or where there is no memory or no slot for it. */
void tracked_begin(struct tracking *tracking, struct tracked *tracked, enum tracked_type type);

void tracked_changed(struct tracking *tracking, const struct tracked *tracked);

/* The object is about to be gone. */
void tracked_end(struct tracking *tracking, struct tracked *tracked);

/* For who writes: takes a slot from those that changed, of which there is one; and puts one back that could not be written. */
uint32_t tracking_take(struct tracking *tracking);
void tracking_put(struct tracking *tracking, uint32_t slot);

#endif
