/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - what happened in a broker, for people who ask afterwards: a line of the log, and an entry of the status file's ring.
 *
 * event-kinds.h has the table of them. What a client can cause as often as it likes is limited for each class, which is a kind and
 * a reason: so many lines and entries in EVENT_WINDOW_MS. What is left out is counted, and said when that time is over. Owns these counts and the timer.
 * Does not know who writes the entries: that is a callback. Never given a key, a handle or a ticket.
 */
#ifndef GPUB_EVENTS_H
#define GPUB_EVENTS_H

#include <stdint.h>

#include "event-kinds.h"

struct broker;
struct event; /* libevent's */
struct event_base;

#define EVENT_WINDOW_MS 60000
#define EVENT_ENTRIES   8 /* of a class of refusals in that time; and one that says how many were left out */

/* So many of a class came since the window began. */
struct event_class {
	uint32_t lines, entries, lines_left, entries_left; /* the latter two are left out */
};

/* All zeroes to begin with: nobody writes entries, and what is left out is not said by itself. */
struct events {
	void (*record)(struct broker *broker, const struct broker_event *event); /* status/ring.h: NULL, or puts it into the ring */
	struct broker     *broker;
	struct event      *timer; /* pending while something is left out */
	uint64_t           window; /* milliseconds since 1970, when it began */
	struct event_class classes[EVENT_KINDS][EVENT_REASONS];
};

/* From here on what is left out is said when its time is over; and at the end. -ENOMEM, without an error message. */
int events_begin(struct events *events, struct broker *broker, struct event_base *base);
void events_end(struct events *events);

/* Has it logged and kept, as far as its class may. Constant work; an event that is not logged costs no text. */
void event_happened(struct broker *broker, const struct broker_event *event);

/* The window is over: says what was left out in it. For the timer, and for tests. */
void events_tell(struct events *events);

/* Milliseconds since 1970, up to 10 ms old. */
uint64_t event_clock(void);

#endif
