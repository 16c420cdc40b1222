/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-region.h - the table of all address ranges that the host device knows in this process.
 *
 * All calls under host_state.lock, except host_region_new() and host_guard_size().
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
	HOST_CLOSED /* a mapping that was closed: nothing is at its addresses, and nobody may use them */
};

/* Memory behind the first of a mapping: opened for itself, as that is. */
struct host_chunk {
	struct device_handle handle;
	uint64_t             size;
	struct owned_fd      file; /* has the flock */
};

struct host_region {
	struct host_region  *next; /* in the quarantine, or among the closed mappings */
	uint8_t             *base; /* of an allocation: addresses without memory */
	uint64_t             size;     /* of a mapping: with its chunks */
	uint64_t             reserved; /* of a mapping: bytes of addresses that it has for chunks; 0: it has none */
	struct host_chunk   *chunks;
	unsigned             chunk_count;
	enum host_kind       kind;
	unsigned             device;   /* not of a page */
	uint64_t             others;   /* of a mapping at a given address: a bit for each other device that opened it */
	unsigned             opens;    /* of a mapping */
	bool                 writable; /* of a page or a mapping */
	struct owned_fd      file;     /* of an allocation or a mapping: has the flock */
	bool                 watched;  /* of a mapping: its buffers are watched, and nothing may lie outside of them */
	struct device_watch *watches;
	struct device_handle handle;
	const struct export *export;     /* of an allocation or a mapping; NULL: of neither */
	int                  descriptor; /* of an allocation: what importers get; -1: the handle is enough */
};

/* Addresses without memory: unique as a pointer must be, and every touch faults. *base: where; NULL: anywhere. -EADDRINUSE. */
int host_addresses_reserve(uint64_t size, uint8_t **base);

struct host_region *host_region_new(enum host_kind kind, unsigned device, uint64_t size);
int                 host_region_add(struct host_region *region);
void                host_region_remove(struct host_region *region);
void                host_region_destroy(struct host_region *region); /* unmaps and closes */
void                host_region_close(struct host_region *region);   /* closes its memory, which stays mapped */

/*
 * Closes what has the flock, if it is open. Unlocked first: a child that has not yet called exec may have a copy of the
 * descriptor, which must not keep the lock.
 */
void                host_file_close(struct owned_fd *file);

/* How many bytes of addresses lie between its guard pages. */
uint64_t            host_region_room(const struct host_region *region);

struct host_region *host_region_find(const void *ptr);
struct host_region *host_region_at(size_t index); /* in the order of addresses; NULL at the end */

/* A region that overlaps [base, base + size), or NULL. */
struct host_region *host_region_overlapping(const uint8_t *base, uint64_t size);

/* That device may use the mapping. */
static inline bool host_region_is_of(const struct host_region *region, unsigned device)
{
	return region->device == device || region->others >> device & 1;
}

/*
 * The mapping, open or closed, that has ptr in one of its guard pages, or in addresses behind its end; NULL: none
 * has.
 */
const struct host_region *host_region_guarding(const void *ptr);

/* How many inaccessible bytes lie before and behind a mapping: pages may be larger than granules. */
uint64_t host_guard_size(void);

#endif
