/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - what each user has of each device's memory, and what of it is spare: kept for that user's next buffer.
 *
 * Spare memory is idle, while some session still maps it (memory.c), or pooled, when nobody does (pool.c). There is one
 * bound a device for both kinds together. Beyond it the oldest memory of the user who keeps the most is evicted first,
 * as fair queueing drops from the longest queue: a user who keeps less than an equal part of the bound loses nothing to
 * others. Who keeps the most is found by a walk over the users that keep memory of the device: no more than the bound
 * has granules. Owns these figures, and the order of spare memory. Never frees any: evict() of its kind does.
 */
#ifndef GPUB_USAGE_H
#define GPUB_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/tables.h"
#include "device/device.h"

enum spare_kind { SPARE_IDLE, SPARE_POOLED, SPARE_KINDS };

/* Member of an allocation: where it stands in its user's list of spare memory. */
struct spare {
	struct usage   *usage; /* of the user; NULL: the memory is not spare */
	enum spare_kind kind;
	uint64_t        bytes;
	uint64_t        number; /* larger than that of all memory that became spare before */
	struct spare   *prev, *next; /* in usage->spares */
};

struct usage_key {
	uint32_t device;
	uid_t    uid;
};

_Static_assert(sizeof(struct usage_key) == 8, "keys are compared as bytes: no padding");

/* One user's memory of one device. Exists while the user has an allocation or spare memory there. */
struct usage {
	struct usage_key key;
	unsigned         holds;   /* number of allocations */
	uint64_t         made;    /* bytes of the allocations that the device has made, idle ones included */
	uint64_t         leaving; /* bytes of evicted memory that is mapped and counted as available (struct leaving) */
	uint64_t         bytes[SPARE_KINDS];  /* of spare memory */
	struct spare    *spares[SPARE_KINDS]; /* spare memory, the oldest first */
	UT_hash_handle   hh;          /* by key */
	struct usage    *prev, *next; /* in usages->keeping of its device, while it has spare memory */
};

/* Member of an allocation that was evicted while idle and is still mapped: counted as available for a while. */
struct leaving {
	struct usage   *usage; /* of the user; NULL: the memory is not counted */
	uint64_t        bytes;
	uint64_t        until_ms;    /* CLOCK_MONOTONIC; not counted after that */
	struct leaving *prev, *next; /* in usages->leavings */
};

struct usages {
	uint64_t      limit;                          /* bytes of spare memory that each device may have */
	struct usage *by_key;                         /* all usages */
	struct usage *keeping[DEVICE_MAX];            /* usages with spare memory, by device */
	uint64_t      bytes[DEVICE_MAX][SPARE_KINDS]; /* of spare memory, by device */
	uint64_t      leaving[DEVICE_MAX];            /* bytes that are counted as available, by device */
	struct leaving *leavings;                     /* the one that expires first comes first */
	unsigned      patience_ms; /* how long evicted memory is counted as available */
	uint64_t      next;        /* number of the next spare memory */
	struct {
		void (*evict)(void *context, struct spare *spare); /* gives spare memory of that kind up */
		void *context;
	} kind[SPARE_KINDS];
};

/* Frees all usages, at the broker's end. Spare memory is not evicted. */
void usages_deinit(struct usages *usages);

/* Returns the usage of that user for a new allocation, which keeps it until usage_drop(). NULL: no memory. */
struct usage *usage_hold(struct usages *usages, unsigned device, uid_t uid);
void usage_drop(struct usages *usages, struct usage *usage);

/* Returns the usage of that user, or NULL if it has neither allocations nor spare memory of the device. */
struct usage *usage_find(const struct usages *usages, unsigned device, uid_t uid);

/* Adds memory to its user's spare memory. Evicts some, perhaps this, if the device then has more than the limit. */
void spare_enter(struct usages *usages, struct usage *usage, struct spare *spare, enum spare_kind kind, uint64_t bytes);

/* Removes memory from its user's spare memory. Does nothing if it is not spare. */
void spare_leave(struct usages *usages, struct spare *spare);

/* Sets the limit of all devices, and evicts what exceeds it. */
void usages_limit(struct usages *usages, uint64_t limit);

/*
 * Evicts at least that many bytes of spare memory of a kind, if there are so many: first the user's own, then that of
 * the user who has the most.
 */
void usages_reclaim(struct usages *usages, unsigned device, uid_t uid, enum spare_kind kind, uint64_t bytes);

/*
 * Evicts idle memory of that user, on any device, so that the user is charged that many bytes less when it is freed.
 * Evicts nothing if all of the user's idle memory is less than that.
 */
void usages_reclaim_charged(struct usages *usages, uid_t uid, uint64_t bytes);

/* Starts (stops) counting evicted memory that is still mapped as available. Stopping twice does nothing. */
void usage_leaving(struct usages *usages, struct usage *usage, struct leaving *leaving, uint64_t bytes);
void usage_left(struct usages *usages, struct leaving *leaving);

/* Stops counting evicted memory whose time is over: the process that maps it may never close it. */
void usages_write_off_late(struct usages *usages);

#endif
