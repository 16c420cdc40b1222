/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation.h - one piece of device memory, from the create that needs it to the free.
 *
 * An allocation is one object with one state for all of that time. Slabs, idle memory and the pool are lists that it is
 * in while its state allows. memory.c changes the state while the allocation is charged to a user; pool.c has it
 * afterwards. The registry (above) counts in it what keeps it. Owns the memory's address, its handle, and the job that
 * will free it.
 *
 * An allocation that grew has chunks: allocations of their own, without buffers and mappings. Each process maps the
 * chunks behind each other, in addresses that it reserved when it mapped the first one. A chunk lives as long as its
 * allocation.
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
struct mapping;
struct job;
struct grant;

enum allocation_state {
	ALLOCATION_MAKING,  /* the device has not made it yet */
	ALLOCATION_IN_USE,  /* it has buffers, or one of its ranges is being zeroed */
	ALLOCATION_IDLE,    /* it has no buffer, some process maps it, and it is kept for its owner's next buffer */
	ALLOCATION_EVICTED, /* it serves no new buffer; the processes that map it are asked to close it */
	ALLOCATION_FREEING, /* no process and no device work can touch it; it is being zeroed for the pool, or freed */
	ALLOCATION_POOLED   /* zeroed, not mapped, charged to nobody, and kept for its last owner's next buffer */
};

/* Notices of an unlink or an eviction that are yet to be sent. registry/notices.c's. */
struct notices {
	struct grant   *grant;   /* the next grant to be told that its buffer has lost the name; NULL: none */
	struct mapping *mapping; /* the next mapping to be told that its allocation was evicted; NULL: none */
	bool            queued;  /* it is in registry->notices */
	bool            again;   /* behind the last grant, all grants are told once more from the first on */
	struct notices *prev, *next; /* in registry->notices */
};

/* One export of whole granules on one device: of one large buffer, or of many small ones of one kind. */
struct allocation {
	enum allocation_state state;
	uint64_t             serial;      /* never reused */
	unsigned             device;      /* the broker's index */
	uint64_t             span;        /* bytes without its chunks: whole granules */
	uint64_t             size;        /* bytes with its chunks */
	uint64_t             reserved;    /* bytes of addresses that each process keeps for it: size, or more */
	struct allocation   *chunks;      /* in the order in which they lie behind it */
	unsigned             chunk_count; /* number of chunks */
	struct allocation   *chunk_prev, *chunk_next; /* of a chunk: in its allocation's list of chunks */
	void                *ptr;         /* in the broker; NULL: the device has not made it */
	struct device_handle handle;
	int                  descriptor;  /* the device's, by which importers map it; -1: the handle is enough */
	uint64_t             address;     /* where each process maps it; 0: anywhere */
	struct slab          slab;
	bool                 is_private;  /* users beside those that its kind says may map it, so it is never pooled */
	bool                 reclaimed;   /* evicted while idle, for another create: is not pooled when it is closed */
	bool                 untold;      /* it is in memory->evicted */
	struct allocation   *evicted_prev, *evicted_next; /* in memory->evicted */

	/* what keeps it: counts and lists of the registry's */
	unsigned             named;    /* buffers in it that still have their name */
	unsigned             grant_count; /* grants of all its buffers */
	unsigned             open;     /* mappings on it, orphaned ones included */
	unsigned             orphaned; /* mappings on it that are orphaned */
	struct buffer       *buffers;
	struct mapping      *mappings;
	struct notices       notices;  /* to its mappings, when it was evicted */

	unsigned             busy;        /* jobs of the device on it: zeroing ranges, making a chunk */
	struct charge        charge;      /* for its bytes */
	struct charge        descriptors; /* for the descriptors that the device keeps open for it */
	struct usage        *usage;       /* of its owner on its device */
	struct spare         spare;       /* in the list of spare memory, while idle or pooled */
	struct leaving       leaving;     /* after it was reclaimed */
	struct job          *job;         /* will free it, so that no free fails; NULL: submitted, or not made */
	uint64_t             number;      /* pool.c: of its release; a later release has a larger one */
	struct allocation   *prev, *next; /* in memory->allocations, or in pool->leaving */
};

/* Returns the allocation that the slab is a member of; NULL for NULL. */
static inline struct allocation *allocation_of(struct slab *slab)
{
	return slab ? (struct allocation *)((char *)slab - offsetof(struct allocation, slab)) : NULL;
}

/* Whether the device has made the allocation. */
static inline bool allocation_is_made(const struct allocation *allocation)
{
	return allocation->state != ALLOCATION_MAKING;
}

/* Takes the memory that the job made, and the job itself, which will free the memory. */
void allocation_made(struct allocation *allocation, struct job *job);

/* Moves the memory of a pooled allocation to the other one, and frees the pooled one. */
void allocation_adopt(struct allocation *allocation, struct allocation *pooled);

/* Frees the object. Its memory was freed, or stays the driver's until the process ends. */
void allocation_free(struct allocation *allocation);

#endif
