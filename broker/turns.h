/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - whose turn it is to be heard: each user the same share, and no user more requests than its quota.
 *
 * A pass is one round of the control loop. In a pass each user is heard so many messages, over all of its sessions; a
 * session that has more waits in its user's line, unread, so that its sender is held up by a full socket and nobody
 * else is. The quota of requests a second is kept by the same means: nothing is refused for it, it comes later.
 * Owns the lines and who stands in them; reading is session.c's.
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

/* A user with sessions, or whose requests a second are not all there again. */
struct turn {
	uid_t           uid;
	unsigned        sessions; /* that have it */
	uint64_t        pass;     /* the last one in which it was heard */
	unsigned        heard;    /* messages in that pass, and what was too much in those before */
	unsigned        words;    /* last ones of its dead in that pass */
	bool            rated;    /* it has a quota of requests */
	double          tokens;   /* requests that it may make now; below 0 after a packet of more */
	double          filled;   /* when they were counted: seconds, CLOCK_MONOTONIC */
	bool            late;     /* it stands in line for want of tokens */
	struct session *line;     /* sessions that wait */
	struct turn    *prev, *next; /* users with a line */
	UT_hash_handle  hh;          /* by uid */
};

struct turns {
	struct turn  *users;   /* all */
	struct turn  *waiting; /* those with a line */
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
 * How many more messages of the session may be heard now, of a dead process more, for soon there are none; and that one
 * was. A packet that has more is heard whole: it is counted all the same.
 */
unsigned turns_allow(struct session *session);
void turns_count(struct session *session);

/* It may not, and may have more to say: it stands in its user's line. */
void turns_wait(struct session *session);

/* It has nothing to say, or is not heard any more: out of the line, where it is in one. */
void turns_drop(struct session *session);

/* A pass begins: those in line have their turn. True: some still stand there, and not for want of tokens. */
bool turns_serve(struct broker *broker);

#endif
