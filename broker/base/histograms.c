/* SPDX-License-Identifier: Apache-2.0 */
/* histograms.c - see histograms.h */
#include "histograms.h"

#include <errno.h>
#include <stddef.h>

#include "common/now.h"

static const struct {
	const char *key, *text;
	unsigned    first;
} known[HISTOGRAMS] = {
#define HISTOGRAM_ROW(id, key, first, text) { #key, text, first },
	HISTOGRAMS_KNOWN(HISTOGRAM_ROW)
#undef HISTOGRAM_ROW
};

static void on_later(evutil_socket_t fd, short what, void *argument)
{
	struct histograms *histograms = argument;

	(void)fd;
	(void)what;
	for (int i = 0; i < HISTOGRAMS; i++)
		if (histograms->changed & 1u << i)
			tracked_changed(histograms->tracking, &histograms->of[i].tracked);
	histograms->changed = 0;
}

int histograms_begin(struct histograms *histograms, struct tracking *tracking, struct event_base *base)
{
	histograms->tracking = tracking;
	histograms->later = evtimer_new(base, on_later, histograms);
	if (!histograms->later)
		return -ENOMEM;
	for (int i = 0; i < HISTOGRAMS; i++)
		tracked_begin(tracking, &histograms->of[i].tracked, TRACKED_HISTOGRAM);
	return 0;
}

void histograms_deinit(struct histograms *histograms)
{
	if (histograms->later)
		event_free(histograms->later);
	histograms->later = NULL;
}

/* Returns the first bucket whose bound is not below the duration. first: the first bucket's bound is 2^first us. */
static unsigned bucket_of(unsigned first, uint64_t nanoseconds)
{
	uint64_t us = (nanoseconds + 999) / 1000;
	unsigned power = us > 1 ? 64 - (unsigned)__builtin_clzll(us - 1) : 0;
	unsigned bucket = power > first ? power - first : 0;

	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Starts the timer that marks the histogram. If there is no memory for the timer, the next change tries again. */
static void changed(struct histograms *histograms, enum histogram_id id)
{
	static const struct timeval pause = { .tv_usec = HISTOGRAM_PAUSE_MS * 1000 };

	if (histograms->later && (histograms->changed || !event_add(histograms->later, &pause)))
		histograms->changed |= 1u << id;
}

void histograms_count(struct histograms *histograms, enum histogram_id id, uint64_t began)
{
	struct histogram *histogram = &histograms->of[id];
	uint64_t took;

	if (!began)
		return;
	took = now_ns(CLOCK_MONOTONIC) - began;
	histogram->nanoseconds += took;
	histogram->buckets[bucket_of(known[id].first, took)]++;
	changed(histograms, id);
}

uint64_t histogram_bound(enum histogram_id id, unsigned bucket)
{
	return bucket < HISTOGRAM_BUCKETS - 1 ? 1ull << (known[id].first + bucket) : 0;
}

const char *histogram_key(enum histogram_id id)
{
	return known[id].key;
}

const char *histogram_text(enum histogram_id id)
{
	return known[id].text;
}
