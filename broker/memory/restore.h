/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore.h - what the ledger notes of allocations, and how the next broker gets its allocations from that.
 *
 * Counts and lists that follow from other records are not noted: the registry restores names, mappings and grants, and
 * counts them again. Owns nothing: allocations are memory.c's and pool.c's as soon as they are restored.
 */
#ifndef GPUB_MEMORY_RESTORE_H
#define GPUB_MEMORY_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"

struct broker;

/* What the ledger notes of an allocation. Fields are only added, at the end (ledger_copy()). */
struct allocation_record {
	uint64_t serial;
	uint64_t parent;  /* serial of the allocation that it is a chunk of; 0: it is none */
	uint64_t span;
	uint64_t reserved;
	uint64_t address;
	uint64_t memory;  /* number of the memory, from when the owner is ordered to make it; 0: not ordered yet */
	uint64_t range;   /* struct slab_kind, to the group */
	uint32_t device;
	uint16_t mode, exported;
	uint32_t owner, group;
	uint64_t spare;   /* idle, pooled, or being zeroed for the pool: its place in the order of age; else 0 */
	uint32_t chunk;   /* place among the chunks, from 1; 0: it is none */
	uint32_t lost;    /* number of its ranges that could not be zeroed */
	uint8_t  state;   /* enum allocation_state */
	uint8_t  dropped; /* charged to nobody: pooled, or freed from the pool */
	uint8_t  closed, is_private, reclaimed, ended;
	uint8_t  releasing;      /* FREEING: the RELEASE is ordered, so the owner may have freed it */
	uint8_t  has_descriptor; /* clients map it by a descriptor, which is kept under the number of the memory */
	uint8_t  handle[DEVICE_HANDLE_SIZE];
};

void allocation_note(const struct allocation *allocation, struct allocation_record *record);

/* What the ledger notes of a range that is being zeroed. */
struct cleaning_record {
	uint64_t allocation; /* serial */
	uint64_t serial;     /* of the buffer that had the range */
	uint32_t range;
	uint32_t unused;
};

/*
 * Makes the allocation that the record is of, charged to its owner, but not its chunks, buffers and mappings. Takes
 * over the descriptor; -1: it has none. A record of memory that was being made has no allocation: the request that
 * needs the memory is made again. Returns 0; -ENOMEM; -EBADMSG: no allocation can have such a record. On failure the
 * descriptor stays the caller's. The error message is set.
 */
int memory_restore(struct memory *memory, const struct allocation_record *record, int descriptor,
		   struct allocation **allocation);

/* Makes a restored allocation the next chunk of another one. Called in the order of record.chunk. */
void memory_restore_chunk(struct allocation *allocation, struct allocation *chunk);

/*
 * Takes a range of a restored allocation for a buffer, or for the device that zeroes it. Returns 0, or -EBADMSG with
 * the error message set: there is no such range, or something else has it.
 */
int memory_restore_range(struct allocation *allocation, uint32_t range);

/*
 * Offers the free ranges of an allocation whose buffers are restored. All ranges without a buffer are zeroed before
 * that if some were lost (record.lost), since nothing says which.
 */
void memory_restored(struct memory *memory, struct allocation *allocation);

#endif
