/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation.h - one piece of device memory, from the create that needs it to the free.
 *
 * It is one object with one state for all of that time. Slabs, idle memory and the pool are views of it: lists that it is in
 * while its state allows. memory.c changes its state while it is charged to a user; pool.c has it afterwards. The registry (above) counts in
 * it what keeps it. Owns the memory's address, its handle, and the job that will free it.
 *
 * An allocation that grew has chunks: allocations of their own, which have no buffers and no grants. Each process maps them behind each
 * other, in addresses that it reserved when it mapped the first one. A chunk lives as long as its allocation.
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
struct use;

enum allocation_state {
	ALLOCATION_MAKING,  /* the device has yet to make it */
	ALLOCATION_IN_USE,  /* buffers are in it, or one of its ranges is being zeroed */
	ALLOCATION_IDLE,    /* no buffer is in it; it is mapped, and kept for its owner's next buffer */
	ALLOCATION_EVICTED, /* it serves no new buffer; who maps it is asked to close it */
	ALLOCATION_FREEING, /* nothing and nobody can touch it: it is being zeroed for the pool, or freed */
	ALLOCATION_POOLED   /* zeroed, mapped by nobody, charged to nobody: kept for its last owner's next buffer */
};

/* The registry's: notices of an unlink or an eviction that are yet to be sent. */
struct notices {
	struct use     *use;   /* next: of a buffer that lost its name */
	struct grant   *grant; /* next: of an allocation that was evicted */
	bool            queued, again; /* again: all uses from the first on, behind the last */
	struct notices *prev, *next;
};

/* One export of whole granules on one device: of one large buffer, or of many small ones of one kind. */
struct allocation {
	enum allocation_state state;
	uint64_t             serial; /* never reused */
	unsigned             device; /* the broker's index */
	uint64_t             span;   /* bytes, whole granules; without its chunks */
	uint64_t             size;     /* bytes with its chunks */
	uint64_t             reserved; /* bytes of addresses that each process keeps for it: size, or more */
	struct allocation   *chunks;   /* that it grew by, as they lie behind it */
	unsigned             chunk_count;
	struct allocation   *chunk_prev, *chunk_next;
	void                *ptr;
	struct device_handle handle;
	int                  descriptor; /* the device's, for importers of memory that is exported by descriptors; -1 */
	uint64_t             address;    /* where each process maps it; 0: anywhere */
	struct slab          slab;
	bool                 is_private; /* its mode or owner changed, or others may have it by a ticket */
	bool                 reclaimed;  /* evicted while idle, for others: when it is closed it goes to the device */
	bool                 untold;     /* evicted, and in memory->evicted: */
	struct allocation   *evicted_prev, *evicted_next;

	/* what keeps it: counts of the registry's */
	unsigned             named; /* buffers in it that still have their name */
	unsigned             used;  /* uses of them, all together */
	unsigned             open;  /* grants on it that are not over, those that are orphaned among them */
	unsigned             orphaned;
	struct buffer       *buffers;
	struct grant        *grants;
	struct notices       notices; /* to those grants, that it is evicted */

	unsigned             busy; /* what the device is doing for it: zeroing ranges, making a chunk */
	struct charge        charge, descriptors; /* that the device keeps open for it */
	struct usage        *usage;   /* its owner's, of its device */
	struct spare         spare;   /* while it is idle or pooled, or on its way to the pool */
	struct leaving       leaving; /* when it was reclaimed */
	struct job          *job;     /* will free it: made with the memory, so that a free never fails. NULL: submitted, or not made yet */
	uint64_t             number;  /* pool.c's: of its release, as they came */
	struct allocation   *prev, *next; /* of all that are charged; on its way from the pool to the device */
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
