/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracked.h - the slots of the status file: says which object has which slot, and which slots are to be written again
 * because their object began, changed or ended.
 *
 * Owns the slots. An object takes a slot when it begins and frees the slot when it ends. Marking a change takes
 * constant time and cannot fail. Knows neither the objects nor their records: status/ writes the records, and the code
 * that changes an object calls tracked_changed().
 */
#ifndef GPUB_TRACKED_H
#define GPUB_TRACKED_H

#include <stdbool.h>
#include <stdint.h>

#define TRACKED_MAX (2u << 20) /* largest number of slots; an object that finds no free slot is not shown */

enum tracked_type {
	TRACKED_NONE,
	TRACKED_DEVICE,
	TRACKED_USER,
	TRACKED_SESSION,
	TRACKED_BUFFER,
	TRACKED_MAPPING,
	TRACKED_GRANT,
	TRACKED_TIMELINE,
	TRACKED_WAIT,    /* a stream's wait for a timeline, as the process of the session reports */
	TRACKED_REQUEST, /* a request that waits in the broker */
	TRACKED_ADDRESS, /* the address at which the broker listens */
	TRACKED_HISTOGRAM,
	TRACKED_JOB, /* the launcher's job that the broker belongs to */
	TRACKED_OWNER, /* the process that owns the device memory; stands behind the address, in no slot of its own */
	TRACKED_TYPES
};

/*
 * A member of each object that the status file shows. All zeroes: the object has no slot, and its changes and its end
 * are ignored.
 */
struct tracked {
	uint32_t number : 24; /* index of the object's slot plus 1; 0: the object has no slot */
	uint32_t type : 8;    /* a value of enum tracked_type */
};

/* The slots and their objects. All zeroes at the beginning. */
struct tracking {
	struct tracked **at;      /* the object in each slot; NULL: the slot is free */
	uint64_t        *pending; /* a bit for each slot; 1: the slot is in the list `changed` */
	uint32_t        *changed; /* list of the slots that are to be written */
	uint32_t        *freed;   /* stack of free slots; entries from `slots` on are ignored */
	uint32_t         changed_count, freed_count;
	uint32_t         room;  /* number of entries that each of the four arrays has memory for */
	uint32_t         slots; /* number of slots in use: one more than the index of the last slot with an object */
};

void tracking_deinit(struct tracking *tracking);

/*
 * Gives a new object a slot, and marks the slot to be written. Does nothing if tracking is NULL, or if there is no
 * memory or no free slot: the object is not shown then.
 */
void tracked_begin(struct tracking *tracking, struct tracked *tracked, enum tracked_type type);

/* Marks the object's slot to be written again, because the object has changed. */
void tracked_changed(struct tracking *tracking, const struct tracked *tracked);

/* Frees the slot of an object that is about to be freed, and marks the slot to be written as free. */
void tracked_end(struct tracking *tracking, struct tracked *tracked);

/* Removes one slot from the list of changed slots and returns it. The list must not be empty. */
uint32_t tracking_take(struct tracking *tracking);

/* Adds a slot to the list of changed slots, unless the slot is in the list already. */
void tracking_put(struct tracking *tracking, uint32_t slot);

#endif
