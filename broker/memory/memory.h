/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - all allocations of one broker: decides which buffer gets which range, and when an allocation is freed.
 *
 * Owns each allocation from the request for a range until memory_released(), and the charge of its owner. The registry
 * (above) asks for a range, counts in the allocation what keeps it (names, mappings), and calls memory_decide_free()
 * when nothing may keep it any more. That function decides that an allocation is freed; memory_shrink() and
 * memory_not_grown() give back chunks, which nobody maps, of an allocation that stays. request/reclaim.c has the
 * owner free the memory. Knows nothing of names, buffers and sessions: the registry asks memory.c which
 * allocations were evicted, and request/reclaim.c tells the registry what the device has done.
 */
#ifndef GPUB_MEMORY_H
#define GPUB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "addresses.h"
#include "allocation.h"

/* Functions that carry out the decisions of memory.c: those of request/reclaim.c, except in unit tests. */
struct memory_orders {
	/*
	 * Has a range zeroed, whose last buffer had the serial, and then calls memory_cleaned(). Returns false if the
	 * broker is out of memory: the range is not zeroed, and memory_cleaned() is not called.
	 */
	bool (*clean)(void *context, struct allocation *allocation, uint32_t range, uint64_t serial);
	/* Has an allocation that nothing can touch freed or zeroed for the pool, and then calls memory_released(). */
	void (*release)(void *context, struct allocation *allocation);
	void *context;
};

struct memory {
	struct slabs         slabs; /* the slabs that have room for another buffer */
	struct usages        usages; /* memory that each user has of each device, pooled memory included */
	struct allocation   *allocations; /* list of all allocations but the pooled ones */
	/* list of evicted allocations whose sessions were not asked to close them yet (memory_take_evicted()) */
	struct allocation   *evicted;
	uint64_t             bytes;       /* bytes of all allocations in `allocations` */
	uint64_t             next;        /* serial of the next allocation */
	struct accounting   *accounting;
	struct tracking     *tracking;    /* objects that the ledger notes; NULL: there is none */
	/* kind of export of buffers that do not need a certain one (common/export.h) */
	unsigned             exported;
	/* number of descriptors that the device keeps open for an allocation, beside the descriptor of its export */
	unsigned             descriptors;
	struct addresses     addresses;
	struct memory_orders orders;
	/*
	 * the ledger of the broker before this one was damaged, so a process may map memory of which nothing says so:
	 * no memory is freed, zeroed or given to another buffer
	 */
	bool                 doubted;
};

void memory_init(struct memory *memory, struct accounting *accounting, const struct memory_orders *orders);
/*
 * Ends all allocations, when no buffer and no mapping is left. Frees no device memory: that stays the driver's until
 * the process ends.
 */
void memory_deinit(struct memory *memory);

/*
 * Takes a range for a buffer, and sets *allocation and *range. Takes it from an allocation of the kind with room. If
 * there is none, or the buffer is to be alone, makes an allocation of `span` bytes and charges it to the owner;
 * allocation_is_made() then returns false until the device has made the memory. Returns 0, -EDQUOT or -ENOMEM.
 */
int memory_take(struct memory *memory, const struct slab_kind *kind, uint64_t span, bool alone,
		struct allocation **allocation, uint32_t *range);

/*
 * Lets the allocation grow up to `bytes` bytes: each process reserves as many addresses for it. The allocation is new
 * and has one buffer.
 */
void memory_reserve(struct memory *memory, struct allocation *allocation, uint64_t bytes);

/*
 * Chooses addresses for the allocation that no other allocation has; all processes map it there. The allocation is
 * made, private and of one buffer: who has no memory cannot use up the addresses. Returns 0, or -ENOMEM: no addresses
 * are left.
 */
int memory_place(struct memory *memory, struct allocation *allocation);

/*
 * Gives back a range that memory_take() gave and no client has mapped; it is not zeroed. Frees the allocation if the
 * device has not made it. May free it otherwise.
 */
void memory_untake(struct memory *memory, struct allocation *allocation, uint32_t range);

/* Notes that the device has made the allocation's memory: it is in use from now on, and its free ranges are offered. */
void memory_ready(struct memory *memory, struct allocation *allocation);

/*
 * Has a range zeroed for its next buffer. serial: that of the buffer which had the range and is out of the allocation.
 * May free the allocation.
 */
void memory_clean(struct memory *memory, struct allocation *allocation, uint32_t range, uint64_t serial);

/*
 * Decides by the rule of invariant 2 whether the allocation is freed, and frees it if so. Does nothing while memory is
 * doubted. Called when the end of a mapping, a buffer, the zeroing of a range or a memory_hold() may have left nothing
 * that keeps it. The caller may not use the allocation afterwards.
 */
void memory_decide_free(struct memory *memory, struct allocation *allocation);

/*
 * Evicts the allocation: no new buffer gets a range of it, and it is added to memory->evicted, so that its sessions are
 * asked to close it.
 */
void memory_evict(struct memory *memory, struct allocation *allocation);

/*
 * Takes the first allocation out of memory->evicted, whose sessions the caller asks to close it. NULL: the list is
 * empty.
 */
struct allocation *memory_take_evicted(struct memory *memory);

/*
 * Returns true if the allocation is kept for its owner's next buffer when its last buffer has ended and it has a vacant
 * range.
 */
bool memory_keeps(const struct memory *memory, const struct allocation *allocation);

/*
 * Makes the allocation private: no other buffer gets a range of it, and it is never pooled, such as when users whom its
 * kind does not allow may map it.
 */
void memory_make_private(struct memory *memory, struct allocation *allocation);

/* Returns how many descriptors the device keeps open for an allocation. exported: the allocation's kind of export. */
unsigned memory_descriptors(const struct memory *memory, unsigned exported);

/*
 * Called when importers cannot open memory by its handle any more: makes all allocations that are exported without a
 * descriptor private, so that no new buffer gets a range of them. The caller has evicted idle and pooled memory before.
 */
void memory_close_named(struct memory *memory);

/*
 * Makes `owner` the owner of the allocation, and charges that user for it and in place of `charges`, which are those of
 * its buffer. No job of the device on the allocation is under way. Returns 0, or -EDQUOT or -ENOMEM: nothing is
 * changed.
 */
int memory_change_owner(struct memory *memory, struct allocation *allocation, uid_t owner,
			struct charge *const charges[2]);

/* ---- an allocation that grows ---- */

/*
 * Keep the allocation from being freed while something is done to it on the device (hold), and end that (unhold).
 * memory_unhold() may free it.
 */
void memory_hold(struct allocation *allocation);
void memory_unhold(struct memory *memory, struct allocation *allocation);

/*
 * Makes a chunk of `span` bytes, whole granules, by which the allocation is to grow, and charges it to the owner. The
 * caller has its memory made, and then calls memory_grown(), which appends the chunk, or memory_not_grown(), which
 * frees the chunk and its memory, if it has got any. The caller holds the allocation meanwhile. Returns 0; -ENOSPC: the
 * allocation has too many chunks; -EDQUOT; -ENOMEM.
 */
int memory_grow(struct memory *memory, struct allocation *allocation, uint64_t span, struct allocation **chunk);
void memory_grown(struct memory *memory, struct allocation *allocation, struct allocation *chunk);
void memory_not_grown(struct memory *memory, struct allocation *chunk);

/* Gives the chunks that begin at or behind `bytes` bytes back to the device. No process maps the allocation. */
void memory_shrink(struct memory *memory, struct allocation *allocation, uint64_t bytes);

/* ---- for restore.c, which makes the allocations of a broker before this one ---- */

/* Has a range zeroed that is taken out of the slab. If the broker is out of memory, the range is lost. */
void memory_order_clean(struct memory *memory, struct allocation *allocation, uint32_t range, uint64_t serial);

/* Adds an evicted allocation to memory->evicted. Does nothing if it is there. */
void memory_evict_again(struct memory *memory, struct allocation *allocation);

/* Takes a restored allocation for one that is used, and was to be freed: it is evicted. */
void memory_keep(struct memory *memory, struct allocation *allocation);

/* Has an allocation freed again whose state is ALLOCATION_FREEING: the broker before this one had ordered that. */
void memory_release_again(struct memory *memory, struct allocation *allocation);

/* ---- for request/reclaim.c, which carries out the orders ---- */

/*
 * Notes that the device has zeroed a range (error 0), or failed to (error: the range is not used again). May free the
 * allocation.
 */
void memory_cleaned(struct memory *memory, struct allocation *allocation, uint32_t range, int error);

/*
 * Gives an allocation whose memory is freed, or zeroed for the pool, to the caller, and ends the owner's charge.
 * Returns the list of the buffers that were in it, which registry_forget() frees.
 */
struct buffer *memory_released(struct memory *memory, struct allocation *allocation);

#endif
