/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-wait.h - which timelines streams of this process wait for, so that who synchronises is not held for ever by a
 * wait that nobody is left to end.
 *
 * A stream that waits cannot be released from here: the word that it waits on is the writer's, and the page is mapped for
 * reading. What can be kept from hanging is the CPU. A wait is abandoned when the broker is gone, for nobody tells of the
 * writer's death then, or when its timeline has ended and yet the word does not say so, because somebody writes over the
 * broker's mark. Owns the list of timelines that are waited for, of all clients of the process. Never
 * ends a wait of the device.
 */
#ifndef GPUB_TIMELINE_WAIT_H
#define GPUB_TIMELINE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct timeline_map;

/* How long an abandoned wait may make no progress: longer than the broker takes to look at a mark again. For tests to change. */
extern unsigned timeline_patience_ms;

/* A stream waits for that value: noted unless it is reached. */
void timeline_wait_note(struct timeline_map *map, uint64_t value);

/* The map goes. */
void timeline_wait_forget(struct timeline_map *map);

/* Whether a stream may be parked there: what is awaited is not reached. Of that map; of any in this process. */
bool timeline_wait_parked(const struct timeline_map *map);
bool timeline_waits_parked(void);

/* Nothing is waited for, as far as it is known. */
bool timeline_waits_none(void);

/* What one who synchronises has seen so far: zeros at first. */
struct timeline_watch {
	bool            counting;
	uint64_t        progress;
	struct timespec until;
};

/*
 * For device->stream_sync_until(), with a struct timeline_watch. 0: something is waited for; 1: nothing is. -ECONNRESET,
 * -EOWNERDEAD: what is waited for is abandoned, and did not move for timeline_patience_ms.
 */
int timeline_waits_over(void *watch);

/* Around a fork. forget: in the child, where all of them are the parent's. */
void timeline_waits_lock(void);
void timeline_waits_unlock(bool forget);

#endif
