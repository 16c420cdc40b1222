/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticks.h - timestamps that take one instruction on x86-64 and aarch64, and are converted to milliseconds only when
 * they are needed.
 *
 * A call of clock_gettime(2) takes longer than everything else that timeline-wait.c does to record a wait. The rate of
 * the processor's counter is not known in advance. It follows from two readings of counter and clock, one at the
 * connect and one at the conversion. Owns nothing.
 */
#ifndef GPUB_TICKS_H
#define GPUB_TICKS_H

#include <stdint.h>

#include "common/now.h"

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return now_ms(CLOCK_MONOTONIC);
#endif
}

/* One moment: ticks_now(), and CLOCK_MONOTONIC in milliseconds. */
struct ticks_moment {
	uint64_t ticks, ms;
};

static inline struct ticks_moment ticks_moment(void)
{
	return (struct ticks_moment){ .ticks = ticks_now(), .ms = now_ms(CLOCK_MONOTONIC) };
}

/* Returns the milliseconds from the timestamp `ticks` to *now, but at most those from *first to *now. */
static inline uint64_t ticks_age_ms(uint64_t ticks, const struct ticks_moment *first, const struct ticks_moment *now)
{
	double part;

	if (ticks >= now->ticks || now->ticks <= first->ticks)
		return 0;
	part = (double)(now->ticks - ticks) / (double)(now->ticks - first->ticks);
	return (uint64_t)((part < 1 ? part : 1) * (double)(now->ms - first->ms));
}

#endif
