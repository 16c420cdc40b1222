/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.c - see addresses.h */
#include "addresses.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <utlist.h>

#include "common/error.h"
#include "common/size.h"
#include "common/tables.h"

/* A free range of addresses. Its buddy, the other half of the next larger range, is in use or split. */
struct free_range {
	uint64_t           offset;      /* where the range begins, in bytes from ADDRESSES_BEGIN, before masked() */
	unsigned           exponent;    /* log2 of the size in bytes */
	struct free_range *prev, *next; /* links in the list addresses->free[exponent] */
	UT_hash_handle     hh;          /* handle in the hash table addresses->by_offset */
};

static bool range_add(struct addresses *addresses, struct free_range *range)
{
	HASH_ADD(hh, addresses->by_offset, offset, sizeof range->offset, range);
	if (!table_added(range))
		return false;
	DL_PREPEND(addresses->free[range->exponent], range);
	return true;
}

static void range_take_out(struct addresses *addresses, struct free_range *range)
{
	DL_DELETE(addresses->free[range->exponent], range);
	HASH_DEL(addresses->by_offset, range);
}

/*
 * Adds a free range. Returns false if the broker is out of memory: the addresses of the range are then not used again.
 */
static bool range_new(struct addresses *addresses, uint64_t offset, unsigned exponent)
{
	struct free_range *range = calloc(1, sizeof *range);

	if (!range)
		return false;
	range->offset = offset;
	range->exponent = exponent;
	if (range_add(addresses, range))
		return true;
	free(range);
	return false;
}

/*
 * Returns log2 of the size of the range for a buffer of `size` bytes with ADDRESSES_ALIGN unused bytes before it. If
 * the buffer is too large, the result is above ADDRESSES_MOST.
 */
static unsigned exponent_of(uint64_t size)
{
	unsigned exponent = ADDRESSES_LEAST;

	if (size > ADDRESSES_END)
		return ADDRESSES_MOST + 1;
	while (exponent <= ADDRESSES_MOST && 1ull << exponent < size_round_up(size, ADDRESSES_ALIGN) + ADDRESSES_ALIGN)
		exponent++;
	return exponent;
}

/*
 * Maps the offset of a range to another one by the broker's random mask. The range begins at a multiple of its size,
 * and so does the result. Applied twice, the function returns the first offset.
 */
static uint64_t masked(const struct addresses *addresses, uint64_t offset, unsigned exponent)
{
	return offset ^ (addresses->mask & ~((1ull << exponent) - 1));
}

int addresses_init(struct addresses *addresses, uint32_t random)
{
	const uint64_t largest = 1ull << ADDRESSES_MOST, count = (ADDRESSES_END - ADDRESSES_BEGIN) / largest;

	*addresses = (struct addresses){ .random = random,
					 .mask = random * ADDRESSES_ALIGN & (largest - 1) &
						 ~((1ull << ADDRESSES_LEAST) - 1) };
	for (uint64_t i = 0; i < count; i++)
		if (!range_new(addresses, (random + i) % count * largest, ADDRESSES_MOST)) {
			addresses_deinit(addresses);
			return error_set(-ENOMEM, "the broker is out of memory");
		}
	return 0;
}

/*
 * Halves a range, which is in no list, until its size is 1 << exponent. Adds the halves that are cut off to the free
 * ranges.
 */
static void range_halve(struct addresses *addresses, struct free_range *range, unsigned exponent)
{
	while (range->exponent > exponent) {
		range->exponent--;
		range_new(addresses, range->offset + (1ull << range->exponent), range->exponent);
	}
}

uint64_t addresses_take(struct addresses *addresses, uint64_t size)
{
	unsigned exponent = exponent_of(size), larger = exponent;
	struct free_range *range;
	uint64_t offset;

	while (larger <= ADDRESSES_MOST && !addresses->free[larger])
		larger++;
	if (larger > ADDRESSES_MOST)
		return 0;
	range = addresses->free[larger];
	range_take_out(addresses, range);
	range_halve(addresses, range, exponent);
	offset = range->offset;
	free(range);
	return ADDRESSES_BEGIN + masked(addresses, offset, exponent) + ADDRESSES_ALIGN;
}

/* Returns the free range that has the offset and is no smaller than 1 << exponent. NULL: there is none. */
static struct free_range *range_around(const struct addresses *addresses, uint64_t offset, unsigned exponent)
{
	struct free_range *range = NULL;

	for (; exponent <= ADDRESSES_MOST; exponent++) {
		offset &= ~((1ull << exponent) - 1);
		HASH_FIND(hh, addresses->by_offset, &offset, sizeof offset, range);
		if (range && range->exponent >= exponent)
			break;
		range = NULL;
	}
	return range;
}

int addresses_claim(struct addresses *addresses, uint64_t address, uint64_t size)
{
	unsigned exponent = exponent_of(size);
	uint64_t offset = masked(addresses, address - ADDRESSES_ALIGN - ADDRESSES_BEGIN, exponent);
	struct free_range *range;

	if (!address)
		return 0;
	range = exponent <= ADDRESSES_MOST && !(offset & ((1ull << exponent) - 1)) ?
			range_around(addresses, offset, exponent) :
			NULL;
	if (!range)
		return error_set(-EBADMSG, "the ledger has two buffers at address 0x%llx, or no buffer can be there",
				 (unsigned long long)address);
	range_take_out(addresses, range);
	while (range->exponent > exponent) {
		uint64_t half = 1ull << --range->exponent, other = range->offset + half;

		if (offset >= other) {
			other = range->offset;
			range->offset += half;
		}
		if (!range_new(addresses, other, range->exponent))
			return error_set(-ENOMEM, "the broker is out of memory");
	}
	free(range);
	return 0;
}

/*
 * Takes the other half of the next larger range (the buddy) out of the free ranges and frees it. Returns false if the
 * buddy is not free.
 */
static bool take_other_half(struct addresses *addresses, uint64_t offset, unsigned exponent)
{
	struct free_range *other;

	offset ^= 1ull << exponent;
	HASH_FIND(hh, addresses->by_offset, &offset, sizeof offset, other);
	if (!other || other->exponent != exponent)
		return false;
	range_take_out(addresses, other);
	free(other);
	return true;
}

void addresses_give(struct addresses *addresses, uint64_t address, uint64_t size)
{
	unsigned exponent = exponent_of(size);
	uint64_t offset;

	if (!address)
		return;
	offset = masked(addresses, address - ADDRESSES_ALIGN - ADDRESSES_BEGIN, exponent);
	while (exponent < ADDRESSES_MOST && take_other_half(addresses, offset, exponent)) {
		offset &= ~(1ull << exponent);
		exponent++;
	}
	range_new(addresses, offset, exponent);
}

void addresses_deinit(struct addresses *addresses)
{
	struct free_range *range, *next;

	HASH_ITER(hh, addresses->by_offset, range, next) {
		range_take_out(addresses, range);
		free(range);
	}
}
