/* SPDX-License-Identifier: Apache-2.0 */
/*
 * now.h - the time of a clock as one number. Owns nothing. Never fails, because all systems have the clocks used
 * here.
 */
#ifndef GPUB_NOW_H
#define GPUB_NOW_H

#include <stdint.h>
#include <time.h>

/* Returns nanoseconds: since 1970 for CLOCK_REALTIME, since the boot for CLOCK_MONOTONIC and CLOCK_BOOTTIME. */
static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ms(clockid_t clock)
{
	return now_ns(clock) / 1000000;
}

#endif
