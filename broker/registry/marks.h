/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks.h - checks the end marks of timelines, and writes those again that were overwritten.
 *
 * A signal that was queued on the device before a writer's end can land after it, at any time: a process that left may live on,
 * and a stream of a context that no close waits for may still hold a signal. It overwrites the mark, and a reader's stream that
 * waits after that would wait for ever. So each ended timeline is checked for as long as its buffer exists, with growing
 * pauses: a lost mark is back after MARKS_LAST_MS at most. Owns the list of ended timelines and one timer. Checks a
 * bounded number of them in a pass of the loop. Never decides that a timeline has ended.
 */
#ifndef GPUB_MARKS_H
#define GPUB_MARKS_H

#include <stdbool.h>

#include <event2/event.h>

struct timeline;

#define MARKS_SCANS    64    /* checks in a pass */
#define MARKS_FIRST_MS 4     /* pause behind a new end, and between the passes of a round over all of them */
#define MARKS_LAST_MS  16384 /* the longest pause between two rounds */

struct marks {
	struct timeline *ended; /* the one that was checked longest ago first */
	struct event    *timer;
	unsigned         count, left; /* how many; those that this round has yet to check */
	unsigned         pause_ms;    /* behind this round */
	bool             soon;        /* the timer was set to MARKS_FIRST_MS */
};

struct broker;

int marks_init(struct broker *broker); /* -ENOMEM */
void marks_deinit(struct marks *marks); /* one that was never made is fine */

/* The timeline has ended: it is checked from now on. */
void marks_add(struct marks *marks, struct timeline *timeline);

/* Its page goes. One that is not checked, and NULL, are fine. */
void marks_remove(struct timeline *timeline);

#endif
