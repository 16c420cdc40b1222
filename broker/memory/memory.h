/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - all allocations of one broker: who gets a range of which, and when one is freed.
 *
 * Owns each allocation from the request for a range until memory_released(), and what its owner is charged for it.
 * The registry (above) asks for a range, counts in the allocation what keeps it (names, mappings), and calls
 * memory_decide_free() whenever such a count fell. That function decides that an allocation is freed;
 * memory_shrink() and memory_not_grown() give back chunks, which nobody maps, of an allocation that stays.
 * request/reclaim.c has the device's thread free it. Knows nothing of names, buffers and sessions: the registry
 * asks it what was evicted, and request/reclaim.c tells the registry what the device has done.
 */
#ifndef GPUB_MEMORY_H
#define GPUB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "addresses.h"
#include "allocation.h"

/* How decisions are carried out: request/reclaim.c, except in unit tests. */
struct memory_orders {
	/* Has the range of the buffer with that serial zeroed, then calls memory_cleaned(). False: out of memory. */
	bool (*clean)(void *context, struct allocation *allocation, uint32_t range, uint64_t serial);
	/* Has the allocation, which nothing can touch, freed or zeroed for the pool, then calls memory_released(). */
	void (*release)(void *context, struct allocation *allocation);
	void *context;
};

struct memory {
	struct slabs         slabs; /* those with room */
	struct usages        usages; /* what each user has of each device, the pool included */
	struct allocation   *allocations; /* all but the pool's */
	struct allocation   *evicted;     /* holders are yet to be asked to close these: memory_take_evicted() */
	uint64_t             bytes;       /* in all of these */
	uint64_t             next;        /* allocation's serial */
	struct accounting   *accounting;
	unsigned             exported;    /* the kind of export of buffers that need no other one */
	unsigned             descriptors; /* that the device keeps open for an allocation, without its export */
	struct addresses     addresses;
	struct memory_orders orders;
};

void memory_init(struct memory *memory, struct accounting *accounting, const struct memory_orders *orders);
/* no buffer and no mapping is left; memory that is not freed stays the driver's */
void memory_deinit(struct memory *memory);

/*
 * A range for a buffer: of an allocation of its kind with room, or, where there is none or the buffer is to be
 * alone, of a new one, which is charged to the owner. allocation_is_made() says whether the device has yet to make
 * it. -EDQUOT, -ENOMEM.
 */
int memory_take(struct memory *memory, const struct slab_kind *kind, uint64_t span, bool alone,
		struct allocation **allocation, uint32_t *range);

/*
 * The allocation, which is new and of one buffer, may grow up to so many bytes: each process reserves addresses for
 * them.
 */
void memory_reserve(struct memory *memory, struct allocation *allocation, uint64_t bytes);

/*
 * The allocation, which is made, private and of one buffer, gets addresses that no other has: all processes map it
 * there. Only memory gets any, so who has none cannot take the addresses of others. -ENOMEM: none are left.
 */
int memory_place(struct memory *memory, struct allocation *allocation);

/* Nobody ever saw what was in the range. An allocation that was never made is gone with it. */
void memory_untake(struct memory *memory, struct allocation *allocation, uint32_t range);

/* The device made it. */
void memory_ready(struct memory *memory, struct allocation *allocation);

/* The buffer with that serial, which is out of the allocation, was the last to use the range: it is to be zeroed. */
void memory_clean(struct memory *memory, struct allocation *allocation, uint32_t range, uint64_t serial);

/*
 * The rule of invariant 2: decides whether the allocation is freed. To be called whenever a name, a mapping, a buffer
 * or a cleaning of it has ended. The allocation may be gone afterwards.
 */
void memory_decide_free(struct memory *memory, struct allocation *allocation);

/* The allocation serves no new buffer, and is in the list of those whose holders are to be asked to close them. */
void memory_evict(struct memory *memory, struct allocation *allocation);

/* Takes the first allocation off that list: the caller asks its holders. NULL: the list is empty. */
struct allocation *memory_take_evicted(struct memory *memory);

/* Once no buffer is in it, it is kept for its owner's next one. */
bool memory_keeps(const struct memory *memory, const struct allocation *allocation);

/* No other buffer joins the one that is in it, and the pool does not keep it: others than its kind says may map it. */
void memory_make_private(struct memory *memory, struct allocation *allocation);

/* How many descriptors the device keeps open for an allocation of that kind of export. */
unsigned memory_descriptors(const struct memory *memory, unsigned exported);

/*
 * The names of all memory that importers open by name are gone: no new buffer gets any of it. Idle and pooled memory
 * is the caller's to evict before.
 */
void memory_close_named(struct memory *memory);

/*
 * The allocation is another user's from now on, who is charged with it and with those charges of its buffer. The device
 * is doing nothing for it. -EDQUOT, -ENOMEM: all as before.
 */
int memory_change_owner(struct memory *memory, struct allocation *allocation, uid_t owner,
			struct charge *const charges[2]);

/* ---- an allocation that grows ---- */

/* Something is done to it on the device: it is not freed meanwhile, and may be after that. */
void memory_hold(struct allocation *allocation);
void memory_unhold(struct memory *memory, struct allocation *allocation);

/*
 * A chunk of whole granules that the allocation is to grow by. It is charged to the owner, and its memory is yet to
 * be made: memory_grown(), or memory_not_grown(), whether it has memory by then or not. The caller holds the
 * allocation meanwhile. -ENOSPC it has too many, -EDQUOT, -ENOMEM.
 */
int memory_grow(struct memory *memory, struct allocation *allocation, uint64_t span, struct allocation **chunk);
void memory_grown(struct memory *memory, struct allocation *allocation, struct allocation *chunk);
void memory_not_grown(struct memory *memory, struct allocation *chunk);

/* No process maps it. Chunks that begin behind so many bytes go to the device. */
void memory_shrink(struct memory *memory, struct allocation *allocation, uint64_t bytes);

/* ---- for whoever carries out the orders ---- */

/* The range is zeroed, or could not be. The allocation may be gone afterwards. */
void memory_cleaned(struct memory *memory, struct allocation *allocation, uint32_t range, int error);

/*
 * The allocation is freed, or zeroed for the pool: it is the caller's. Returns the buffers that were in it, to be
 * forgotten (registry_released()).
 */
struct buffer *memory_released(struct memory *memory, struct allocation *allocation);

#endif
