/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - device memory that nobody uses, kept zeroed and exported for its last owner's next buffer of that size; and what
 * is known of the memory of each device, from which creates learn whether to try.
 *
 * Nobody is charged for pooled memory. Owns allocations from memory_released() to the free. Keeps them within the bound of
 * usage.h. Gives memory back to the device for a create that finds too little, and all of it when the broker stops; nothing for a
 * create that could not succeed with it.
 */
#ifndef GPUB_POOL_H
#define GPUB_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/device.h"
#include "slab.h"

#define POOL_OBJECTS 256 /* allocations that are pooled at most, where each costs the broker a descriptor */

struct allocation;
struct broker;
struct job;

/*
 * A create that found too little memory on the device. It waits for what was on its way back to the device then, and for
 * nothing later: others may free memory all the time.
 */
struct shortage {
	uint64_t before;  /* the number of the first release that came later */
	uint64_t span;    /* bytes that are asked for: others may not count on them */
	uint64_t missing; /* of those */
	unsigned left;    /* releases of those before that are on their way still */
	void (*over)(void *context); /* nothing is missing, or nothing left: it is off the list, and may try again */
	void            *context;
	struct shortage *prev, *next;
};

/* Of one device. */
struct pool_device {
	uint64_t         room;      /* bytes that it has, as far as is known: told by it when it had too few, or more than known */
	uint64_t         returning; /* bytes that are given back to it, and not yet with it */
	unsigned         releases;  /* as so many pieces */
	uint64_t         claimed;   /* bytes of both that the shortages are for */
	struct shortage *shortages;
};

struct pool {
	struct slabs       slabs;   /* what is kept, each a slab of one range: found as slabs are */
	struct allocation *leaving; /* pooled before, on their way to the device */
	struct pool_device device[DEVICE_MAX];
	uint64_t           next;    /* release's number */
	unsigned           count;   /* allocations that are kept */
	unsigned           objects; /* so many of those at most; 0: any number */
	struct usages     *usages;  /* memory.h's */
	void (*came)(struct broker *broker, unsigned device); /* set by whoever waits for memory; may be NULL */
};

/* What it keeps at most: bytes of each device; allocations in all, 0 for any number. */
struct pool_limits {
	uint64_t bytes;
	unsigned objects;
};

void pool_init(struct broker *broker, const struct pool_limits *limits, struct usages *usages);

/* At the broker's end: all was given back by usages_limit(), and the devices' threads are gone. */
void pool_forget(struct broker *broker);

/*
 * Nothing and nobody can touch the allocation any more. True: it is kept and counted from now on; the caller has it zeroed, and calls
 * pool_put() if pool_keeps() still says so. False: it goes to the device: pool_returned() when it is there. may_keep: it may
 * serve its owner again.
 */
bool pool_accept(struct broker *broker, struct allocation *allocation, bool may_keep);
bool pool_keeps(const struct allocation *allocation);

/* What was accepted could not be zeroed: it is on its way to the device now. */
void pool_reject(struct broker *broker, struct allocation *allocation);

/* Takes over a POOLED allocation, which is kept still. */
void pool_put(struct broker *broker, struct allocation *allocation);

/* Memory of that device came back: whoever waits for some is told. */
void pool_came(struct broker *broker, unsigned device);

/* The device has that memory back, unless it could not free it. */
void pool_returned(struct broker *broker, const struct allocation *allocation, int error);

/*
 * Memory of exactly that size, owner, group and mode, now the caller's; or NULL. Never another owner's: whoever
 * mapped it once knows its handle, which stays valid as long as the memory is not given back to the device (invariant 6).
 */
struct allocation *pool_take(struct broker *broker, const struct slab_kind *kind, uint64_t span);

/* ---- what a device has ---- */

/* It had no memory for span bytes, when so many were free. */
void pool_refused(struct broker *broker, unsigned device, uint64_t span, uint64_t room);

/* It made memory of that size. */
void pool_made(struct broker *broker, unsigned device, uint64_t span);

/* It says that it has so much. */
void pool_told(struct broker *broker, unsigned device, uint64_t room);

/* Has it room for that now, as far as is known? */
bool pool_has_room(const struct broker *broker, unsigned device, uint64_t span);

/* Or would it have, with all that is kept or on its way back? */
bool pool_may_have_room(const struct broker *broker, unsigned device, uint64_t span);

/* Whether that is more than the device would have if that user gave back all of its memory: then only other users can help. */
bool pool_needs_others(const struct broker *broker, unsigned device, uid_t uid, uint64_t span);

/*
 * Gives back what a create needs: of the pool as much as is missing, or, where that is not enough, asks for as much of the
 * idle memory; the user's own first. Nothing, where both are not enough. True: what is on its way will do. The shortage, with
 * over() and context set, is on the list then.
 */
bool pool_make_room(struct broker *broker, unsigned device, uid_t uid, uint64_t span, struct shortage *shortage);

/* A device failed at what the loop needs no answer to. what: "free", "zero"; so: what follows from that, or "". */
void pool_device_failed(struct broker *broker, const struct job *job, const char *what, const char *so);

#endif
