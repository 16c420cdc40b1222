/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.h - requests that cannot be answered yet (waits): the session of each, its deadline, and its end.
 *
 * Each kind of wait has its own file: requests that wait for a name (name-waits.h), drains that wait for a buffer's end
 * (drains.h), creates that wait for memory of a device (create-queue.h). A wait ends when its kind answers the request,
 * when its time is over, when the request is cancelled, or with its session. Owns the list of each session's waits and
 * a timer for the first of their deadlines. Keeps ids of sessions and not pointers: a session that has ended or is
 * disconnected gets no answer.
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
	struct waiter     *waiters;    /* sessions with waits, by id */
	struct wait       *by_request; /* all waits, by session and request */
	unsigned           count;      /* number of all waits */
	bool               stopping;   /* waiting_forget_all() is ending the waits; waits for a name are then refused */
	/* table of queues, by name: the acquires that wait for that name. Owned by name-waits.c */
	struct name_queue *names;
	/* list of the queues whose name has appeared, and whose waits are to be answered. Owned by name-waits.c */
	struct name_queue *waking;
	struct drain_wait *drains;     /* table of all drains that wait, by the buffer's serial. Owned by drains.c */
};

/* The waits of one session. Exists while the session has a wait. */
struct waiter {
	struct broker   *broker;
	uint64_t         session;   /* id; 0: the broker itself waits */
	struct deadlines deadlines; /* of the waits with a time limit */
	struct event    *timer;     /* for the first deadline; NULL: no wait has had a deadline */
	unsigned         names;     /* name-waits.c: number of waits for a name */
	struct wait     *waits;     /* all waits of the session; waits of a kind that outlasts a stop are last */
	UT_hash_handle   hh;        /* in waiting->waiters */
};

/* Description of a wait for the status file. */
struct wait_shown {
	enum wait_what { WAIT_ACQUIRE, WAIT_DRAIN, WAIT_CREATE, WAIT_NEWER } what;
	const char *name;       /* of the buffer */
	uint64_t    generation; /* of the buffer that is drained or created; 0 for other waits */
	uint64_t    bytes;      /* size of the memory that a create waits for; 0 for other waits */
	unsigned    device;     /* device of that memory */
};

struct wait_kind {
	/*
	 * Takes the wait out and frees it. expired: the request is refused, because its time is over, it was
	 * cancelled, or there is no memory to time it. Otherwise the session gets no more answers or the broker stops.
	 */
	void (*end)(struct wait *wait, bool expired);
	void (*show)(const struct wait *wait, struct wait_shown *shown);
	bool outlasts_stop; /* waiting_forget_all() does not end the waits of this kind */
};

/* Member of each request that waits. */
struct wait {
	const struct wait_kind *kind;
	struct broker          *broker;
	struct waiter          *waiter; /* of the session; NULL: wait_leave() was called */
	struct deadline         expires; /* CLOCK_MONOTONIC; its ms is 0: the request waits for ever */
	uint64_t                since_ms; /* beginning of the wait, in milliseconds since 1970 */
	struct tracked          tracked;
	uint64_t                began;  /* time when the request was received: now_ns(CLOCK_MONOTONIC) */
	struct wait_key {
		uint64_t session, request;
	} key;
	UT_hash_handle          hh;          /* in waiting->by_request */
	struct wait            *prev, *next; /* in waiter->waits */
};

/* Begins the wait of the request `key`. timeout_ms: time limit; below 0: none. -ENOMEM. */
int wait_begin(struct wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key,
	       int timeout_ms);

/* Returns the id of the session that waits; 0: the broker. */
uint64_t wait_session(const struct wait *wait);

/* Returns the session to answer. NULL: the session has ended or is disconnected, or the broker itself waits. */
struct session *wait_listener(const struct wait *wait);

/* Takes the wait out of its session's waits. Does nothing if that was done before. */
void wait_leave(struct wait *wait);

/*
 * Ends one wait of the session whose time is over, or for which no timer can be set, and refuses the request. Returns
 * false if there is none. The timer of the session's deadlines does not call this itself, but session_owe(), so that
 * thousands of requests that expire at the same time are ended in the share of their user.
 */
bool waiting_expire(struct broker *broker, uint64_t session);

/* Ends the wait of the request as if its time were over. Does nothing if the request does not wait. */
void waiting_cancel(struct broker *broker, uint64_t session, uint64_t request);

/* Ends one wait of a session that gets no more answers. False: none was left; call create_wake_forgotten() then. */
bool waiting_forget(struct broker *broker, uint64_t session);

/* Ends all waits but the drains, because the broker stops. Drains are answered when their memory is freed. */
void waiting_forget_all(struct broker *broker);

/* Ends all waits, also the drains, at the broker's end. */
void waiting_deinit(struct broker *broker);

#endif
