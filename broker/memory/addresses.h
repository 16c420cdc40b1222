/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.h - addresses for buffers that all processes map at one address (GPUB_SAME_ADDRESS).
 *
 * Owns a part of the address space in which processes on Linux have nothing by themselves: above the heaps of position-dependent
 * programs and the memory of sanitizers, below position-independent programs. A buddy allocator: a range is a power of two, is halved until it
 * fits, and is joined with its other half as soon as both are free. So to take and to give one costs the same however many there are, and
 * what comes back is whole again whatever the sizes were. A buffer that is made again is likely to get the address of the one before.
 * Knows nothing of what other processes have mapped.
 */
#ifndef GPUB_BROKER_ADDRESSES_H
#define GPUB_BROKER_ADDRESSES_H

#include <stdint.h>

#define ADDRESSES_BEGIN 0x200000000000ull
#define ADDRESSES_END   0x500000000000ull
#define ADDRESSES_ALIGN (32ull << 20) /* of each address, as drivers want it (facts.md); also the least that is free before and behind a buffer */
#define ADDRESSES_LEAST 26            /* the smallest range, as a power of two */
#define ADDRESSES_MOST  44            /* the largest */

struct free_range;

struct addresses {
	uint64_t           mask;  /* says where in the address space the first range is: address_of() */
	struct free_range *free[ADDRESSES_MOST + 1]; /* by size; what came last is first */
	struct free_range *by_offset; /* all of them */
};

/*
 * random: says where the first address is. A process may have buffers of several brokers, or of one that died and of its successor: they are
 * unlikely to meet where each begins somewhere else. -ENOMEM
 */
int addresses_init(struct addresses *addresses, uint32_t random);

/* The address for so many bytes, whole granules; 0: none is left, or the broker is out of memory. */
uint64_t addresses_take(struct addresses *addresses, uint64_t size);

/* Nobody maps these any more: what addresses_take() returned for that size. Address 0: does nothing. */
void addresses_give(struct addresses *addresses, uint64_t address, uint64_t size);

void addresses_deinit(struct addresses *addresses);

#endif
