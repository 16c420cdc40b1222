/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - how much of each device's memory each user has, and how much of it is spare: kept for the user's next
 * buffer.
 *
 * Spare memory is idle, while some session still maps it (memory.c), or pooled, when nobody does (pool.c). Each device
 * has one limit for both kinds together. Beyond the limit the oldest memory of the user who keeps the most is evicted
 * first, as fair queueing drops from the longest queue: a user who keeps less than an equal part of the limit loses
 * nothing to others. The user who keeps the most is found by a walk over the users with spare memory of the device, who
 * are no more than the limit has granules. Owns these figures, and the order of spare memory. Never frees memory: the
 * function evict() of its kind does.
 */
#ifndef GPUB_USAGE_H
#define GPUB_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/tables.h"
#include "device/device.h"

enum spare_kind { SPARE_IDLE, SPARE_POOLED, SPARE_KINDS };

/* Member of an allocation, by which it is in its user's list of spare memory. */
struct spare {
	struct usage   *usage; /* usage of the user who has the memory; NULL: the memory is not spare */
	enum spare_kind kind;
	uint64_t        bytes;
	uint64_t        number; /* order of age: memory that becomes spare later gets a larger number */
	struct spare   *prev, *next; /* links in the list usage->spares of its kind */
};

struct usage_key {
	uint32_t device;
	uid_t    uid;
};

_Static_assert(sizeof(struct usage_key) == 8, "keys are compared as bytes: no padding");

/* One user's memory of one device. Exists while the user has an allocation or spare memory of the device. */
struct usage {
	struct usage_key key;
	unsigned         holds;   /* number of the user's allocations on the device */
	/* bytes of the allocations that the device has made, idle ones included, without those that are being freed */
	uint64_t         made;
	uint64_t         leaving; /* bytes of evicted memory that is mapped and counted as available (struct leaving) */
	uint64_t         bytes[SPARE_KINDS];  /* bytes of spare memory, by kind */
	struct spare    *spares[SPARE_KINDS]; /* lists of spare memory by kind, the oldest first */
	UT_hash_handle   hh;          /* handle in the hash table usages->by_key */
	/* links in the list usages->keeping of the device, while the user has spare memory */
	struct usage    *prev, *next;
};

/*
 * Member of an allocation that was evicted while idle and that sessions still map. Its bytes are counted as available
 * for a while, because the sessions are expected to close it.
 */
struct leaving {
	struct usage   *usage; /* usage of the user who has the memory; NULL: the bytes are not counted */
	uint64_t        bytes;
	uint64_t        until_ms;    /* when the count ends, in milliseconds of CLOCK_MONOTONIC */
	struct leaving *prev, *next; /* links in the list usages->leavings */
};

struct usages {
	uint64_t      limit;                          /* largest number of bytes of spare memory on each device */
	struct usage *by_key;                         /* table of all usages, by device and user */
	struct usage *keeping[DEVICE_MAX];            /* lists of the usages with spare memory, by device */
	uint64_t      bytes[DEVICE_MAX][SPARE_KINDS]; /* bytes of spare memory, by device and kind */
	/* bytes of evicted memory that are counted as available, by device */
	uint64_t      leaving[DEVICE_MAX];
	/* list of the evicted memory that is counted as available; what expires first is first */
	struct leaving *leavings;
	unsigned      patience_ms; /* milliseconds that evicted memory is counted as available */
	uint64_t      next;        /* the next value of spare.number */
	struct {
		/* frees spare memory of the kind, or has it closed */
		void (*evict)(void *context, struct spare *spare);
		void *context;
	} kind[SPARE_KINDS];
};

/* Frees all usages, at the broker's end. Spare memory is not evicted. */
void usages_deinit(struct usages *usages);

/*
 * Returns the user's usage of the device for a new allocation, and counts the allocation; makes the usage if there is
 * none. NULL: the broker is out of memory. usage_drop() ends the count, and frees a usage without allocations and spare
 * memory.
 */
struct usage *usage_hold(struct usages *usages, unsigned device, uid_t uid);
void usage_drop(struct usages *usages, struct usage *usage);

/*
 * Returns the user's usage of the device, or NULL if the user has neither allocations nor spare memory of the device.
 */
struct usage *usage_find(const struct usages *usages, unsigned device, uid_t uid);

/*
 * Adds memory to its user's spare memory. If the device then has more than the limit, evicts some, which may be this
 * one.
 */
void spare_enter(struct usages *usages, struct usage *usage, struct spare *spare, enum spare_kind kind, uint64_t bytes);

/* Removes memory from its user's spare memory. Does nothing if the memory is not spare. */
void spare_leave(struct usages *usages, struct spare *spare);

/* Sets the limit of spare memory for each device, in bytes, and evicts what exceeds it. */
void usages_limit(struct usages *usages, uint64_t limit);

/*
 * Evicts at least `bytes` bytes of the device's spare memory of the kind, or all if there is less: first the memory of
 * the user `uid`, then that of the user who has the most.
 */
void usages_reclaim(struct usages *usages, unsigned device, uid_t uid, enum spare_kind kind, uint64_t bytes);

/*
 * Evicts idle memory of the user, on any device, so that the user is charged at least `bytes` bytes less when it and
 * the memory that is leaving are freed. Evicts nothing if all of the user's idle and leaving memory is less than that.
 */
void usages_reclaim_charged(struct usages *usages, uid_t uid, uint64_t bytes);

/*
 * usage_leaving() starts to count evicted memory that is still mapped as available. usage_left() stops that, and does
 * nothing if the memory is not counted.
 */
void usage_leaving(struct usages *usages, struct usage *usage, struct leaving *leaving, uint64_t bytes);
void usage_left(struct usages *usages, struct leaving *leaving);

/*
 * Stops counting evicted memory as available when its time (until_ms) is over: the processes that map it may never
 * close it.
 */
void usages_write_off_late(struct usages *usages);

#endif
