/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-region.h - regions, which are the address ranges that the host device uses in this process, and their table.
 *
 * Call host_region_add(), host_region_remove() and the functions that search the table under host_state.lock.
 */
#ifndef GPUB_HOST_REGION_H
#define GPUB_HOST_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/export.h"
#include "common/handle.h"
#include "common/owned-fd.h"

enum host_kind {
	HOST_ALLOCATION,
	HOST_MAPPING,
	HOST_PAGE,
	HOST_FREED,
	HOST_CLOSED /* a closed mapping: its addresses are kept reserved, without memory, so that any use faults */
};

/* A chunk of a mapping's memory after the first one. Each chunk is opened separately. */
struct host_chunk {
	uint64_t        size; /* bytes of the chunk */
	struct owned_fd file; /* the chunk's object, opened; this open file has the shared flock */
};

struct host_region {
	struct host_region  *next;     /* link of the quarantine's list, or of the list of closed mappings */
	uint8_t             *base;     /* first address; an allocation only reserves its addresses, without memory */
	uint64_t             size;     /* bytes of the region; for a mapping, with all its chunks */
	uint64_t             reserved; /* mapping: bytes of addresses reserved in all, to grow; 0: only `size` bytes */
	struct host_chunk   *chunks;   /* mapping: array of its chunks after the first one */
	unsigned             chunk_count; /* length of `chunks` */
	enum host_kind       kind;
	unsigned             device;   /* number of the device; unused for a page */
	uint64_t             others;   /* mapping at a given address: bit n is set if device n, too, has opened it */
	unsigned             opens;    /* mapping: number of opens that were not closed yet */
	bool                 writable; /* page, mapping: the device may write it */
	struct owned_fd      file;     /* allocation, mapping: its object, opened; this open file has the flock */
	/* mapping: a buffer in it was watched, so copies must stay within a watched one */
	bool                 watched;
	struct device_watch *watches;  /* mapping: list of the watches of its buffers */
	struct device_handle handle;   /* allocation, mapping: the handle of the memory */
	const struct export *export;     /* allocation, mapping: the memory's kind of export; NULL in other regions */
	/* allocation: descriptor whose copies importers get; -1: they need only the handle */
	int                  descriptor;
};

/*
 * Reserves `size` bytes of addresses without memory, where every access faults: at *base or, if *base is NULL,
 * anywhere. Stores the first address in *base. -EADDRINUSE: *base cannot be had. -ENOMEM: no addresses are left.
 */
int host_addresses_reserve(uint64_t size, uint8_t **base);

struct host_region *host_region_new(enum host_kind kind, unsigned device, uint64_t size);
/* Adds the region to the table. Returns 0 or -ENOMEM. Aborts if the region overlaps another one. */
int                 host_region_add(struct host_region *region);
void                host_region_remove(struct host_region *region);  /* removes the region from the table */
void                host_region_destroy(struct host_region *region); /* unmaps, closes and frees the region */
void                host_region_close(struct host_region *region);   /* closes the region's objects, unmaps nothing */

/*
 * Unlocks and closes an object, if *file is open. Unlocks explicitly, because a forked child that has not called exec
 * yet may have a copy of the descriptor, which would keep the lock.
 */
void                host_file_close(struct owned_fd *file);

/* Returns the number of bytes of addresses between a mapping's guard pages. */
uint64_t            host_region_room(const struct host_region *region);

struct host_region *host_region_find(const void *ptr); /* returns the region that contains ptr, or NULL */
struct host_region *host_region_at(size_t index); /* returns the region with this index in the table, or NULL */

/* Returns a region that overlaps [base, base + size), or NULL. */
struct host_region *host_region_overlapping(const uint8_t *base, uint64_t size);

/* Whether the allocation is the device's, or the mapping one that the device has opened, and perhaps closed since. */
static inline bool host_region_is_of(const struct host_region *region, unsigned device)
{
	return region->device == device || region->others >> device & 1;
}

/* Returns the open or closed mapping that has ptr in a guard page or in unused reserved addresses, or NULL. */
const struct host_region *host_region_guarding(const void *ptr);

/* Returns the size, in bytes, of the guard on each side of a mapping: a granule, or a page if pages are larger. */
uint64_t host_guard_size(void);

#endif
