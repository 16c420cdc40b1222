/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation.h - one piece of device memory, from the create that needs it to the free.
 *
 * An allocation is one object with one state for all of that time, but pooled memory moves to the object of the next
 * create (allocation_adopt()). Slabs, idle memory and the pool are lists that the object is in while its state allows.
 * memory.c changes the state while the allocation is charged to a user; request/reclaim.c and pool.c do afterwards. The
 * registry (above) counts in the object the names, mappings and grants that keep the allocation. Owns the memory's
 * handle, and the job that will free it.
 *
 * An allocation that grew has chunks: allocations of their own, without buffers and mappings. Each process maps the
 * chunks one behind the other, at addresses that it reserved when it mapped the allocation's first part. A chunk is
 * freed just before its allocation, or when the buffer shrinks (memory_shrink()).
 */
#ifndef GPUB_ALLOCATION_H
#define GPUB_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/base/tracked.h"
#include "broker/users/accounting.h"
#include "device/device.h"
#include "slab.h"
#include "usage.h"

struct buffer;
struct mapping;
struct job;
struct grant;

enum allocation_state {
	ALLOCATION_MAKING,  /* the device has not made the memory yet */
	/* the allocation has buffers, or one of its ranges is being zeroed, or it is a chunk */
	ALLOCATION_IN_USE,
	/* the allocation has no buffer, a process maps it, and it is kept for its owner's next buffer */
	ALLOCATION_IDLE,
	ALLOCATION_EVICTED, /* the allocation gets no new buffer, and the processes that map it are asked to close it */
	/* no process and no device work can touch the memory, which is being freed, or zeroed for the pool */
	ALLOCATION_FREEING,
	/* the memory is zeroed, not mapped, charged to nobody, and kept for its last owner's next buffer */
	ALLOCATION_POOLED
};

/*
 * Progress of the NOTICEs about a buffer that has lost its name or serial, or about an allocation that was evicted. A
 * member of each buffer and each allocation. Owned by registry/notices.c.
 */
struct notices {
	struct grant   *grant;   /* in a buffer: the next grant whose session is to be told; NULL: none */
	/* in an allocation: the next mapping whose session is to be asked to close it; NULL: none */
	struct mapping *mapping;
	bool            queued;  /* this struct is in registry->notices */
	bool            again;   /* after the last grant, another round begins with the buffer's first grant */
	struct notices *prev, *next; /* links in the list registry->notices */
};

/* One export of whole granules on one device, with one buffer or with many small buffers of one kind. */
struct allocation {
	enum allocation_state state;
	uint64_t             serial;      /* number of the allocation, never reused */
	unsigned             device;      /* index in the broker of the device that has the memory */
	uint64_t             span;        /* bytes of the first part, without chunks: whole granules */
	uint64_t             size;        /* bytes of the first part and all chunks */
	/* bytes of addresses that each process reserves for the allocation: `size` or more */
	uint64_t             reserved;
	struct allocation   *chunks;      /* list of the chunks, in the order of their addresses */
	unsigned             chunk_count; /* number of chunks */
	struct allocation   *chunk_prev, *chunk_next; /* links of a chunk in the list `chunks` of its allocation */
	struct allocation   *parent;      /* the allocation that this is a chunk of; NULL: it is none */
	unsigned             place;       /* of a chunk: its place among the chunks, from 1; else 0 */
	/* number of the memory (owner/order.h), from when the owner is ordered to make it; 0: not ordered yet */
	uint64_t             memory;
	struct device_handle handle;
	/*
	 * descriptor by which clients map the memory, until the RELEASE of the memory is ordered, which has it then;
	 * -1: clients open the memory by its handle
	 */
	int                  descriptor;
	/* address at which each process maps the memory; 0: each process chooses its own */
	uint64_t             address;
	struct slab          slab;
	/*
	 * true: the allocation gets no other buffer and is never pooled, such as when users whom its kind does not
	 * allow may map it
	 */
	bool                 is_private;
	/*
	 * evicted while idle, because the spare memory exceeded its limit or a create needs memory: is not pooled when
	 * it is closed
	 */
	bool                 reclaimed;
	/* the memory ended with the process that owned it: nobody can map it any more, and who maps it reads on */
	bool                 ended;
	bool                 releasing;   /* the RELEASE of the memory is ordered */
	uint32_t             lost;        /* number of ranges that could not be zeroed: they are not used again */
	struct tracked       tracked;
	bool                 untold;      /* the allocation is in memory->evicted */
	struct allocation   *evicted_prev, *evicted_next; /* links in the list memory->evicted */

	/* what keeps the allocation from being freed: counts and lists of the registry */
	unsigned             named;    /* number of the allocation's buffers that still have their name */
	unsigned             grant_count; /* number of the grants of all buffers in the allocation */
	unsigned             open;     /* number of the allocation's mappings, orphaned ones included */
	unsigned             orphaned; /* number of the allocation's mappings that are orphaned */
	struct buffer       *buffers;
	struct mapping      *mappings;
	struct notices       notices;  /* progress of the NOTICEs to its mappings, after it was evicted */

	/* number of the device's jobs and growths under way, which keep the allocation from being freed */
	unsigned             busy;
	struct charge        charge;      /* charge of the owner for `span` bytes */
	/* charge of the owner for the descriptors that the device keeps open for the allocation */
	struct charge        descriptors;
	struct usage        *usage;       /* the memory that the owner has of the device */
	/* place in the owner's list of spare memory, while idle, pooled, or being zeroed for the pool */
	struct spare         spare;
	/* used after the allocation was reclaimed, whose bytes then count as available for a while */
	struct leaving       leaving;
	/*
	 * job that will free the memory, allocated beforehand so that a free never fails for lack of memory; NULL: the
	 * job is submitted, or the memory is not made yet
	 */
	struct job          *job;
	/* number of its release, given by pool.c; a later release has a larger number */
	uint64_t             number;
	struct allocation   *prev, *next; /* links in the list memory->allocations or pool->leaving */
};

/* Returns the allocation that the slab is a member of; NULL for NULL. */
static inline struct allocation *allocation_of(struct slab *slab)
{
	return slab ? (struct allocation *)((char *)slab - offsetof(struct allocation, slab)) : NULL;
}

/* Returns true if the device has made the allocation's memory. */
static inline bool allocation_is_made(const struct allocation *allocation)
{
	return allocation->state != ALLOCATION_MAKING;
}

/* Makes an allocation the last chunk of another one. */
void allocation_append(struct allocation *allocation, struct allocation *chunk);

/* Gives the allocation the memory that the job has made, and the job itself, which will free the memory. */
void allocation_made(struct allocation *allocation, struct job *job);

/*
 * Moves the memory of `pooled` to `allocation`, with its slot in `tracking`, so that one slot has the memory before and
 * after. Frees the struct of `pooled` as allocation_free() does.
 */
void allocation_adopt(struct tracking *tracking, struct allocation *allocation, struct allocation *pooled);

/*
 * Makes the job's order the RELEASE of the memory, and moves the descriptor to the job: the owner gets it with the
 * order, so the last close, which frees the memory and may take milliseconds, is always the owner's.
 */
void allocation_order_release(struct allocation *allocation, struct job *job);

/*
 * Frees the struct, with its slot in `tracking`, but not the device memory: that was never made, was moved or freed
 * before, or stays the owner's until its process ends.
 */
void allocation_free(struct tracking *tracking, struct allocation *allocation);

#endif
