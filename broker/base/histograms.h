/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histograms.h - how long the broker took to answer requests, from the arrival of the message to the answer: one
 * table of histograms, whose keys are those of the status file, --json, the metrics and the man page.
 *
 * The bound of a bucket is twice the bound of the bucket before. Bounds never change, so histograms of different
 * times and brokers can be added. Counting takes constant time and writes nothing: a timer marks the changed
 * histograms for the status file HISTOGRAM_PAUSE_MS later, so a busy broker writes them ten times a second, and an
 * idle one never. Owns the histograms' slots in the status file, and the timer. Knows nothing of what is timed.
 */
#ifndef GPUB_HISTOGRAMS_H
#define GPUB_HISTOGRAMS_H

#include <stdint.h>

#include <event2/event.h>

#include "tracked.h"

#define HISTOGRAM_PAUSE_MS 100

/*
 * Columns: identifier; key; bound of the first bucket, as the exponent n of 2^n microseconds; what the durations are.
 */
#define HISTOGRAMS_KNOWN(X)                                                                              \
	X(CREATE, create, 4, "creates, with the wait for memory, until the buffer was live")             \
	X(ACQUIRE, acquire, 2, "acquires and redeems of a buffer that was there, until it was granted") \
	X(ACQUIRE_WAIT, acquire_wait, 2, "acquires that waited for a name, until it was granted")        \
	X(DRAIN, drain, 8, "drains, until the memory was freed or zeroed")

enum histogram_id {
#define HISTOGRAM_ID(id, key, first, text) HISTOGRAM_##id,
	HISTOGRAMS_KNOWN(HISTOGRAM_ID)
#undef HISTOGRAM_ID
	HISTOGRAMS
};

#define HISTOGRAM_BUCKETS 25 /* number of buckets; the last bucket has no bound */

struct histogram {
	uint64_t       nanoseconds;                /* sum of all durations */
	/* number of durations in each bucket: up to its bound and above the bound of the bucket before */
	uint64_t       buckets[HISTOGRAM_BUCKETS];
	struct tracked tracked;
};

/* All zeroes to begin with: durations are counted, but not shown in the status file. */
struct histograms {
	struct tracking *tracking;
	/* timer after which changed histograms are written to the status file; NULL: they are not shown there */
	struct event    *later;
	/* a bit for each histogram that is to be marked; the timer is pending if any bit is set */
	uint32_t         changed;
	struct histogram of[HISTOGRAMS];
};

/* Shows the histograms in the status file from now on. Returns 0, or -ENOMEM without an error message. */
int histograms_begin(struct histograms *histograms, struct tracking *tracking, struct event_base *base);
void histograms_deinit(struct histograms *histograms);

/*
 * Counts a duration from `began` (nanoseconds of CLOCK_MONOTONIC) to now. Does nothing if `began` is 0, as for work
 * that no client requested.
 */
void histograms_count(struct histograms *histograms, enum histogram_id id, uint64_t began);

/* Returns the upper bound of a bucket in microseconds; 0 for the last bucket, which has none. */
uint64_t histogram_bound(enum histogram_id id, unsigned bucket);

const char *histogram_key(enum histogram_id id);
const char *histogram_text(enum histogram_id id);

#endif
