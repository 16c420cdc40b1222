/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - records what happens in a broker: each event becomes a line of the log and an entry of the status file's
 * ring.
 *
 * event-kinds.h has the table of kinds. A class is all events of one kind and one reason. The number of a class's log
 * lines in each window of EVENT_WINDOW_MS is limited if the table has a limit for the kind. If the table puts the kind
 * into the ring's part EVENT_REFUSED, the number of the class's ring entries is limited, too. Events that are left out
 * are counted, and their number is reported when the window is over. Owns these counts and the timer. A callback writes
 * the entries of the ring. Never given a key, a handle or a ticket.
 */
#ifndef GPUB_EVENTS_H
#define GPUB_EVENTS_H

#include <stdint.h>

#include "event-kinds.h"

struct broker;
struct event; /* libevent's */
struct event_base;

#define EVENT_WINDOW_MS 60000
/* most ring entries of a class in a window, if its kind is in the ring's part EVENT_REFUSED */
#define EVENT_ENTRIES   8

/* How many log lines and ring entries a class had since the window began. */
struct event_class {
	uint32_t lines, entries;           /* log lines and ring entries that were written */
	uint32_t lines_left, entries_left; /* log lines and ring entries that were left out */
};

/* All zeroes to begin with: no ring, and no timer that reports what was left out. */
struct events {
	/* adds an event to the ring; NULL: there is no ring */
	void (*record)(struct broker *broker, const struct broker_event *event);
	struct broker     *broker;
	struct event      *timer;  /* timer that ends the window; pending while the report of left-out events is due */
	uint64_t           window; /* when the window began, in milliseconds since 1970; 0: there is none */
	struct event_class classes[EVENT_KINDS][EVENT_REASONS];
};

/* Makes the timer that reports how many events were left out. Returns 0, or -ENOMEM without an error message. */
int events_begin(struct events *events, struct broker *broker, struct event_base *base);

/*
 * Frees the timer, and reports how many events were left out and not reported yet. Later events do not reach the ring.
 */
void events_end(struct events *events);

/* Logs the event and adds it to the ring, except where its class is over its limit. Takes constant time. */
void event_happened(struct broker *broker, const struct broker_event *event);

/*
 * Ends the window: reports the number of left-out events of each class, and clears the counts. Called by the timer, by
 * an event after the window, by events_end() and by tests.
 */
void events_tell(struct events *events);

/* Returns the time in milliseconds since 1970, from a coarse clock: up to 10 ms late. */
uint64_t event_clock(void);

#endif
