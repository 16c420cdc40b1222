/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.h - requests that cannot be answered yet: acquires of a name that is not there, questions for a newer buffer of a name, drains of a buffer that is not
 * freed, and creates for which a device has no memory (create-queue.h, which decides when those go on).
 *
 * A wait belongs to a session, which has a timer for the first of its deadlines. A wait ends when what it waits for comes, when its time is
 * over, or with its session.
 * Owns all waits by session, acquires and questions by name, drains by the buffer's serial. Knows sessions by id only: one that is gone or cut
 * off is passed over.
 */
#ifndef GPUB_WAITING_H
#define GPUB_WAITING_H

#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>

#include "broker/base/deadlines.h"
#include "broker/base/tracked.h"
#include "common/tables.h"
#include "common/wire.h"

struct broker;
struct buffer;
struct drain_queue;
struct name_queue;
struct session;
struct wait;
struct waiter;

struct waiting {
	/* The name is LIVE: grants it to the session that waited for it, or refuses. */
	void (*grant)(struct session *session, uint64_t request, const struct wire_acquire *acquire, uint64_t waited_since);
	/* The same for who waited for a newer buffer of the name. */
	void (*tell)(struct session *session, uint64_t request, const struct wire_newer *newer);
	struct name_queue *names;   /* what waits for a name, by that */
	struct name_queue *waking;  /* those whose name came, and some of whose waits are yet to be answered */
	struct drain_queue *drains; /* by the serial of what is drained */
	struct drain_queue *ended;  /* those that are drained, and some of whose waits are yet to be answered */
	struct waiter     *waiters; /* sessions */
	struct wait       *by_request; /* those of sessions */
	unsigned           count;   /* of all waits */
	bool               stopping; /* waiting_forget_all() ends them, and whoever waits is told */
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
	/* Its time is over, or its session or the broker ends: it is to leave, and to refuse its request where it expired. */
	void (*end)(struct wait *wait, bool expired);
	void (*show)(const struct wait *wait, struct wait_shown *shown);
	bool outlasts_stop; /* it is answered by a broker that stops, too */
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

/* Whose it is; 0: the broker's own. */
uint64_t wait_session(const struct wait *wait);

/* Takes the wait out of its session. Does nothing if it has left already. */
void wait_leave(struct wait *wait);

/*
 * Keeps an acquire until its name appears; refuses it with -ETIMEDOUT after acquire->timeout_ms. -EDQUOT: the
 * session has too many already.
 */
int waiting_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire);

/* Keeps the question until another buffer has the name, by a create or a rename; else the same. */
int waiting_newer(struct broker *broker, uint64_t session, uint64_t request, const struct wire_newer *newer);

/*
 * Another buffer is LIVE under the name now: grants it to all who wait for it. To a few at once, to the others, who may be as many as all users'
 * quotas allow, in the next passes of the loop, unless the name is gone by then: then they wait for the next. So does who asks for a newer one
 * meanwhile.
 */
void waiting_wake_name(struct broker *broker, const char *name);

/* A pass of the loop: grants, and answers drains, some of those that are yet to be. True: there are more. */
bool waiting_wake_more(struct broker *broker);

/*
 * Answers that request when the LIVE buffer, which is about to be unlinked, is freed; with -ETIMEDOUT after timeout_ms.
 * There is one such wait a buffer at most, for only one can take its name away.
 */
int waiting_drain(struct broker *broker, const struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms);

/*
 * The same for buffers that drain already, any number of times: when first is freed, and those behind it that its owner had under
 * that name, up to the one with the serial last. Charged as an acquire that waits. -EDQUOT, -ENOMEM.
 */
int waiting_join_drain(struct broker *broker, const struct buffer *first, uint64_t last, uint64_t session, uint64_t request,
		       int timeout_ms);

/*
 * The registry's hook: the memory of the buffer with that serial is freed, or clean. A few of those that wait for it are answered at
 * once, the others in the next passes. context: the broker.
 */
void waiting_drained(void *context, uint64_t serial);

/*
 * Ends one request of that session whose time is over, and refuses it. False: there is none. The timer of a session makes that due
 * (session_owe()), so that thousands of requests that are over at the same time are ended in the share of their user.
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
