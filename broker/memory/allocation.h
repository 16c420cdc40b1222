/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation.h - one piece of device memory, from the create that needs it to the free.
 *
 * It is one object for all of that time; pool, idle memory and slabs are views of it. While buffers or grants are on it the
 * registry (above) has it: it keeps them here, and decides by their counts that it may be freed. In the pool it belongs to
 * pool.c. Owns the memory's address, its handle, and the job by which it will be freed.
 */
#ifndef GPUB_ALLOCATION_H
#define GPUB_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/users/accounting.h"
#include "device/device.h"
#include "slab.h"
#include "usage.h"

struct buffer;
struct grant;
struct job;
struct pool_shelf;

enum allocation_state {
	ALLOCATION_MAKING,  /* the device has yet to make it */
	ALLOCATION_IN_USE,  /* buffers are in it, or were, and it is not known yet what becomes of it */
	ALLOCATION_IDLE,    /* no buffers are in it; it is mapped, and kept for the next one of its kind */
	ALLOCATION_FREEING, /* nothing and nobody can touch it: it is being zeroed for the pool, or freed */
	ALLOCATION_POOLED   /* zeroed, mapped by nobody, charged to nobody: kept for its last owner's next buffer */
};

/* One export of whole granules on one device: of one large buffer, or of many small ones of one kind. */
struct allocation {
	enum allocation_state state;
	uint64_t             serial; /* never reused */
	unsigned             device; /* the broker's index */
	uint64_t             span;   /* bytes, whole granules */
	void                *ptr;
	struct device_handle handle;
	struct slab          slab;
	bool                 parted;   /* its mode or owner changed, or others may have it by a ticket */
	bool                 given_up; /* it serves no new buffer; who maps it was asked to close */
	bool                 evicted;  /* for others' sake: when it is closed it goes to the device */
	unsigned             named;    /* buffers in it that still have their name */
	unsigned             used;     /* uses of them, all together */
	unsigned             open;     /* grants on it that are not over, those that are held among them */
	unsigned             held;
	unsigned             cleaning; /* ranges that the device is zeroing */
	struct buffer       *buffers;
	struct grant        *grants;
	struct charge        charge, descriptors; /* that the device keeps open for it */
	struct usage        *usage; /* its owner's, of its device */
	struct spare         spare; /* while it is idle or pooled, or on its way to the pool */
	struct leaving       leaving; /* when it was evicted */
	/* That will free it: made with the memory, for a free must not want for any. NULL: submitted, or not made yet. */
	struct job          *job;
	uint64_t             number; /* pool.c's: of its release, as they came */
	struct pool_shelf   *shelf;  /* pool.c's: where it is found; NULL: nowhere */
	struct grant        *unnoticed; /* from here on its grants have the notice that it is given up yet to come */
	bool                 noticing;  /* it is among the registry's for that */
	struct allocation   *prev, *next; /* in the registry; on its shelf; on its way from the pool to the device */
	struct allocation   *notice_prev, *notice_next;
};

/* The one that the slab is of; NULL for NULL. */
static inline struct allocation *allocation_of(struct slab *slab)
{
	return slab ? (struct allocation *)((char *)slab - offsetof(struct allocation, slab)) : NULL;
}

/* The device has made it. */
static inline bool allocation_is_made(const struct allocation *allocation)
{
	return allocation->state != ALLOCATION_MAKING;
}

/* The job made its memory, and is the allocation's from now on: its free will take it. */
void allocation_made(struct allocation *allocation, struct job *job);

/* The memory of a pooled allocation is the other's from now on; the pooled one is gone. */
void allocation_adopt(struct allocation *allocation, struct allocation *pooled);

/* Forgets it. Its memory is freed, or stays the driver's until the process ends. */
void allocation_free(struct allocation *allocation);

#endif
