/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair-queue.h - what is done next for which user: each user the same share of a pass, and no more requests than its quota.
 *
 * A pass is one round of the control loop. In a pass the broker works so much for each user, over all of its sessions: it
 * takes connections, reads greetings and messages, ends sessions. An entry (a session) for which there is more to do waits in
 * its user's queue, its socket unread, so that its sender is held up by a full socket and nobody else is. The quota of requests
 * a second is kept by the same means: nothing is refused for it, it comes later.
 * Owns the queues and which entries wait in them. Never does the work: its caller takes the entries and does it.
 */
#ifndef GPUB_FAIR_QUEUE_H
#define GPUB_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <event2/event.h>

#include "broker/base/round-robin.h"
#include "common/tables.h"

struct accounting;
struct fair_entry;

/*
 * What a piece of work takes of its user's share, in messages: measured, as processor time of the broker. Each takes one of
 * the requests that the user may make in a second.
 */
enum fair_cost {
	COST_MESSAGE = 1,
	COST_GRANT_END = 1,  /* at the end of its session, for up to USES_PER_COST buffers under it */
	COST_GONE = 2,       /* a connection whose peer went while it waited */
	COST_GREETING = 2,
	COST_SESSION_END = 6,
	COST_CONNECTION = 16 /* the look at its process, its key, the challenge */
};

#define USES_PER_COST 16

/* A user with entries, or whose requests a second are not all there again. */
struct fair_user {
	struct rr_user     queue;     /* of its entries that wait. The first member: see user_of() */
	uid_t              uid;
	unsigned           entries;   /* that it has */
	uint64_t           pass;      /* the last one in which something was done for it */
	unsigned           work;      /* cost of that, and what was too much in the passes before */
	bool               has_quota; /* of requests */
	double             tokens;    /* requests that it may make now; below 0 after a packet of more */
	double             filled;    /* when they were counted: seconds, CLOCK_MONOTONIC */
	bool               late;      /* it waits because it has no tokens */
	bool               in_debt;   /* it has no entry, and is in that list */
	struct fair_user  *prev, *next; /* in that list */
	UT_hash_handle     hh;          /* by uid */
};

/* In what is queued. Zero it to begin with. */
struct fair_entry {
	struct rr_item     item;    /* while it waits. The first member: see user_first() */
	struct fair_queue *queue;
	struct fair_user  *user;    /* NULL: it has not joined */
	bool               waits;   /* it is in its user's queue */
	bool               dead;    /* set by its owner: its process is dead */
	bool               ending;  /* set by its owner: what is left to do is its end */
	bool               urgent;  /* set by its owner: others may wait for what is to be done */
};

struct fair_queue {
	struct accounting *accounting;
	struct fair_user  *users;   /* all */
	struct round_robin waiting; /* those with entries that wait */
	struct fair_user  *in_debt; /* those without entries */
	struct fair_user  *serving; /* in this pass; NULL: the next one comes */
	unsigned           left;    /* users that are yet to be served in this pass */
	bool               more;    /* some that were served have more to do, and not for want of tokens alone */
	struct event      *refill;  /* wakes the loop when a late one has tokens again */
	uint64_t           pass;
};

int fair_queue_init(struct fair_queue *queue, struct event_base *base, struct accounting *accounting); /* -ENOMEM */
void fair_queue_deinit(struct fair_queue *queue); /* behind the entries' */

/* Nobody has an entry. */
bool fair_queue_is_empty(const struct fair_queue *queue);

/* Enters and leaves. -ENOMEM. */
int fair_join(struct fair_queue *queue, struct fair_entry *entry, uid_t uid);
void fair_leave(struct fair_entry *entry); /* one that never joined is fine */

/*
 * Whether something may be done for the entry now; and that it was. What cannot be divided, such as a packet of several
 * messages, is done whole and counted, and is missing in the passes behind it. The final messages of a dead process, the end
 * of a session, and what is urgent wait for a share but for no tokens: others may wait for its memory. They are counted all the same.
 */
bool fair_allows(struct fair_entry *entry);
void fair_count(struct fair_entry *entry, unsigned cost);

/* The same for what is no request of the user: it takes of the share, and of no quota. */
void fair_count_work(struct fair_entry *entry, unsigned cost);

/* It may not: it waits in its user's queue. */
void fair_wait(struct fair_entry *entry);

/* There is nothing more to do for it: out of the queue, where it is in one. */
void fair_drop(struct fair_entry *entry);

/*
 * A pass: begin, then next until NULL, then end. Next takes an entry for which something may be done out of the queue; the caller
 * does it, and may add, take out and free entries, this one too. End returns true when some still wait, and not for tokens alone.
 */
void fair_pass_begin(struct fair_queue *queue);
struct fair_entry *fair_pass_next(struct fair_queue *queue);
bool fair_pass_end(struct fair_queue *queue);

#endif
