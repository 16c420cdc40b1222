/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - the fair queue: each user the same share of a pass, and no user more requests than its quota.
 *
 * A pass is one round of the control loop. In a pass the broker works so much for each user, over all of its sessions: it
 * takes connections, reads greetings and messages, ends sessions. A session for which there is more to do waits in its
 * user's queue, its socket unread, so that its sender is held up by a full socket and nobody else is. The quota of requests
 * a second is kept by the same means: nothing is refused for it, it comes later.
 * Owns the queues and who stands in them; the work is session.c's.
 */
#ifndef GPUB_TURNS_H
#define GPUB_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <event2/event.h>

#include "common/tables.h"

struct broker;
struct session;

/*
 * What a piece of work takes of its user's share, in messages: measured, as processor time of the broker. Each takes one of
 * the requests that the user may make in a second.
 */
enum turn_cost {
	COST_MESSAGE = 1,
	COST_GRANT_END = 1,  /* at the end of its session, for up to USES_PER_COST buffers under it */
	COST_GONE = 2,       /* a connection whose peer went while it waited */
	COST_GREETING = 2,
	COST_SESSION_END = 6,
	COST_CONNECTION = 16 /* the look at its process, its key, the challenge */
};

#define USES_PER_COST 16

/* A user with sessions, or whose requests a second are not all there again. */
struct turn {
	uid_t           uid;
	unsigned        sessions; /* that have it */
	uint64_t        pass;     /* the last one in which something was done for it */
	unsigned        heard;    /* cost of that, and what was too much in the passes before */
	bool            rated;    /* it has a quota of requests */
	double          tokens;   /* requests that it may make now; below 0 after a packet of more */
	double          filled;   /* when they were counted: seconds, CLOCK_MONOTONIC */
	bool            late;     /* it waits because it has no tokens */
	bool            owing;    /* it has no session, and is in that list */
	struct session *line;     /* sessions that wait */
	struct turn    *prev, *next; /* users with a queue; or those who owe */
	UT_hash_handle  hh;          /* by uid */
};

struct turns {
	struct turn  *users;   /* all */
	struct turn  *waiting; /* those with a queue */
	struct turn  *owing;   /* those without sessions */
	struct event *refill;  /* wakes the loop when a late one has tokens again */
	uint64_t      pass;
};

int turns_init(struct broker *broker); /* -ENOMEM */
void turns_deinit(struct broker *broker); /* behind the sessions' */

/* Nobody has a session. */
bool turns_empty(const struct turns *turns);

/* Enters and leaves; the session's uid is known. -ENOMEM. */
int turns_join(struct session *session);
void turns_leave(struct session *session); /* one that never joined is fine */

/*
 * Whether something may be done for the session now; and that it was. What cannot be divided, such as a packet of several
 * messages, is done whole and counted, and is missing in the passes behind it. The final messages of a dead process, and
 * the end of a session, wait for a share but for no tokens: others may wait for its memory. They are counted all the same.
 */
bool turns_allow(struct session *session);
void turns_count(struct session *session, unsigned cost);

/* It may not: it waits in its user's queue. */
void turns_wait(struct session *session);

/* There is nothing more to do for it: out of the queue, where it is in one. */
void turns_drop(struct session *session);

/* A pass begins: serves the queues. True: some sessions still wait, and not for tokens alone. */
bool turns_serve(struct broker *broker);

#endif
