/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.h - chooses the addresses of buffers that all processes map at the same address (GPUB_SAME_ADDRESS).
 *
 * Owns a part of the address space that Linux leaves unused in most processes: above the heaps of position-dependent
 * programs and the memory of sanitizers, below position-independent programs. A buddy allocator: the size of a range is
 * a power of two. A larger free range is halved until it fits, and a range is joined with its other half as soon as
 * both are free. So to take or give back a range costs the same however many there are, and ranges of any sizes leave
 * no gaps behind. A buffer that is created again is likely to get its former address. Knows nothing of what other
 * processes have mapped.
 */
#ifndef GPUB_BROKER_ADDRESSES_H
#define GPUB_BROKER_ADDRESSES_H

#include <stdint.h>

#define ADDRESSES_BEGIN 0x200000000000ull
#define ADDRESSES_END   0x500000000000ull
/* alignment of each address (facts.md), and smallest size of the gap between two buffers, in bytes */
#define ADDRESSES_ALIGN (32ull << 20)
#define ADDRESSES_LEAST 26            /* log2 of the smallest range in bytes */
#define ADDRESSES_MOST  44            /* log2 of the largest range in bytes */

struct free_range;

struct addresses {
	uint32_t           random; /* of addresses_init(): another broker with the same one has the same ranges */
	/* xor-ed into each offset, so that brokers begin at different addresses */
	uint64_t           mask;
	/* lists of free ranges, by log2 of their size; the range that was freed last is first */
	struct free_range *free[ADDRESSES_MOST + 1];
	struct free_range *by_offset;                /* table of all free ranges, by offset */
};

/*
 * Makes all addresses free. random: decides which address is the first to be taken. A process may have buffers of
 * several brokers, or of a dead broker and its successor: brokers that begin at different addresses are unlikely to
 * choose the same one. Returns 0, or -ENOMEM with the error message set.
 */
int addresses_init(struct addresses *addresses, uint32_t random);

/*
 * Takes addresses for `size` bytes, which are whole granules. Returns the first address, or 0 if no free range is large
 * enough.
 */
uint64_t addresses_take(struct addresses *addresses, uint64_t size);

/*
 * Takes the addresses that addresses_take() returned for this size in a broker that began with the same random number.
 * Does nothing for the address 0. Returns 0; -EBADMSG: they are taken, or never were; -ENOMEM. The error message is
 * set.
 */
int addresses_claim(struct addresses *addresses, uint64_t address, uint64_t size);

/*
 * Gives back an address that addresses_take() returned for this size, and at which no process maps the buffer any more.
 * Does nothing for the address 0.
 */
void addresses_give(struct addresses *addresses, uint64_t address, uint64_t size);

void addresses_deinit(struct addresses *addresses);

#endif
