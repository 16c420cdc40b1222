/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - what each user has of each device's memory, and what of it is spare: kept for that user's next buffer.
 *
 * Spare memory is idle, while some session still maps it (memory.c), or pooled, when nobody does (pool.c). There is one
 * bound a device for both kinds together. Beyond it the oldest memory of the user who keeps the most is evicted first, as
 * fair queueing drops from the longest queue: a user who keeps less than an equal part of the bound loses nothing to others.
 * Who keeps the most is found by a walk over the users that keep memory of the device: no more than the bound has granules.
 * Owns these figures, and the order of spare memory. Never frees any: evict() of its kind does.
 */
#ifndef GPUB_USAGE_H
#define GPUB_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/tables.h"
#include "device/device.h"

enum spare_kind { SPARE_IDLE, SPARE_POOLED, SPARE_KINDS };

/* In the allocation whose memory is spare. */
struct spare {
	struct usage   *usage; /* NULL: it is not spare */
	enum spare_kind kind;
	uint64_t        bytes;
	uint64_t        number; /* in the order in which all became spare */
	struct spare   *prev, *next;
};

struct usage_key {
	uint32_t device;
	uid_t    uid;
};

_Static_assert(sizeof(struct usage_key) == 8, "keys are compared as bytes: no padding");

/* There is one as long as the user has allocations or spare memory of the device. */
struct usage {
	struct usage_key key;
	unsigned         holds;   /* allocations */
	uint64_t         made;    /* bytes of those that the device has made, idle ones among them */
	uint64_t         leaving; /* bytes of those that were idle and evicted, and that somebody maps yet: that are counted on */
	uint64_t         bytes[SPARE_KINDS];
	struct spare    *spares[SPARE_KINDS]; /* the oldest first */
	UT_hash_handle   hh;
	struct usage    *prev, *next; /* of its device, while it keeps any */
};

/* In the allocation that was evicted while idle, and that somebody maps yet: it is counted on, for a while. */
struct leaving {
	struct usage   *usage; /* NULL: it is not counted on */
	uint64_t        bytes, until_ms;
	struct leaving *prev, *next; /* the earliest first */
};

struct usages {
	uint64_t      limit; /* bytes a device that may be spare */
	struct usage *by_key;
	struct usage *keeping[DEVICE_MAX];
	uint64_t      bytes[DEVICE_MAX][SPARE_KINDS];
	uint64_t      leaving[DEVICE_MAX];
	struct leaving *leavings;
	unsigned      patience_ms; /* for so long */
	uint64_t      next; /* spare's number */
	struct {
		void (*evict)(void *context, struct spare *spare);
		void *context;
	} kind[SPARE_KINDS];
};

/* Forgets them all, and what is spare: at the broker's end. */
void usages_deinit(struct usages *usages);

/* For an allocation of that user: the figures stay until usage_drop(), at least. NULL: no memory. */
struct usage *usage_hold(struct usages *usages, unsigned device, uid_t uid);
void usage_drop(struct usages *usages, struct usage *usage);

/* Or NULL, where that user has nothing there. */
struct usage *usage_find(const struct usages *usages, unsigned device, uid_t uid);

/* That memory is spare from now on. It, or other memory, is evicted where the bound is exceeded then. */
void spare_enter(struct usages *usages, struct usage *usage, struct spare *spare, enum spare_kind kind, uint64_t bytes);

/* No more, whether it was or not. */
void spare_leave(struct usages *usages, struct spare *spare);

/* Another bound, for all devices. */
void usages_limit(struct usages *usages, uint64_t limit);

/* Evicts that much of a kind, or a little more: the user's own first, then that of the user who keeps the most of it. */
void usages_reclaim(struct usages *usages, unsigned device, uid_t uid, enum spare_kind kind, uint64_t bytes);

/*
 * Evicts idle memory of that user, on any device, until so many bytes less are charged to it or soon will be. Nothing, where
 * all of it is not enough.
 */
void usages_reclaim_charged(struct usages *usages, uid_t uid, uint64_t bytes);

/* Memory that was evicted while idle is mapped still, and counted on for a while; or no more, whether it was or not. */
void usage_leaving(struct usages *usages, struct usage *usage, struct leaving *leaving, uint64_t bytes);
void usage_left(struct usages *usages, struct leaving *leaving);

/* Evicted memory that is mapped for too long is not counted on any more: whoever maps it may never close it. */
void usages_write_off_late(struct usages *usages);

#endif
