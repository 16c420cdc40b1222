/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h - the ranges of an allocation, and which allocations have room for another buffer of what kind.
 *
 * Small buffers of one kind lie side by side in one allocation, so that one export and one open of it serve them all. A
 * larger buffer has an allocation of one range. Buffers of one kind have the same owner, group and mode: whoever may
 * open the handle for one of them may by mode map each of them. Owns the bitmap of ranges and the table of slabs with
 * room. Knows nothing of buffers and mappings. The caller gives a range back only when its bytes are zero.
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
	uint64_t range; /* bytes of a range: a buffer has at most that many */
	uint32_t device;
	uint16_t mode, exported; /* the kind of export */
	uid_t    owner;
	gid_t    group;
};

_Static_assert(sizeof(struct slab_kind) == 24, "kinds are compared as bytes: no padding");

/* Member of an allocation: its ranges. */
struct slab {
	struct slab_kind   kind;
	uint32_t           ranges;      /* number of ranges */
	uint32_t           vacant;      /* how many of them no buffer has */
	uint64_t          *bits;        /* a bit for each range; set: no buffer has it */
	bool               closed;      /* takes no more buffers */
	struct shelf      *shelf;       /* the list of slabs of its kind with room; NULL: it is in none */
	struct slab       *prev, *next; /* on that shelf */
};

/* All slabs with room, by kind. */
struct slabs {
	struct shelf *shelves;
};

/*
 * Chooses the range and the allocation size for a buffer of `size` bytes. A small buffer gets a power of two of a slab,
 * with `margin` bytes (less than the smallest range) unused behind it. If that is more than half of a slab, the buffer
 * gets whole granules of its own. *range is 0 if the result does not fit 64 bits.
 */
void slab_shape(uint64_t size, uint64_t margin, uint64_t granule, uint64_t *range, uint64_t *span);

/* Makes all ranges vacant. The slab is not offered yet. -ENOMEM. */
int slab_init(struct slab *slab, const struct slab_kind *kind, uint64_t span);

/* Frees the bitmap. slab_hide() comes first. */
void slab_deinit(struct slab *slab);

/* Returns a slab of that kind that has room, or NULL. */
struct slab *slabs_find(const struct slabs *slabs, const struct slab_kind *kind);

/* Lets slabs_find() find the slab, if it has room and is not closed. Without memory it is not found. */
void slab_offer(struct slabs *slabs, struct slab *slab);

/* Keeps slabs_find() from finding the slab. Does nothing if the slab is not offered. */
void slab_hide(struct slabs *slabs, struct slab *slab);

/* Takes a vacant range and returns its number. The slab must have one. */
uint32_t slab_take(struct slabs *slabs, struct slab *slab);

/* Makes a range vacant again. The caller has had its bytes zeroed. */
void slab_vacate(struct slabs *slabs, struct slab *slab, uint32_t range);

#endif
