/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.cu - the kernels of test-driver-facts: one that takes its time, one that reads, one that keeps writing.
 * One thread each: launched <<<1, 1>>>.
 */
#include <cstdint>

static __device__ uint64_t nanoseconds(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* Takes that long, then writes value to word (unless NULL). */
extern "C" __global__ void facts_spin(uint64_t duration, uint64_t *word, uint64_t value)
{
	uint64_t until = nanoseconds() + duration;

	while ((int64_t)(nanoseconds() - until) < 0)
		__nanosleep(1000);
	if (word)
		*(volatile uint64_t *)word = value;
}

extern "C" __global__ void facts_read(const uint32_t *from, uint32_t *to)
{
	*(volatile uint32_t *)to = *(const volatile uint32_t *)from;
}

/* Counts in word for that long: whoever watches sees when it stops. */
extern "C" __global__ void facts_beat(uint64_t duration, uint64_t *word)
{
	uint64_t until = nanoseconds() + duration;
	uint64_t beat = 0;

	while ((int64_t)(nanoseconds() - until) < 0) {
		*(volatile uint64_t *)word = ++beat;
		__threadfence_system();
		__nanosleep(1000);
	}
}
