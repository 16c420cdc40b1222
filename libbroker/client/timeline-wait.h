/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-wait.h - the waits of this process's streams and threads for timelines.
 *
 * gpub_stream_sync() needs the waits of streams, to return even if one does not end. The broker asks for the waits of
 * streams and threads when somebody wants to know why a job hangs (waits.h). This process cannot release a stream,
 * because only the writer can write the word. But it can keep a thread from waiting for that stream without end. A
 * wait is abandoned if the connection is lost, because then nobody reports the writer's death; or if its timeline has
 * ended and the word does not show that, because a process overwrites the broker's mark. Owns the list of awaited
 * timelines of all clients of the process. Never ends a wait of the device.
 */
#ifndef GPUB_TIMELINE_WAIT_H
#define GPUB_TIMELINE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "timeline-map.h"

/* Limit in ms on an abandoned wait without progress: longer than the broker's check of its marks. Tests change it. */
extern unsigned timeline_abandon_ms;

static inline uint64_t timeline_word(const struct timeline_map *map)
{
	return __atomic_load_n(&map->page->word, __ATOMIC_ACQUIRE);
}

/* Whether a timeline with that word has reached the value: compares as a stream does. */
static inline bool timeline_reached(uint64_t word, uint64_t value)
{
	return (int64_t)(word - value) >= 0;
}

/* Notes a stream's wait for a value that is not reached, for timeline_wait_note(). word: of the page. */
void timeline_wait_park(struct timeline_map *map, uint64_t word, uint64_t value, int32_t ordinal);

/*
 * Notes that a stream waits for that value, unless the value is reached. ordinal: of the lease's device. When the
 * value is reached, nothing is removed: the functions that read the waits compare each with the word.
 */
static inline void timeline_wait_note(struct timeline_map *map, uint64_t value, int32_t ordinal)
{
	uint64_t word = timeline_word(map);

	if (!timeline_reached(word, value))
		timeline_wait_park(map, word, value, ordinal);
}

/* Begin and end a wait of this thread for that value. ordinal: of the lease's device. The caller has a reference. */
void timeline_wait_begin(struct timeline_map *map, struct thread_wait *wait, uint64_t value, int32_t ordinal);
void timeline_wait_end(struct timeline_map *map, struct thread_wait *wait);

/* Fills in the lowest waits of streams and threads on that device that are not reached, in order. Returns how many. */
unsigned timeline_wait_list(const struct timeline_map *map, int32_t ordinal, struct parked_wait waits[PARKED_MAX]);

/* Removes the map, which is about to be freed, from the list of awaited timelines. */
void timeline_wait_forget(struct timeline_map *map);

/* Whether a stream may wait for that timeline, or for any in this process: its largest awaited value is not reached. */
bool timeline_wait_parked(const struct timeline_map *map);
bool timeline_waits_parked(void);

/* Whether no wait of a stream is noted. */
bool timeline_waits_none(void);
/* Whether no thread waits. */
bool timeline_threads_none(void);

/* What one gpub_stream_sync() has seen of abandoned waits. Zeros at first. */
struct timeline_watch {
	bool            counting; /* an abandoned wait was found: progress and until are valid */
	uint64_t        progress; /* changes when a timeline with an abandoned wait moves */
	struct timespec until;    /* deadline for progress */
};

/*
 * The function over() of device->stream_sync_until(), with a struct timeline_watch. 0: a timeline is awaited; 1: none
 * is. -ECONNRESET, -EOWNERDEAD: a wait is abandoned, and no such timeline has moved for timeline_abandon_ms.
 */
int timeline_waits_ended(void *watch);

/* Lock and unlock the list around a fork. forget: in the child, empties the list, whose waits are its parent's. */
void timeline_waits_lock(void);
void timeline_waits_unlock(bool forget);

#endif
