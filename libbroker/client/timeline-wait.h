/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-wait.h - the timelines that streams of this process wait for: for gpub_stream_sync(), which ends although a wait
 * does not, and for the broker, which asks when somebody wants to know why a job hangs. For the broker alone, also those that
 * threads wait for.
 *
 * This process cannot release a stream that waits: only the writer can write the word, and the page is mapped
 * read-only. But it can keep the CPU from hanging. A wait is abandoned if the broker is gone, because then nobody
 * reports the writer's death; or if its timeline has ended and the word does not show it, because a process overwrites
 * the broker's mark. Owns the list of awaited timelines of all clients of the process. Never ends a wait of the device.
 */
#ifndef GPUB_TIMELINE_WAIT_H
#define GPUB_TIMELINE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "timeline-map.h"

/* How long an abandoned wait may make no progress: longer than the broker's check of its marks takes. Tests change it. */
extern unsigned timeline_abandon_ms;

static inline uint64_t timeline_word(const struct timeline_map *map)
{
	return __atomic_load_n(&map->page->word, __ATOMIC_ACQUIRE);
}

/* As a stream compares. */
static inline bool timeline_reached(uint64_t word, uint64_t value)
{
	return (int64_t)(word - value) >= 0;
}

/* For timeline_wait_note(), where the value is not reached: the page has that word. */
void timeline_wait_park(struct timeline_map *map, uint64_t word, uint64_t value, int32_t ordinal);

/*
 * A stream waits for that value, by a lease on that device: noted unless the value is reached. Nothing is removed when it
 * is: that is seen when somebody looks.
 */
static inline void timeline_wait_note(struct timeline_map *map, uint64_t value, int32_t ordinal)
{
	uint64_t word = timeline_word(map);

	if (!timeline_reached(word, value))
		timeline_wait_park(map, word, value, ordinal);
}

/* This thread begins and ends to wait for that value, by a lease on that device. The map stays meanwhile. */
void timeline_wait_begin(struct timeline_map *map, struct thread_wait *wait, uint64_t value, int32_t ordinal);
void timeline_wait_end(struct timeline_map *map, struct thread_wait *wait);

/* Of the lowest waits of the map on that device, by streams and by threads, those that are not reached, the lowest first, and how many they are. */
unsigned timeline_wait_list(const struct timeline_map *map, int32_t ordinal, struct parked_wait waits[PARKED_MAX]);

/* The map is about to be freed. */
void timeline_wait_forget(struct timeline_map *map);

/* Whether a stream may be parked on that map, or on any in this process: its awaited value is not reached. */
bool timeline_wait_parked(const struct timeline_map *map);
bool timeline_waits_parked(void);

/* No wait of a stream is known. */
bool timeline_waits_none(void);
/* No thread waits. */
bool timeline_threads_none(void);

/* The state of one gpub_stream_sync(): zeros at first. */
struct timeline_watch {
	bool            counting;
	uint64_t        progress;
	struct timespec until;
};

/*
 * For device->stream_sync_until(), with a struct timeline_watch. 0: a timeline is awaited; 1: none is. -ECONNRESET,
 * -EOWNERDEAD: an awaited timeline is abandoned, and none has moved for timeline_abandon_ms.
 */
int timeline_waits_ended(void *watch);

/* Around a fork. forget: in the child, where all waits are the parent's. */
void timeline_waits_lock(void);
void timeline_waits_unlock(bool forget);

#endif
