/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.h - addresses for buffers that all processes map at one address (GPUB_SAME_ADDRESS).
 *
 * Owns a part of the address space in which processes on Linux have nothing by themselves: above the heaps of position-dependent
 * programs and the memory of sanitizers, below position-independent programs. A range is a power of two and goes back to the next buffer
 * of that size. So to take and to give one costs the same however many there are, and a buffer that is made again is likely to get the
 * address of the one before. Knows nothing of what other processes have mapped.
 */
#ifndef GPUB_BROKER_ADDRESSES_H
#define GPUB_BROKER_ADDRESSES_H

#include <stdint.h>

#define ADDRESSES_BEGIN 0x200000000000ull
#define ADDRESSES_END   0x500000000000ull
#define ADDRESSES_ALIGN (32ull << 20) /* of each address, as drivers want it (facts.md); also the least that is free before and behind a buffer */
#define ADDRESSES_SIZES 46           /* powers of two */

struct addresses {
	uint64_t  start; /* bytes from ADDRESSES_BEGIN on: the first that are given out */
	uint64_t  used;  /* bytes from there on that were given out once */
	uint64_t *vacant[ADDRESSES_SIZES]; /* by size: ranges that came back */
	uint32_t  count[ADDRESSES_SIZES], room[ADDRESSES_SIZES];
};

/*
 * random: says where the first address is. A process may have buffers of several brokers, or of one that died and of its successor: they are
 * unlikely to meet where each begins somewhere else.
 */
void addresses_init(struct addresses *addresses, uint32_t random);

/* The address for so many bytes, whole granules; 0: none is left. */
uint64_t addresses_take(struct addresses *addresses, uint64_t size);

/* Nobody maps them any more. Address 0: does nothing. */
void addresses_give(struct addresses *addresses, uint64_t address, uint64_t size);

void addresses_deinit(struct addresses *addresses);

#endif
