/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.h - addresses for buffers that all processes map at one address (GPUB_SAME_ADDRESS).
 *
 * Owns a part of the address space in which processes on Linux have nothing by themselves: above the heaps of
 * position-dependent programs and the memory of sanitizers, below position-independent programs. A buddy allocator: a
 * range is a power of two, is halved until it fits, and is joined with its other half as soon as both are free. So a
 * range costs the same to take and to give back however many there are, and ranges of any sizes leave no gaps behind. A
 * buffer that is created again is likely to get the address that it had. Knows nothing of what other processes have
 * mapped.
 */
#ifndef GPUB_BROKER_ADDRESSES_H
#define GPUB_BROKER_ADDRESSES_H

#include <stdint.h>

#define ADDRESSES_BEGIN 0x200000000000ull
#define ADDRESSES_END   0x500000000000ull
#define ADDRESSES_ALIGN (32ull << 20) /* bytes: of each address (facts.md), and free around each buffer */
#define ADDRESSES_LEAST 26            /* bytes of the smallest range, as a power of two */
#define ADDRESSES_MOST  44            /* bytes of the largest range, as a power of two */

struct free_range;

struct addresses {
	uint64_t           mask;                     /* xor-ed into each offset: brokers begin at different addresses */
	struct free_range *free[ADDRESSES_MOST + 1]; /* free ranges by size, the last that came first */
	struct free_range *by_offset;                /* all free ranges */
};

/*
 * random: decides where the first address is. A process may have buffers of several brokers, or of a dead one and its
 * successor: brokers that begin at different places are unlikely to choose the same address. -ENOMEM.
 */
int addresses_init(struct addresses *addresses, uint32_t random);

/* Takes addresses for size bytes, which are whole granules. Returns the first; 0: none are left, or no memory. */
uint64_t addresses_take(struct addresses *addresses, uint64_t size);

/* Gives back what addresses_take() returned for that size, which no process maps any more. Address 0: does nothing. */
void addresses_give(struct addresses *addresses, uint64_t address, uint64_t size);

void addresses_deinit(struct addresses *addresses);

#endif
