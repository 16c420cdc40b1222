/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.c - see addresses.h */
#include "addresses.h"

#include <stdlib.h>

#include "common/size.h"

#define ADDRESSES_ALL (ADDRESSES_END - ADDRESSES_BEGIN)

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

void addresses_init(struct addresses *addresses, uint32_t random)
{
	*addresses = (struct addresses){ .start = random * ADDRESSES_ALIGN % ADDRESSES_ALL };
}

uint64_t addresses_take(struct addresses *addresses, uint64_t size)
{
	unsigned exponent = size_class(size);
	uint64_t bytes = 1ull << exponent, base, skipped;

	if (exponent == ADDRESSES_SIZES)
		return 0;
	if (addresses->count[exponent])
		return addresses->vacant[exponent][--addresses->count[exponent]];
	base = ADDRESSES_BEGIN + (addresses->start + addresses->used) % ADDRESSES_ALL;
	skipped = bytes > ADDRESSES_END - base ? ADDRESSES_END - base : 0; /* it goes on at the beginning */
	if (bytes + skipped > ADDRESSES_ALL - addresses->used)
		return 0;
	addresses->used += bytes + skipped;
	return (skipped ? ADDRESSES_BEGIN : base) + ADDRESSES_ALIGN;
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
