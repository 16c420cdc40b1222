/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.c - kernels that test lifetimes, the host twins of spin.cu: change both or none.
 *
 * late_write() sleeps instead of spinning, so that a busy host device costs no CPU time.
 */
#include <errno.h>
#include <time.h>

#include "gpubroker-host.h"
#include "kernels.h"

extern __attribute__((visibility("default"))) uint64_t kernels_managed_counter;

uint64_t kernels_managed_counter;

static void late_write(const gpub_launch_config *config, void **args)
{
	volatile uint64_t *word = *(uint64_t **)args[0];
	uint64_t value = *(uint64_t *)args[1], milliseconds = *(uint64_t *)args[2];
	struct timespec until;

	(void)config;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(milliseconds / 1000);
	until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	*word = value;
}

static void managed_increment(const gpub_launch_config *config, void **args)
{
	(void)config;
	__atomic_fetch_add(&kernels_managed_counter, *(uint64_t *)args[0], __ATOMIC_RELAXED);
}

GPUB_HOST_KERNEL(late_write, late_write, sizeof(uint64_t *), sizeof(uint64_t), sizeof(uint64_t));
GPUB_HOST_KERNEL(managed_increment, managed_increment, sizeof(uint64_t));
