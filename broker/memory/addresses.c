/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.c - see addresses.h */
#include "addresses.h"

#include <stdlib.h>

#include "common/size.h"

/* The power of two that has the buffer, and free space before it, as an exponent; ADDRESSES_SIZES: none. */
static unsigned size_class(uint64_t size)
{
	unsigned exponent = 26;

	if (size > ADDRESSES_END)
		return ADDRESSES_SIZES;
	while (exponent < ADDRESSES_SIZES && 1ull << exponent < size_round_up(size, ADDRESSES_ALIGN) + ADDRESSES_ALIGN)
		exponent++;
	return exponent;
}

uint64_t addresses_take(struct addresses *addresses, uint64_t size)
{
	unsigned exponent = size_class(size);
	uint64_t bytes = 1ull << exponent, base;

	if (exponent == ADDRESSES_SIZES)
		return 0;
	if (addresses->count[exponent])
		return addresses->vacant[exponent][--addresses->count[exponent]];
	if (bytes > ADDRESSES_END - ADDRESSES_BEGIN - addresses->used)
		return 0;
	base = ADDRESSES_BEGIN + addresses->used;
	addresses->used += bytes;
	return base + ADDRESSES_ALIGN;
}

/* Without memory for the list the range is lost, which loses addresses alone. */
void addresses_give(struct addresses *addresses, uint64_t address, uint64_t size)
{
	unsigned exponent = size_class(size);
	uint64_t *larger;
	uint32_t room;

	if (!address)
		return;
	room = addresses->room[exponent] ? 2 * addresses->room[exponent] : 8;
	if (addresses->count[exponent] == addresses->room[exponent]) {
		larger = realloc(addresses->vacant[exponent], room * sizeof *larger);
		if (!larger)
			return;
		addresses->vacant[exponent] = larger;
		addresses->room[exponent] = room;
	}
	addresses->vacant[exponent][addresses->count[exponent]++] = address;
}

void addresses_deinit(struct addresses *addresses)
{
	for (unsigned i = 0; i < ADDRESSES_SIZES; i++)
		free(addresses->vacant[i]);
}
