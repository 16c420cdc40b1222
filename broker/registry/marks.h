/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks.h - checks the end marks of timelines, and writes marks again that were overwritten.
 *
 * A signal that the writer queued on a device before its end can be carried out at any time after the end, for example
 * if the process left the broker but lives on. Such a signal overwrites the mark in the timeline's page, and a reader's
 * stream that begins to wait afterwards would wait for ever. So each ended timeline is checked for as long as its
 * buffer exists, at growing intervals: a lost mark is written again after at most MARKS_LAST_MS and the time that a
 * round takes. Owns the list of ended timelines and one timer. Checks at most MARKS_SCANS timelines in a pass of the
 * loop. Never decides that a timeline has ended.
 */
#ifndef GPUB_MARKS_H
#define GPUB_MARKS_H

#include <stdbool.h>

#include <event2/event.h>

struct timeline;

#define MARKS_SCANS    64    /* largest number of timelines checked in one pass of the loop */
/* milliseconds after a new end, and between the passes of one round over all ended timelines */
#define MARKS_FIRST_MS 4
#define MARKS_LAST_MS  16384 /* longest pause between two rounds, in milliseconds */

struct marks {
	struct broker   *broker;
	struct timeline *ended;    /* list of the ended timelines; the one that was checked longest ago is first */
	struct timeline *due;      /* list of the ended timelines whose end is to be published */
	/* true: ends wait for marks_publish(), because nobody may see a change that is not noted yet */
	bool             defers;
	struct event    *timer;    /* timer for the next pass */
	unsigned         count;    /* length of `ended` */
	unsigned         left;     /* number of timelines that this round still has to check */
	/* milliseconds from the last round to the next; doubles after each round, up to MARKS_LAST_MS */
	unsigned         pause_ms;
	bool             soon;     /* the timer was last set to MARKS_FIRST_MS, not to pause_ms */
};

struct broker;

int marks_init(struct broker *broker); /* returns 0 or -ENOMEM with the error message set */
/* may also be called after marks_init() failed, or on zeroed marks without marks_init() */
void marks_deinit(struct marks *marks);

/*
 * Ends a timeline, which releases all waits for it when it is published, and checks its mark from now on. died: the
 * writer's process died, or no session can write the timeline any more. Does nothing if the timeline has ended already.
 */
void marks_end_timeline(struct marks *marks, struct timeline *timeline, bool died);

/* Publishes the end of an ended timeline, also again, as with another serial; by marks_publish() if marks->defers. */
void marks_publish_later(struct marks *marks, struct timeline *timeline);

/* Publishes the ends that wait. */
void marks_publish(struct marks *marks);

/* Publishes the end of a restored timeline, if it has ended, and checks its mark from now on. */
void marks_restore(struct marks *marks, struct timeline *timeline);

/*
 * Removes a timeline from the list of ended timelines, because its page will be closed. Does nothing if `timeline` is
 * NULL or not in the list.
 */
void marks_remove(struct timeline *timeline);

#endif
