/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair-queue.h - which session is served next. Each user gets the same share of a pass, and no more requests a second
 * than its quota.
 *
 * A pass is one iteration of the control loop. In a pass the broker does a limited amount of work for each user, over
 * all sessions of the user: it takes connections, reads greetings and messages, ends sessions. An entry (a session)
 * with more work waits in its user's queue, and its socket stays unread, so that the full socket slows down that client
 * and nobody else. The quota of requests a second works in the same way: a request beyond the quota is not refused but
 * served later. Owns the queues. Never does the work: the caller takes an entry out of the queue and serves it.
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
 * Cost of a piece of work for a user, counted against the user's share of a pass: the broker's processor time as
 * measured, in units of one message.
 */
enum fair_cost {
	COST_MESSAGE = 1,
	COST_MAPPING_END = 1,  /* a mapping that ends with its session; once more for each GRANTS_PER_COST grants */
	COST_GONE = 2,       /* a connection that the client closed while it waited in the fair queue */
	COST_GREETING = 2,
	COST_SESSION_END = 6,
	COST_CONNECTION = 16 /* identifying the process, making the session's key, sending the challenge */
};

#define GRANTS_PER_COST 16

/* A user who has entries, or whose bucket of tokens is not full. */
struct fair_user {
	struct rr_user     queue;     /* the user's entries that wait. The first member: see user_of() */
	uid_t              uid;
	unsigned           entries;   /* number of the user's entries; one more while the user is served */
	uint64_t           pass;      /* number of the last pass in which the user's share was looked at */
	unsigned           work;      /* cost of the work in that pass, plus the excess of earlier passes */
	bool               has_quota; /* the user's requests a second are limited */
	double             tokens;    /* requests that the user may make now; below 0 after a packet of several */
	double             filled;    /* time when tokens was last computed: seconds, CLOCK_MONOTONIC */
	bool               late;      /* the user has less than one token */
	bool               in_debt;   /* the user has no entry, and is in queue->in_debt until the bucket is full */
	struct fair_user  *prev, *next; /* in queue->in_debt */
	UT_hash_handle     hh;          /* in queue->users */
};

/* Member of a session, by which the session waits in its user's queue. Zero it to begin with. */
struct fair_entry {
	struct rr_item     item;    /* in user->queue, while waits is true. The first member: see user_first() */
	struct fair_queue *queue;
	struct fair_user  *user;    /* NULL: the entry has not joined the queue, or has left it */
	bool               waits;   /* the entry is in its user's queue */
	bool               dead;    /* set by the session: its process is dead */
	bool               ending;  /* set by the session: only its end is left to do */
	bool               urgent;  /* set by the session: other users may wait for the work that is left to do */
};

struct fair_queue {
	struct accounting *accounting;
	struct fair_user  *users;   /* all users, by uid */
	struct round_robin waiting; /* users with entries that wait */
	struct fair_user  *in_debt; /* users without entries whose bucket of tokens is not full */
	struct fair_user  *serving; /* the user that is being served in this pass; NULL: none */
	unsigned           left;    /* number of users that are still to be served in this pass */
	bool               more;    /* a user served in this pass has more work that may be done in the next pass */
	struct event      *refill;  /* timer: wakes the loop when a late user has a token again */
	uint64_t           pass;    /* number of the current pass */
};

int fair_queue_init(struct fair_queue *queue, struct event_base *base, struct accounting *accounting); /* -ENOMEM */
void fair_queue_deinit(struct fair_queue *queue); /* called after all entries have left */

/* Whether no user has an entry. */
bool fair_queue_is_empty(const struct fair_queue *queue);

/* Adds an entry to the user. -ENOMEM. */
int fair_join(struct fair_queue *queue, struct fair_entry *entry, uid_t uid);

/* Removes the entry from its user, and from the user's queue. Does nothing if the entry never joined. */
void fair_leave(struct fair_entry *entry);

/*
 * Whether work may be done for the entry now: its user has some of its share left and, if its requests are limited, a
 * token. The final messages of a dead process, the end of a session, and urgent work need no token, because other users
 * may wait for the session's memory.
 */
bool fair_allows(struct fair_entry *entry);

/*
 * Takes the cost of work that was done from the user's share, and one token. Work that cannot be divided, such as a
 * packet of several messages, may exceed the share or the tokens. The excess is then missing in later passes.
 */
void fair_count(struct fair_entry *entry, unsigned cost);

/* Takes the cost of work that is no request of the user from the user's share, and no token. */
void fair_count_work(struct fair_entry *entry, unsigned cost);

/* Puts the entry into its user's queue: first if it is urgent, dead or ending, else last. */
void fair_wait(struct fair_entry *entry);

/* Takes the entry out of its user's queue. Does nothing if the entry is not in the queue. */
void fair_drop(struct fair_entry *entry);

/*
 * A pass of the loop: begin, then next until it returns NULL, then end. Next takes an entry that may be served out of
 * its queue and returns it. The caller serves the entry, and may add, drop and free entries meanwhile, the served one
 * too. End returns true if entries still wait that need not wait for a token.
 */
void fair_pass_begin(struct fair_queue *queue);
struct fair_entry *fair_pass_next(struct fair_queue *queue);
bool fair_pass_end(struct fair_queue *queue);

#endif
