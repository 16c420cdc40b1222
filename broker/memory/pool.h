/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - device memory that nobody uses, kept zeroed and exported for its last owner's next buffer of that size. Also
 * has the figure of each device's free memory, as far as it is known, which decides whether a create is tried or waits.
 *
 * Nobody is charged for pooled memory. Owns allocations from pool_put() to pool_take() or the free. Keeps them within
 * the limit of usage.h. Gives memory back to the device for a create that finds too little, and all of it when the
 * broker stops. Gives nothing back for a create that could not succeed even with all of it.
 */
#ifndef GPUB_POOL_H
#define GPUB_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/device.h"
#include "slab.h"

#define POOL_OBJECTS 256 /* largest number of pooled allocations, if each costs the broker a descriptor */

struct allocation;
struct broker;
struct job;

/*
 * A create that found too little memory on the device. It waits for the memory that was on its way back to the device
 * at that time, and not for later memory, because others may free memory all the time.
 */
struct shortage {
	uint64_t before;  /* number of the first release that the create does not wait for */
	uint64_t span;    /* bytes that the create needs; other creates may not count on them */
	uint64_t missing; /* bytes of `span` that have not arrived at the device yet */
	unsigned left;    /* number of releases that the create still waits for */
	/* called when `missing` or `left` is 0 and the shortage is out of the list: the create tries again */
	void (*over)(void *context);
	void            *context;    /* first argument of over() */
	struct shortage *prev, *next; /* links in the list pool_device.shortages */
};

/* What the broker knows of one device's free memory. */
struct pool_device {
	/* free bytes as far as is known: what the device said (pool_refused(), pool_told()), and what happened since */
	uint64_t         room;
	uint64_t         returning; /* bytes that were given back to the device and have not arrived yet */
	unsigned         releases;  /* number of jobs under way that give those bytes back */
	uint64_t         claimed;   /* bytes of `room` and `returning` that the shortages in the list need */
	struct shortage *shortages; /* list of the creates that found too little memory, the oldest first */
};

struct pool {
	struct slabs       slabs;   /* pooled allocations by kind, each a slab of one range */
	struct allocation *leaving; /* list of allocations that were pooled and are on their way to the device */
	struct pool_device device[DEVICE_MAX];
	uint64_t           next;    /* number of the next release */
	unsigned           count;   /* number of pooled allocations */
	unsigned           objects; /* largest number of pooled allocations; 0: no limit */
	struct usages     *usages;  /* each user's memory of each device, owned by memory.c */
	/* Called when a device has memory again for creates that wait; may be NULL. */
	void (*wake)(struct broker *broker, unsigned device);
};

/* How much the pool keeps at most. */
struct pool_limits {
	uint64_t bytes;   /* pooled and idle bytes of each device */
	unsigned objects; /* pooled allocations of all devices together; 0: no limit */
};

void pool_init(struct broker *broker, const struct pool_limits *limits, struct usages *usages);

/*
 * Frees the structs of the allocations that are left at the broker's end, when usages_limit() has given all memory back
 * and no order is sent any more.
 */
void pool_forget(struct broker *broker);

/*
 * Decides what becomes of an allocation that no process and no device work can touch. Returns true if the pool keeps it
 * and counts it as spare: the caller has it zeroed, and then calls pool_put() if pool_keeps() is still true. Returns
 * false if the caller is to have it freed, and then to call pool_returned(). may_keep: the allocation may serve its
 * owner again.
 */
bool pool_accept(struct broker *broker, struct allocation *allocation, bool may_keep);
bool pool_keeps(const struct allocation *allocation);

/* Takes back that the pool keeps an allocation, because it could not be zeroed: the caller has it freed. */
void pool_reject(struct broker *broker, struct allocation *allocation);

/* Takes over an allocation that pool_accept() accepted. Its memory is zeroed, and its state is ALLOCATION_POOLED. */
void pool_put(struct broker *broker, struct allocation *allocation);

/*
 * Takes over a restored allocation (restore.h) that the pool of the broker before this one had, zeroed or on its way to
 * the device.
 */
void pool_restore(struct broker *broker, struct allocation *allocation);

/* Calls visit() for each pooled allocation of the device. visit() takes none out of the pool. */
void pool_each(const struct broker *broker, unsigned device,
	       void (*visit)(void *context, struct allocation *allocation), void *context);

/* Calls pool->wake(), because the device has memory again for creates that wait. */
void pool_wake(struct broker *broker, unsigned device);

/*
 * Counts the memory of an allocation that was freed as free memory of its device. error: not 0 if the device could not
 * free it; the memory is not counted then.
 */
void pool_returned(struct broker *broker, const struct allocation *allocation, int error);

/*
 * Takes pooled memory of exactly this size, device, owner, group, mode and kind of export out of the pool. Returns the
 * allocation, which is then the caller's, or NULL. Never takes another owner's memory: whoever mapped it once knows its
 * handle, which stays valid as long as the memory is not given back to the device (invariant 6).
 */
struct allocation *pool_take(struct broker *broker, const struct slab_kind *kind, uint64_t span);

/* ---- how much a device has free ---- */

/* Notes that the device refused an allocation of `span` bytes, and reported `room` bytes free. */
void pool_refused(struct broker *broker, unsigned device, uint64_t span, uint64_t room);

/* Notes that the device allocated `span` bytes. */
void pool_made(struct broker *broker, unsigned device, uint64_t span);

/* Notes that the device reported `room` bytes free. */
void pool_told(struct broker *broker, unsigned device, uint64_t room);

/* Returns true if the device has `span` bytes free, as far as the broker knows. */
bool pool_has_room(const struct broker *broker, unsigned device, uint64_t span);

/*
 * Returns true if `span` bytes, beside those that other creates have claimed, would be free if all idle and pooled
 * memory, evicted memory that counts as available, and memory that is being freed were free.
 */
bool pool_may_have_room(const struct broker *broker, unsigned device, uint64_t span);

/*
 * Returns true if `span` bytes would not be free even if all memory of the user were freed, too: then only other users
 * can free enough.
 */
bool pool_needs_others(const struct broker *broker, unsigned device, uid_t uid, uint64_t span);

/*
 * Evicts as much memory as a create of `span` bytes lacks: pooled memory if that is enough, otherwise as much idle
 * memory, whose sessions are asked to close it, as the create lacks beside the pooled memory and the memory that is
 * leaving; of each kind the user's own first. Evicts nothing if all of it is not enough. Returns true if
 * enough memory is on its way to the device: `shortage` is then in the device's list until its over() is called. The
 * caller has set shortage->over and shortage->context.
 */
bool pool_make_room(struct broker *broker, unsigned device, uid_t uid, uint64_t span, struct shortage *shortage);

/*
 * Makes an event of a job that failed. what: what the device could not do, such as "free". so: the consequence, which
 * follows in the text, or "".
 */
void pool_device_failed(struct broker *broker, const struct job *job, const char *what, const char *so);

#endif
