/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histograms.h - how long the broker took to answer, from the message that asked to the answer: one table of histograms, which
 * gives the status file, --json, the metrics and the man page their keys.
 *
 * A bucket's bound is twice the one before it. The bounds never change, so that histograms of different times and brokers can be
 * added. To count is constant work, a few instructions beside a read of the clock: what changed is written to the status file
 * together, HISTOGRAM_PAUSE_MS later. A broker that answers all the time writes ten times a second, and an idle one never. Owns
 * its records' slots in the status file, and the timer. Knows nothing of what is timed.
 */
#ifndef GPUB_HISTOGRAMS_H
#define GPUB_HISTOGRAMS_H

#include <stdint.h>

#include <event2/event.h>

#include "tracked.h"

#define HISTOGRAM_PAUSE_MS 100

/* Its name; its key; the first bucket's bound, as a power of two of microseconds; what it times. */
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

#define HISTOGRAM_BUCKETS 25 /* the last one has no bound */

struct histogram {
	uint64_t       nanoseconds; /* of all together */
	uint64_t       buckets[HISTOGRAM_BUCKETS]; /* how many took longer than the bound before, and no longer than this one */
	struct tracked tracked;
};

/* All zeroes to begin with: it counts, and nothing is shown. */
struct histograms {
	struct tracking *tracking;
	struct event    *later;   /* timer: what changed is marked then; NULL: nothing is shown */
	uint32_t         changed; /* a bit for each; the timer is pending when there is one */
	struct histogram of[HISTOGRAMS];
};

/* They are in the status file from now on. -ENOMEM, without an error message. */
int histograms_begin(struct histograms *histograms, struct tracking *tracking, struct event_base *base);
void histograms_deinit(struct histograms *histograms);

/* Counts what began then (nanoseconds of CLOCK_MONOTONIC) and ends now. began 0: nobody asked for it, and it is not counted. */
void histograms_count(struct histograms *histograms, enum histogram_id id, uint64_t began);

/* A bucket's bound in microseconds; of the last one 0: it has none. */
uint64_t histogram_bound(enum histogram_id id, unsigned bucket);

const char *histogram_key(enum histogram_id id);
const char *histogram_text(enum histogram_id id);

#endif
