/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - ranges that show calls of the library on a profiler's time line, through NVTX, NVIDIA's tools extension.
 *
 * Only calls that ask the broker, wait, open or close have a range; the fast path (lease.c) has none. The profiler's
 * code runs at both ends of a range, so no range begins or ends under client->lock. Without a profiler a range costs
 * one load, and in a build without NVTX nothing. Owns the NVTX domain. Never loads a profiler in a privileged program
 * (AT_SECURE), whose environment is not trusted, and never calls one in a forked child, where its state is unknown.
 */
#ifndef GPUB_TRACE_H
#define GPUB_TRACE_H

#if HAVE_NVTX

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* Pid of the process whose ranges a profiler records; 0: there is no profiler. */
extern _Atomic(pid_t) trace_process;

/* Called at each connect. The first call makes NVTX load the profiler that the environment names. */
void trace_start(void);

bool trace_push(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_pop(void);

static inline void trace_end(const bool *pushed)
{
	if (*pushed)
		trace_pop();
}

/* TRACE(FORMAT, ...) begins a range with the name that printf(3) would make. The range ends at the end of the block. */
#define TRACE(...)                                              \
	__attribute__((cleanup(trace_end), unused)) const bool  \
		trace_pushed = atomic_load(&trace_process) &&   \
			       trace_push(__VA_ARGS__)

#else

static inline void trace_start(void)
{
}

#define TRACE(...) ((void)0)

#endif

#endif
