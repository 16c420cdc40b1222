/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.h - requests that cannot be answered yet (waits): the session of each, its deadline, and its end.
 *
 * Each kind of wait has its own file: requests that wait for a name (name-waits.h), drains that wait for a buffer's end
 * (drains.h), creates that wait for memory of a device (create-queue.h). A wait ends when its kind answers the request,
 * when its time is over, when the request is cancelled, with its session, or, if it is no drain, when the broker stops.
 * Owns the list of each session's waits and a timer for the first of their deadlines. Keeps ids of sessions and not
 * pointers: a session that has ended or is disconnected gets no answer.
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
	struct waiter     *waiters;    /* table of the sessions with waits, by id */
	struct wait       *by_request; /* waits by session and request; of waits with the same key, the first */
	unsigned           count;      /* number of all waits */
	bool               stopping;   /* waiting_forget_all() is ending the waits; waits for a name are then refused */
	/* table of the queues of requests that wait for a name, by name. Owned by name-waits.c */
	struct name_queue *names;
	/* list of the queues whose name has a new buffer, and whose waits are to be answered. Owned by name-waits.c */
	struct name_queue *waking;
	struct drain_wait *drains;     /* table of all drains that wait, by the buffer's serial. Owned by drains.c */
};

/* The waits of one session. Exists while the session has a wait. */
struct waiter {
	struct broker   *broker;
	uint64_t         session;   /* id of the session; 0: the broker itself waits */
	struct deadlines deadlines; /* deadlines of the session's waits that have a time limit */
	/* timer for the earliest deadline; NULL: no wait of the session has had a deadline */
	struct event    *timer;
	unsigned         names;     /* number of the session's waits for a name. Owned by name-waits.c */
	/* list of all waits of the session; waits of a kind that outlasts a stop are last */
	struct wait     *waits;
	UT_hash_handle   hh;        /* handle in the hash table waiting->waiters */
};

/* Description of a wait for the status file. */
struct wait_shown {
	enum wait_what { WAIT_ACQUIRE, WAIT_DRAIN, WAIT_CREATE, WAIT_NEWER } what;
	const char *name;       /* name of the buffer that is awaited, drained or created */
	uint64_t    generation; /* generation of the buffer that is drained or created; 0 for other waits */
	uint64_t    bytes;      /* size of the memory that a create waits for; 0 for other waits */
	unsigned    device;     /* device whose memory a create waits for: its index in the broker */
};

struct wait_kind {
	/*
	 * Ends a wait: takes it out of all tables and frees it; a create that tries to get memory is freed after the
	 * try. expired: true: refuses the request, because its time is over or it was cancelled. false: the session
	 * gets no more answers, or the broker stops.
	 */
	void (*end)(struct wait *wait, bool expired);
	void (*show)(const struct wait *wait, struct wait_shown *shown);
	bool outlasts_stop; /* waiting_forget_all() does not end the waits of this kind */
};

/* Member of each request that waits. */
struct wait {
	const struct wait_kind *kind;
	struct broker          *broker;
	struct waiter          *waiter; /* the waits of the same session; NULL: wait_leave() was called */
	struct deadline         expires; /* deadline, by CLOCK_MONOTONIC; its ms is 0: the request waits for ever */
	uint64_t                since_ms; /* beginning of the wait, in milliseconds since 1970 */
	struct tracked          tracked;
	/* broker->received when the wait began; for waits for a name and drains, the time of their request */
	uint64_t                began;
	struct wait_key {
		uint64_t session, request;
	} key;
	UT_hash_handle          hh;          /* handle in the hash table waiting->by_request */
	struct wait            *prev, *next; /* links in the list waiter->waits */
};

/*
 * Begins a wait: fills *wait, and enters it in the tables. key: session and number of the request. timeout_ms: time
 * limit in milliseconds; below 0: none. Returns 0 or -ENOMEM with the error message set.
 */
int wait_begin(struct wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key,
	       int timeout_ms);

/* Returns the id of the session whose request waits; 0: the broker itself waits. */
uint64_t wait_session(const struct wait *wait);

/* Returns the session to answer. NULL: the session has ended or is disconnected, or the broker itself waits. */
struct session *wait_listener(const struct wait *wait);

/* Takes the wait out of its session's waits and out of the tables. Does nothing if that was done before. */
void wait_leave(struct wait *wait);

/*
 * Ends the session's wait with the earliest deadline, if its time is over, and refuses its request. Otherwise sets the
 * timer again, and ends the wait nevertheless if there is no memory for the timer. Returns false if no wait was ended.
 * The timer of a session's deadlines calls session_owe() and not this function, so that thousands of requests that
 * expire at the same time are ended in the share of their user; for the broker's own waits it calls this function.
 */
bool waiting_expire(struct broker *broker, uint64_t session);

/* Ends the wait of the request as if its time were over. Does nothing if the request does not wait. */
void waiting_cancel(struct broker *broker, uint64_t session, uint64_t request);

/*
 * Ends one wait of a session that gets no more answers. Returns false if the session has none left; the caller then
 * calls create_wake_forgotten().
 */
bool waiting_forget(struct broker *broker, uint64_t session);

/* Ends all waits except drains. Called when the broker stops; drains are answered when their memory is freed. */
void waiting_forget_all(struct broker *broker);

/* Called at the broker's end: ends all waits, also drains. */
void waiting_deinit(struct broker *broker);

#endif
