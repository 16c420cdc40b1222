/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inquiry.h - asks the clients which timelines they wait for, when a client sends a REFRESH, and shows the answers.
 *
 * A stream's wait for a timeline costs no message, so only its process knows of the wait. A REFRESH begins a round:
 * each session that has mapped a buffer with a timeline gets an INQUIRE, and the values of all timelines are read. The
 * REFRESH is answered when all sessions have answered with WAITS, or after INQUIRY_MS, because a stopped process never
 * answers; its session is then shown as owing the answer. Each pass of the loop asks a few sessions and reads a few
 * timelines. A round begins at least INQUIRY_PAUSE_MS after the beginning of the last one, and a session has one
 * unanswered INQUIRE at most. So a client cannot flood other clients with questions.
 *
 * Owns the waits that sessions reported. The waits are claims of the process: the broker checks that the session uses
 * the buffer, shows the waits as claims, and decides nothing by them.
 */
#ifndef GPUB_INQUIRY_H
#define GPUB_INQUIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/tracked.h"
#include "common/wire.h"

struct broker;
struct event;
struct session;
struct timeline;

#define INQUIRY_MS       200 /* milliseconds that a round waits for answers at most */
#define INQUIRY_PAUSE_MS 100 /* shortest time in milliseconds between the beginnings of two rounds */

enum inquiry_state {
	INQUIRY_IDLE,
	INQUIRY_ASKING,    /* some sessions are still to be asked in this round, or some timelines to be read */
	INQUIRY_AWAITING,  /* all sessions were asked, and some have not answered */
	INQUIRY_ANSWERING, /* the round is over, and some senders of a REFRESH are still to be answered */
	/* the round is over, but the next one waits until INQUIRY_PAUSE_MS since its beginning have passed */
	INQUIRY_PAUSED
};

struct inquiry {
	enum inquiry_state state;
	uint64_t           round;     /* number of the current round or, between rounds, of the last one */
	uint64_t           began_ms;  /* when that round began, in milliseconds of CLOCK_MONOTONIC */
	unsigned           awaited;   /* number of sessions that were asked in this round and have not answered */
	struct event      *timer;     /* timer that expires at the end of INQUIRY_MS, or of the pause after a round */
	/* list of the sessions to ask in each round; the session that was asked or joined longest ago is first */
	struct session    *sessions;
	struct timeline   *timelines; /* list of all timelines; the timeline that was read longest ago is first */
	struct session    *next;      /* list of the sessions whose REFRESH the next round will answer */
	struct session    *served;    /* list of the sessions whose REFRESH the current round answers */
};

/* A wait of a stream or a thread for a timeline, as the process of the session claims. */
struct reported_wait {
	struct tracked        tracked;
	uint64_t              session;  /* id of the session */
	uint64_t              serial;   /* serial of the timeline's buffer */
	uint64_t              value;    /* the value of the timeline that is awaited */
	uint64_t              since_ms; /* beginning of the wait, in milliseconds since 1970 */
	unsigned              device;   /* device on which the session maps the buffer */
	struct reported_wait *prev, *next; /* links in the list session->inquired.waits */
};

int inquiry_init(struct broker *broker); /* returns 0 or -ENOMEM with the error message set */
/* called before the sessions are freed; may be called without inquiry_init() */
void inquiry_deinit(struct broker *broker);

/*
 * Adds a session that maps a buffer with a timeline to the sessions that are asked. Does nothing if the session was
 * added before.
 */
void inquiry_join(struct session *session);

/* Removes the session from all lists of the inquiry, and drops its reported waits and its REFRESH. */
void inquiry_forget(struct session *session);

/* Adds a new timeline to the list of timelines that are read in each round and shown, until timeline_destroy(). */
void inquiry_watch(struct broker *broker, struct timeline *timeline);

/* The handler of REFRESH. -EBUSY: an earlier REFRESH of the session is not answered yet. */
int inquiry_refresh(struct session *session, const struct wire_message *message);

/*
 * The handler of WAITS: takes the waits that the session reports. A session whose library knows INQUIRE may report them
 * without an unanswered INQUIRE, too: it answers each INQUIRE, also one that a broker's successor has sent again.
 */
int inquiry_take(struct session *session, const struct wire_message *message);

/*
 * Called in each pass of the loop: asks a few sessions, reads a few timelines, or answers a few REFRESHes. Returns true
 * if the next pass has more to do.
 */
bool inquiry_more(struct broker *broker);

#endif
