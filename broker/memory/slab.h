/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h - the ranges of an allocation, and which allocations have room for another buffer of what kind.
 *
 * Small buffers of one kind lie side by side in one allocation, so that its one export and one open serve them all; a
 * larger buffer has an allocation of one range. Buffers of one kind have the same owner, group and mode: whoever may open the handle
 * for one of them may by mode map each of them. Owns the bitmap of ranges and the table of slabs with room.
 * Knows nothing of buffers and grants; the caller gives a range back only when it is clean.
 */
#ifndef GPUB_SLAB_H
#define GPUB_SLAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SLAB_RANGE_MIN 256u         /* bytes: what cudaMalloc aligns to */
#define SLAB_SPAN_MIN  (64u << 10)  /* of a slab where granules are smaller, as on the host device */

/* What buffers that may share memory have in common. Hashed as bytes: no padding. */
struct slab_kind {
	uint64_t range; /* bytes that each may have */
	uint32_t device;
	uint16_t mode, exported; /* the kind of export */
	uid_t    owner;
	gid_t    group;
};

_Static_assert(sizeof(struct slab_kind) == 24, "kinds are compared as bytes: no padding");

/* An allocation's part of it. */
struct slab {
	struct slab_kind   kind;
	uint32_t           ranges, vacant;
	uint64_t          *bits; /* one a range: vacant */
	bool               closed; /* takes no more buffers */
	struct shelf      *shelf;  /* where it is found for its room; NULL: nowhere */
	struct slab       *prev, *next; /* on that shelf */
};

/* The table of room. */
struct slabs {
	struct shelf *shelves;
};

/*
 * What a buffer of so many bytes takes of what allocation: a power of two of a slab that leaves the margin (less than the smallest
 * range) unused behind it, or, where that would be more than half of it, whole granules of its own. *range is 0 where that does
 * not fit 64 bits.
 */
void slab_shape(uint64_t size, uint64_t margin, uint64_t granule, uint64_t *range, uint64_t *span);

/* All ranges vacant, nowhere to be found yet. -ENOMEM. */
int slab_init(struct slab *slab, const struct slab_kind *kind, uint64_t span);
void slab_deinit(struct slab *slab); /* must not be found any more */

/* That of an allocation of that kind with room, or NULL. */
struct slab *slabs_find(const struct slabs *slabs, const struct slab_kind *kind);

/* It may be found from now on, if it has room and is not closed. Without memory it is not found, which loses room alone. */
void slab_offer(struct slabs *slabs, struct slab *slab);

/* It is not found any more. */
void slab_hide(struct slabs *slabs, struct slab *slab);

/* Takes a vacant range: its number. There must be one. */
uint32_t slab_take(struct slabs *slabs, struct slab *slab);

/* The range is vacant again, and clean. */
void slab_vacate(struct slabs *slabs, struct slab *slab, uint32_t range);

#endif
