/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - device memory that nobody uses, kept zeroed and exported for its last owner's next buffer of that size; and
 * how much memory each device has, as far as is known, by which a create is tried or waits.
 *
 * Nobody is charged for pooled memory. Owns allocations from memory_released() to the free. Keeps them within the limit
 * of usage.h. Gives memory back to the device for a create that finds too little, and all of it when the broker stops.
 * Gives nothing back for a create that could not succeed with all of it.
 */
#ifndef GPUB_POOL_H
#define GPUB_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/device.h"
#include "slab.h"

#define POOL_OBJECTS 256 /* pooled allocations at most, if each costs the broker a descriptor */

struct allocation;
struct broker;
struct job;

/*
 * A create that found too little memory on the device. It waits for the memory that was on its way back to the device
 * at that time, and not for later memory, because others may free memory all the time.
 */
struct shortage {
	uint64_t before;  /* number of the first release that it does not wait for */
	uint64_t span;    /* bytes that the create needs, which others may not count on */
	uint64_t missing; /* bytes of span that are not back yet */
	unsigned left;    /* number of releases that it still waits for */
	void (*over)(void *context); /* it is off the list, because missing or left is 0: the create tries again */
	void            *context;    /* for over() */
	struct shortage *prev, *next; /* in the device's list */
};

/* What is known of one device. */
struct pool_device {
	uint64_t         room;      /* free bytes as far as is known: as the device said last, and what changed since */
	uint64_t         returning; /* bytes that were given back to the device and have not arrived */
	unsigned         releases;  /* number of jobs that bring them */
	uint64_t         claimed;   /* bytes of room and returning that the shortages need */
	struct shortage *shortages; /* the oldest first */
};

struct pool {
	struct slabs       slabs;   /* pooled allocations by kind, each a slab of one range */
	struct allocation *leaving; /* allocations that were pooled and are on their way to the device */
	struct pool_device device[DEVICE_MAX];
	uint64_t           next;    /* number of the next release */
	unsigned           count;   /* number of pooled allocations */
	unsigned           objects; /* the most of them; 0: no limit */
	struct usages     *usages;  /* memory.h's */
	/* Called when a device has memory again for creates that wait; may be NULL. */
	void (*wake)(struct broker *broker, unsigned device);
};

/* The most that the pool keeps. */
struct pool_limits {
	uint64_t bytes;   /* of each device */
	unsigned objects; /* allocations of all devices; 0: no limit */
};

void pool_init(struct broker *broker, const struct pool_limits *limits, struct usages *usages);

/*
 * Frees what is left at the broker's end, when usages_limit() has given all memory back and the devices' threads are
 * gone.
 */
void pool_forget(struct broker *broker);

/*
 * Decides what becomes of an allocation that no process and no device work can touch. True: it is kept, and counted as
 * spare; the caller has it zeroed, and then calls pool_put() if pool_keeps() is still true. False: the caller has it
 * freed, and then calls pool_returned(). may_keep: it may serve its owner again.
 */
bool pool_accept(struct broker *broker, struct allocation *allocation, bool may_keep);
bool pool_keeps(const struct allocation *allocation);

/* Takes the acceptance of an allocation back that could not be zeroed: the caller has it freed. */
void pool_reject(struct broker *broker, struct allocation *allocation);

/* Takes an accepted allocation over, whose state is POOLED. */
void pool_put(struct broker *broker, struct allocation *allocation);

/* Calls pool->wake: the device has memory again for creates that wait. */
void pool_wake(struct broker *broker, unsigned device);

/* Counts the memory of an allocation that was freed as free again. error: the device could not free it. */
void pool_returned(struct broker *broker, const struct allocation *allocation, int error);

/*
 * Memory of exactly that size, owner, group and mode, now the caller's; or NULL. Never another owner's: whoever mapped
 * it once knows its handle, which stays valid as long as the memory is not given back to the device (invariant 6).
 */
struct allocation *pool_take(struct broker *broker, const struct slab_kind *kind, uint64_t span);

/* ---- how much a device has free ---- */

/* Notes that the device refused an allocation of `span` bytes, and reported `room` bytes free. */
void pool_refused(struct broker *broker, unsigned device, uint64_t span, uint64_t room);

/* Notes that the device allocated `span` bytes. */
void pool_made(struct broker *broker, unsigned device, uint64_t span);

/* Notes that the device reported `room` bytes free. */
void pool_told(struct broker *broker, unsigned device, uint64_t room);

/* Whether the device has `span` bytes free, as far as the broker knows. */
bool pool_has_room(const struct broker *broker, unsigned device, uint64_t span);

/* Whether `span` bytes would be free if all idle and pooled memory, and all that is being freed, were free. */
bool pool_may_have_room(const struct broker *broker, unsigned device, uint64_t span);

/*
 * Whether `span` bytes are more than would be free if all memory of the user were freed, too. Only other users can help
 * then.
 */
bool pool_needs_others(const struct broker *broker, unsigned device, uid_t uid, uint64_t span);

/*
 * Evicts as much memory as a create of `span` bytes is missing: pooled memory first, then idle memory, whose holders
 * are asked to close it; of each kind the user's own first. Evicts nothing if all of it is not enough. True: enough
 * memory is being freed, and `shortage` is in the device's list until over() is called. The caller has set over and
 * context of it.
 */
bool pool_make_room(struct broker *broker, unsigned device, uid_t uid, uint64_t span, struct shortage *shortage);

/* Makes an event of a job that failed. what: what the device could not do, such as "free"; so: what follows, or "". */
void pool_device_failed(struct broker *broker, const struct job *job, const char *what, const char *so);

#endif
