/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.cu - kernels that test lifetimes, on CUDA: late_write() writes after a delay, managed_increment() counts.
 * spin.c is its host twin: change both or none.
 */
#include "kernels.h"

extern "C" {
__device__ __managed__ unsigned long long kernels_managed_counter = 0;
}

static __device__ uint64_t device_nanoseconds(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* Waits in short sleeps, so that a device with few multiprocessors can run other kernels meanwhile. */
extern "C" __global__ void late_write(uint64_t *word, uint64_t value, uint64_t milliseconds)
{
	uint64_t until = device_nanoseconds() + milliseconds * 1000000ull;

	if (blockIdx.x || blockIdx.y || blockIdx.z || threadIdx.x || threadIdx.y || threadIdx.z)
		return;
	while ((int64_t)(device_nanoseconds() - until) < 0)
		__nanosleep(10000);
	*(volatile uint64_t *)word = value;
}

/* Adds atomically for the whole system, because kernels on several devices add to one variable. */
extern "C" __global__ void managed_increment(uint64_t amount)
{
	if (blockIdx.x || blockIdx.y || blockIdx.z || threadIdx.x || threadIdx.y || threadIdx.z)
		return;
	atomicAdd_system(&kernels_managed_counter, (unsigned long long)amount);
}
