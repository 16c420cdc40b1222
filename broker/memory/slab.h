/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h - the ranges of an allocation, and the allocations that have room for another buffer, by kind.
 *
 * Small buffers of one kind lie side by side in one allocation, so that one export and one open of it serve them all. A
 * larger buffer has an allocation of one range. Buffers of one kind have the same owner, group and mode: whoever may
 * open the handle for one of them may, by the mode, map each of them. Owns the bitmap of ranges and the table of slabs
 * with room. Knows nothing of buffers and mappings. The caller gives a range back only when its bytes are zero.
 */
#ifndef GPUB_SLAB_H
#define GPUB_SLAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SLAB_RANGE_MIN 256u         /* smallest range in bytes: cudaMalloc aligns to as many */
/* smallest slab in bytes, for devices with smaller granules, such as the host device */
#define SLAB_SPAN_MIN  (64u << 10)

/* The properties that buffers in one allocation have in common. Hashed as bytes, so it has no padding. */
struct slab_kind {
	uint64_t range; /* bytes of each range; a buffer that has not grown has at most as many */
	uint32_t device;
	uint16_t mode, exported; /* permission bits; kind of export (common/export.h) */
	uid_t    owner;
	gid_t    group;
};

_Static_assert(sizeof(struct slab_kind) == 24, "kinds are compared as bytes: no padding");

/* Member of an allocation, which says which of its ranges a buffer can get. */
struct slab {
	struct slab_kind   kind;
	uint32_t           ranges;      /* number of all ranges */
	uint32_t           vacant;      /* number of ranges that no buffer has and that are zeroed */
	uint64_t          *bits;        /* a bit for each range; 1: the range is vacant */
	bool               closed;      /* the allocation takes no more buffers */
	/* the shelf that the slab is on: the list of the slabs of its kind that have room; NULL: on none */
	struct shelf      *shelf;
	struct slab       *prev, *next; /* links in the list of the shelf */
};

/* All slabs that have room. */
struct slabs {
	struct shelf *shelves;
};

/*
 * Chooses the range and the allocation size for a buffer of `size` bytes. A small buffer gets a range of a slab: a
 * power of two, with at least `margin` bytes (less than the smallest range) unused behind the buffer. If the range is
 * more than half of a slab, the buffer gets whole granules of its own. *range is 0 if the result does not fit 64 bits.
 */
void slab_shape(uint64_t size, uint64_t margin, uint64_t granule, uint64_t *range, uint64_t *span);

/*
 * Makes a slab of `span` bytes with all ranges vacant, which slabs_find() does not find yet. Returns 0, or -ENOMEM
 * without an error message.
 */
int slab_init(struct slab *slab, const struct slab_kind *kind, uint64_t span);

/* Frees the bitmap of a slab that is on no shelf. */
void slab_deinit(struct slab *slab);

/* Returns a slab of the kind that has room, or NULL. */
struct slab *slabs_find(const struct slabs *slabs, const struct slab_kind *kind);

/* Lets slabs_find() find the slab, if it has room and is not closed. If the broker is out of memory, does nothing. */
void slab_offer(struct slabs *slabs, struct slab *slab);

/* Keeps slabs_find() from finding the slab. Does nothing if the slab is not offered. */
void slab_hide(struct slabs *slabs, struct slab *slab);

/* Takes a vacant range of the slab, which must have one, and returns its number. */
uint32_t slab_take(struct slabs *slabs, struct slab *slab);

/*
 * Takes a certain vacant range of a slab that is on no shelf. Returns 0, or -EINVAL without an error message: there is
 * no such range, or it is taken.
 */
int slab_claim(struct slab *slab, uint32_t range);

/* Makes a range, whose bytes are zero, vacant again, and the slab findable as slab_offer() does. */
void slab_vacate(struct slabs *slabs, struct slab *slab, uint32_t range);

#endif
