/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.cu - kernels that test the order of work, on CUDA: stamp() writes words of a round, stamp_check() checks them.
 * stamp.c is its host twin: change both or none.
 */
#include "kernels.h"

extern "C" __global__ void stamp(uint64_t *words, uint64_t round, uint64_t count)
{
	for (uint64_t i = linear_first(); i < count; i += linear_stride())
		words[i] = stamp_word(round, i);
}

static __device__ void stamp_verdict(uint64_t *verdict, uint64_t round, uint64_t index, uint64_t found)
{
	if (atomicCAS((unsigned long long *)&verdict[1], 0ull, (unsigned long long)round) == 0) {
		verdict[2] = index;
		verdict[3] = found;
	}
}

/* The pointers are not __restrict__, which would allow loads through the read-only cache. */
extern "C" __global__ void stamp_check(uint64_t *verdict, const uint64_t *words, uint64_t round, uint64_t count)
{
	uint64_t stale = 0;

	for (uint64_t i = linear_first(); i < count; i += linear_stride()) {
		uint64_t found = words[i];

		if (found != stamp_word(round, i) && !stale++)
			stamp_verdict(verdict, round, i, found);
	}
	if (stale)
		atomicAdd((unsigned long long *)verdict, (unsigned long long)stale);
}
