/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracked.h - the slots of the status file and of the ledger: says which object has which slot, and which slots are to
 * be written again because their object began, changed or ended.
 *
 * Owns the slots, and a list of changed slots for each of the two. An object takes a slot when it begins and frees the
 * slot when it ends. Marking a change takes constant time and cannot fail. Knows neither the objects nor their records:
 * the code that changes an object calls tracked_changed().
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
	TRACKED_ALLOCATION, /* in the ledger alone, as those that follow */
	TRACKED_CLEANING,   /* a range of an allocation that is being zeroed for another buffer */
	TRACKED_TICKET,     /* a ticket that can be redeemed once */
	TRACKED_PENDING,    /* a request that is accepted and not answered */
	TRACKED_OWED,       /* an answer that is not sent yet */
	TRACKED_BROKER, /* the broker's process; in the status file alone, behind the first device, in no slot */
	TRACKED_PROGRAM, /* the program of that process; behind it, in no slot */
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

/* Who writes the records of changed objects. */
enum tracking_sink { SINK_STATUS, SINK_LEDGER, SINKS };

/* The slots whose records one sink has to write. */
struct tracking_changes {
	uint64_t *pending; /* a bit for each slot; 1: the slot is in `slot` */
	uint32_t *slot;    /* stack of the changed slots */
	uint32_t  count;   /* number of the changed slots */
};

/* The slots and their objects. All zeroes at the beginning. */
struct tracking {
	struct tracked **at;      /* the object in each slot; NULL: the slot is free */
	uint32_t        *freed;   /* stack of free slots; entries from `slots` on are ignored */
	uint32_t         freed_count;
	uint32_t         room;  /* number of entries that each array has memory for */
	uint32_t         slots; /* number of slots in use: one more than the index of the last slot with an object */
	uint32_t         promised; /* number of objects that may still begin, for which slots are reserved */
	/*
	 * there is a reason for a commit (core/note.h): since the last one an object of the ledger has changed that is
	 * no answer, or an answer waits for room
	 */
	bool             urgent;
	struct tracking_changes changes[SINKS];
	/*
	 * Makes room for the records of so many slots; returns 0 or a negative errno with the error message set. NULL:
	 * no sink needs that.
	 */
	int (*reserve)(void *context, uint32_t slots);
	void *context; /* first argument of reserve() */
};

void tracking_deinit(struct tracking *tracking);

/*
 * Makes sure that the next `count` calls of tracked_begin() find a slot, beside those that are promised. Called before
 * an object without a record could do harm. Returns 0, also if tracking is NULL; or -ENOMEM with the error message set.
 */
int tracking_reserve(struct tracking *tracking, unsigned count);

/*
 * Makes room for so many slots in all, TRACKED_MAX at most, at once. Returns 0, or -ENOMEM with the error message set.
 */
int tracking_expect(struct tracking *tracking, uint32_t slots);

/*
 * Gives a new object a slot, and marks the slot to be written. Does nothing if tracking is NULL, or if there is no
 * memory or no free slot: the object is not shown then.
 */
void tracked_begin(struct tracking *tracking, struct tracked *tracked, enum tracked_type type);

/* Marks the object's slot to be written again where objects of its type are written, because the object has changed. */
void tracked_changed(struct tracking *tracking, const struct tracked *tracked);

/* Frees the slot of an object that is about to be freed, and marks the slot to be written as free. */
void tracked_end(struct tracking *tracking, struct tracked *tracked);

/* Gives each of two objects of one type the other's slot. One that has none gets none of the other's either. */
void tracked_swap(struct tracking *tracking, struct tracked *one, struct tracked *other);

/* Removes the slot that changed last from the sink's changed slots and returns it. There must be one. */
uint32_t tracking_take(struct tracking *tracking, enum tracking_sink sink);

/* Adds a slot to the sink's changed slots. Does nothing if it is one. */
void tracking_put(struct tracking *tracking, enum tracking_sink sink, uint32_t slot);

#endif
