/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name-waits.h - requests that wait for a name: acquires that wait until a buffer has the name (ACQUIRE), and questions
 * that wait until the name has a newer buffer (NEWER).
 *
 * Owns the waits, in a queue for each name. Refuses a wait whose time is over, that is cancelled, or that the broker's
 * stop ends. waking.c takes the waits for a name that has got a buffer or a newer generation, and answers them.
 */
#ifndef GPUB_NAME_WAITS_H
#define GPUB_NAME_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

struct broker;
struct session;

/*
 * Keeps an acquire until a buffer has the name. session: id of the session that asked. Refuses the acquire with
 * -ETIMEDOUT after acquire->timeout_ms (below 0: never). Returns 0; -EDQUOT: the session, or its user, has too many
 * waits already; -ENOMEM.
 */
int name_wait_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire);

/*
 * Keeps a NEWER until a create, a rename or a resize gives the name a newer generation. Time limit and errors are those
 * of name_wait_acquire().
 */
int name_wait_newer(struct broker *broker, uint64_t session, uint64_t request, const struct wire_newer *newer);

/* A copy of a wait that was taken out of its queue to be answered. */
struct name_woken {
	/* the session to answer; NULL: it has ended or is disconnected, or its wait goes on, and it gets no answer */
	struct session *session;
	uint64_t        request;
	uint64_t        since; /* time when the request was received: now_ns(CLOCK_MONOTONIC) */
	bool            is_newer; /* the request is a NEWER; else an ACQUIRE */
	union {
		struct wire_acquire acquire; /* valid if is_newer is false */
		struct wire_newer   newer;   /* valid if is_newer is true */
	};
};

/*
 * Marks all present waits for the name as to be answered. Called when a LIVE buffer gets the name, or a new generation
 * under the name.
 */
void name_waits_wake(struct broker *broker, const char *name);

/*
 * Takes the oldest wait for the name that is to be answered out of its queue, into *woken. A NEWER whose generation is
 * not reached yet stays in the queue, as the last wait. Returns false if there is none.
 */
bool name_waits_take(struct broker *broker, const char *name, struct name_woken *woken);

/*
 * Sets name to the next name that has waits to be answered; all such names are served in a round robin. Returns false
 * if there is no such name. Also returns false if no LIVE buffer has the next name any more; the waits for this name
 * then go on, until another buffer has the name.
 */
bool name_waits_next(struct broker *broker, char name[NAME_SIZE]);

#endif
