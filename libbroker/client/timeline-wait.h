/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-wait.h - the waits of this process's streams and threads for timelines.
 *
 * gpub_stream_sync() needs the waits of streams, to return even if one of them does not end. The broker asks for the
 * waits of streams and threads when a user wants to know why a job hangs (waits.h). This process cannot release a
 * stream, because only the writer can write the timeline's word. But gpub_stream_sync() can stop to wait for the
 * stream. A wait is abandoned if the connection is lost, because then no message tells of the writer's death; or if its
 * timeline has ended and the word does not show that, because a process overwrites the broker's mark. Owns the list of
 * awaited timelines of all clients of the process. Never ends a wait of the device.
 */
#ifndef GPUB_TIMELINE_WAIT_H
#define GPUB_TIMELINE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "timeline-map.h"

/*
 * How long, in milliseconds, gpub_stream_sync() goes on while a wait is abandoned and its timeline does not move.
 * Longer than the broker takes to write an overwritten mark again. Tests change it.
 */
extern unsigned timeline_abandon_ms;

static inline uint64_t timeline_word(const struct timeline_map *map)
{
	return __atomic_load_n(&map->page->word, __ATOMIC_ACQUIRE);
}

/* Whether a timeline with the word `word` has reached `value`. Compares as a stream's wait does. */
static inline bool timeline_reached(uint64_t word, uint64_t value)
{
	return (int64_t)(word - value) >= 0;
}

/* Part of timeline_wait_note(): records a stream's wait for a value that is not reached. word: the timeline's word. */
void timeline_wait_park(struct timeline_map *map, uint64_t word, uint64_t value, int32_t ordinal);

/*
 * Records that a stream waits until the timeline reaches `value`, unless it has reached it. ordinal: ordinal of the
 * lease's device in this process. The record is not removed when the value is reached, because the functions that read
 * the waits compare each value with the timeline's word.
 */
static inline void timeline_wait_note(struct timeline_map *map, uint64_t value, int32_t ordinal)
{
	uint64_t word = timeline_word(map);

	if (!timeline_reached(word, value))
		timeline_wait_park(map, word, value, ordinal);
}

/*
 * Record the beginning and the end of a wait of the calling thread until the timeline reaches `value`. ordinal: ordinal
 * of the lease's device in this process. The caller has a reference to the map.
 */
void timeline_wait_begin(struct timeline_map *map, struct thread_wait *wait, uint64_t value, int32_t ordinal);
void timeline_wait_end(struct timeline_map *map, struct thread_wait *wait);

/*
 * Stores in `waits` the waits of this process's streams and threads for the map's timeline that were made with a lease
 * of the device with this ordinal, and whose value is not reached: the lowest values first, at most PARKED_MAX. Returns
 * how many it stored.
 */
unsigned timeline_wait_list(const struct timeline_map *map, int32_t ordinal, struct parked_wait waits[PARKED_MAX]);

/* Removes the map, which is about to be freed, from the list of awaited timelines. */
void timeline_wait_forget(struct timeline_map *map);

/*
 * Whether a stream of this process may still wait for this timeline, or for any timeline: the largest value that a
 * stream waits for is not reached.
 */
bool timeline_wait_parked(const struct timeline_map *map);
bool timeline_waits_parked(void);

/* Whether no wait of a stream is recorded in this process. */
bool timeline_waits_none(void);
/* Whether no thread of this process is in a wait of timeline_wait_begin(). */
bool timeline_threads_none(void);

/* What one call of gpub_stream_sync() has seen of abandoned waits. All zeros before the first look. */
struct timeline_watch {
	bool            counting; /* an abandoned wait was found, so `progress` and `until` are valid */
	/* sum of the words of the timelines with abandoned waits; changes when one of the words does */
	uint64_t        progress;
	struct timespec until;    /* when gpub_stream_sync() returns an error unless `progress` changes before */
};

/*
 * For stream.c's over() of device->stream_sync_until(). watch: a struct timeline_watch. Returns 0 if a stream waits for
 * a timeline; 1 if none does. Returns -ECONNRESET or -EOWNERDEAD, error message set, if a wait is abandoned and no
 * timeline with an abandoned wait has moved for timeline_abandon_ms.
 */
int timeline_waits_ended(void *watch);

/*
 * Lock and unlock the list of awaited timelines around a fork. forget: true in the child, where the list is emptied,
 * because the waits are the parent's.
 */
void timeline_waits_lock(void);
void timeline_waits_unlock(bool forget);

#endif
