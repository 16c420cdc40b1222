/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.c - kernels that test the order of work, the host twins of stamp.cu: change both or none. */
#include "gpubroker-host.h"
#include "kernels.h"

static void stamp(const gpub_launch_config *config, void **args)
{
	uint64_t *words = *(uint64_t **)args[0];
	uint64_t round = *(uint64_t *)args[1], count = *(uint64_t *)args[2];

	(void)config;
	for (uint64_t i = 0; i < count; i++)
		words[i] = stamp_word(round, i);
}

/*
 * Stores the wrong word `found` in the verdict, unless a wrong word is stored already. Uses atomic operations, because
 * several streams may check with one verdict at the same time, as on CUDA.
 */
static void stamp_verdict(uint64_t *verdict, uint64_t round, uint64_t index, uint64_t found)
{
	uint64_t none = 0;

	if (__atomic_compare_exchange_n(&verdict[1], &none, round, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		verdict[2] = index;
		verdict[3] = found;
	}
}

static void stamp_check(const gpub_launch_config *config, void **args)
{
	uint64_t *verdict = *(uint64_t **)args[0];
	const uint64_t *words = *(const uint64_t **)args[1];
	uint64_t round = *(uint64_t *)args[2], count = *(uint64_t *)args[3], stale = 0;

	(void)config;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t found = words[i];

		if (found != stamp_word(round, i) && !stale++)
			stamp_verdict(verdict, round, i, found);
	}
	if (stale)
		__atomic_fetch_add(&verdict[0], stale, __ATOMIC_RELAXED);
}

GPUB_HOST_KERNEL(stamp, stamp, sizeof(uint64_t *), sizeof(uint64_t), sizeof(uint64_t));
GPUB_HOST_KERNEL(stamp_check, stamp_check, sizeof(uint64_t *), sizeof(uint64_t *), sizeof(uint64_t), sizeof(uint64_t));
