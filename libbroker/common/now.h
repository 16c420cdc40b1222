/* SPDX-License-Identifier: Apache-2.0 */
/* now.h - what a clock says, as one number. Owns nothing; never fails: the clocks that are asked for are always there. */
#ifndef GPUB_NOW_H
#define GPUB_NOW_H

#include <stdint.h>
#include <time.h>

/* CLOCK_REALTIME: since 1970. CLOCK_MONOTONIC, CLOCK_BOOTTIME: since the machine started. */
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
