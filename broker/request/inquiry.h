/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inquiry.h - what do the clients wait for? The broker asks when somebody wants to know, and shows the answers.
 *
 * A stream's wait for a timeline costs no message, so only its process knows it. A REFRESH begins a round: each session that
 * has mapped a buffer with a timeline gets an INQUIRE, and the timelines' values are read. The REFRESH is answered when
 * all have answered with WAITS, or after INQUIRY_MS: a stopped process never answers, and its session says so. Sessions
 * and timelines are gone through a few in each pass of the loop. A round begins INQUIRY_PAUSE_MS after the last one
 * at the earliest, and a session has one question open at most, so nobody can have others asked without end.
 *
 * Owns the waits that sessions reported. They are claims: the broker checks that the session uses the buffer, shows them as
 * that process's word, and decides nothing by them.
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

#define INQUIRY_MS       200
#define INQUIRY_PAUSE_MS 100 /* from one round's beginning to the next one's */

enum inquiry_state {
	INQUIRY_IDLE,
	INQUIRY_ASKING,    /* some are yet to be asked */
	INQUIRY_AWAITING,  /* some are yet to answer */
	INQUIRY_ANSWERING, /* some who sent a REFRESH are yet to be answered */
	INQUIRY_PAUSED
};

struct inquiry {
	enum inquiry_state state;
	uint64_t           round;
	uint64_t           began_ms;  /* CLOCK_MONOTONIC */
	unsigned           awaited;   /* answers, in this round */
	struct event      *timer;
	struct session    *sessions;  /* that are asked; the one that was asked longest ago first */
	struct timeline   *timelines; /* all; the one that was read longest ago first */
	struct session    *next;      /* who sent a REFRESH for the next round, */
	struct session    *served;    /* and for this one */
};

/* A stream of that session waits, as its process says. */
struct reported_wait {
	struct tracked        tracked;
	uint64_t              session, serial, value, since_ms; /* since 1970 */
	unsigned              device;
	struct reported_wait *prev, *next;
};

int inquiry_init(struct broker *broker); /* -ENOMEM */
void inquiry_deinit(struct broker *broker); /* before the sessions end; also one that was not initialised */

/* The session has mapped a buffer with a timeline: it is asked from now on, until inquiry_forget(). */
void inquiry_join(struct session *session);
void inquiry_forget(struct session *session);

/* The timeline is there: it is shown until it is destroyed. */
void inquiry_watch(struct broker *broker, struct timeline *timeline);

/* The handler of REFRESH. -EBUSY: the session has sent one that is not answered yet. */
int inquiry_refresh(struct session *session, const struct wire_message *message);

/* The handler of WAITS, of a session that owes an answer. */
int inquiry_take(struct session *session, const struct wire_message *message);

/* A pass of the loop. True: there is more to do. */
bool inquiry_more(struct broker *broker);

#endif
