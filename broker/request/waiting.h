/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.h - requests that cannot be answered yet: which session they are of, when their time is over, and how they
 * end.
 *
 * Each kind of wait is a file: acquires and questions that wait for a name (name-waits.h), drains that wait for a
 * buffer's end (drains.h), creates that wait for memory of a device (create-queue.h). A wait ends when its kind answers
 * it, when its time is over, when its request is cancelled, or with its session. Owns the list of each session's waits
 * and a timer for the first of their deadlines. Knows sessions by id only: one that is gone or cut off is passed over.
 */
#ifndef GPUB_WAITING_H
#define GPUB_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>

#include "broker/base/deadlines.h"
#include "broker/base/tracked.h"
#include "common/tables.h"

struct broker;
struct drain_wait;
struct name_queue;
struct session;
struct wait;

struct waiting {
	struct waiter     *waiters;    /* sessions that wait, by id */
	struct wait       *by_request; /* waits, by session and request */
	unsigned           count;      /* of all waits */
	bool               stopping;   /* waiting_forget_all() ends the waits, and their requests are refused */
	struct name_queue *names;      /* name-waits.c: waits by the name that they wait for */
	struct name_queue *waking;     /* name-waits.c: names that have come, with waits to be answered */
	struct drain_wait *drains;     /* drains.c: by the serial of the buffer */
};

/* One session that waits. Session 0 is the broker itself. It is there while the session has a wait. */
struct waiter {
	struct broker   *broker;
	uint64_t         session;
	struct deadlines deadlines; /* of its waits */
	struct event    *timer;     /* for the first deadline; NULL: no wait had one yet */
	unsigned         names;     /* name-waits.c: how many of its waits are for a name */
	struct wait     *waits;     /* those that outlast a stop last */
	UT_hash_handle   hh;        /* by session */
};

/* What a wait is, for people. */
struct wait_shown {
	enum wait_what { WAIT_ACQUIRE, WAIT_DRAIN, WAIT_CREATE, WAIT_NEWER } what;
	const char *name;
	uint64_t    generation; /* of the buffer that is drained, or to be made */
	uint64_t    bytes;      /* that a create needs, */
	unsigned    device;     /* and of which device */
};

struct wait_kind {
	/*
	 * Takes the wait out and frees it. expired: refuses its request, whose time is over; else its session or the
	 * broker ends.
	 */
	void (*end)(struct wait *wait, bool expired);
	void (*show)(const struct wait *wait, struct wait_shown *shown);
	bool outlasts_stop; /* a broker that stops answers it, too */
};

/* Part of each request that waits. */
struct wait {
	const struct wait_kind *kind;
	struct broker          *broker;
	struct waiter          *waiter; /* its session's; NULL: it has left */
	struct deadline         expires; /* of CLOCK_MONOTONIC; ms 0: it waits for ever */
	uint64_t                since_ms; /* since 1970 */
	struct tracked          tracked;
	uint64_t                began;  /* its request was received then: now_ns(CLOCK_MONOTONIC) */
	struct wait_key {
		uint64_t session, request;
	} key; /* in by_request */
	UT_hash_handle          hh;
	struct wait            *prev, *next; /* of its session */
};

/* -ENOMEM. key: of its request. timeout_ms: below 0 for ever. */
int wait_begin(struct wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key, int timeout_ms);

/* The id of the session that waits; 0: the broker. */
uint64_t wait_session(const struct wait *wait);

/* The session that is to be answered; NULL: it is gone, or nothing is sent to it any more. */
struct session *wait_listener(const struct wait *wait);

/* Takes the wait out of its session. Does nothing if it has left already. */
void wait_leave(struct wait *wait);

/*
 * Ends one request of that session whose time is over, and refuses it. False: there is none. The timer of a session
 * makes that due (session_owe()), so that thousands of requests that are over at the same time are ended in the share
 * of their user.
 */
bool waiting_expire(struct broker *broker, uint64_t session);

/* Ends the wait of that request, if it waits, as if its time were over. */
void waiting_cancel(struct broker *broker, uint64_t session, uint64_t request);

/* Ends one request of the session, which is gone. False: it has none; create_wake_forgotten() is called then. */
bool waiting_forget(struct broker *broker, uint64_t session);

/* The broker stops: all waits end but the drains, which are answered when their memory is freed. */
void waiting_forget_all(struct broker *broker);

/* At the broker's end: the drains, too. */
void waiting_deinit(struct broker *broker);

#endif
