/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks.h - checks the end marks of timelines, and writes those again that were overwritten.
 *
 * A signal that the writer queued on a device before its end can be carried out at any time after it, for example if
 * the process left the broker but lives on. Such a signal overwrites the mark, and a reader's stream that begins to
 * wait afterwards would wait for ever. So each ended timeline is checked for as long as its buffer exists, at growing
 * intervals: a lost mark is written again after MARKS_LAST_MS at most. Owns the list of ended timelines and one timer.
 * Checks at most MARKS_SCANS timelines in a pass of the loop. Never decides that a timeline has ended.
 */
#ifndef GPUB_MARKS_H
#define GPUB_MARKS_H

#include <stdbool.h>

#include <event2/event.h>

struct timeline;

#define MARKS_SCANS    64    /* checks in a pass */
#define MARKS_FIRST_MS 4     /* pause after a new end, and between the passes of one round over all ended timelines */
#define MARKS_LAST_MS  16384 /* the longest pause between two rounds */

struct marks {
	struct broker   *broker;
	struct timeline *ended;    /* list of the ended timelines, in the order of their last checks, oldest first */
	struct event    *timer;    /* of the next pass */
	unsigned         count;    /* length of `ended` */
	unsigned         left;     /* number of timelines that this round still has to check */
	unsigned         pause_ms; /* between the last round and the next; doubles to MARKS_LAST_MS */
	bool             soon;     /* the timer was last set to MARKS_FIRST_MS */
};

struct broker;

int marks_init(struct broker *broker); /* -ENOMEM */
void marks_deinit(struct marks *marks); /* marks_init() may have failed, or not have run on zeroed marks */

/*
 * Ends a timeline, which releases all waits, and checks its mark from now on. died: the writer's process died, or no
 * session can write the timeline any more. Does nothing if the timeline has ended.
 */
void marks_end_timeline(struct marks *marks, struct timeline *timeline, bool died);

/* Removes a timeline whose page will be closed. Does nothing if it is NULL or not in the list. */
void marks_remove(struct timeline *timeline);

#endif
