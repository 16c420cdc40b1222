/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair-queue.h - chooses the session that is served next. Each user gets the same share of a pass of the loop, and no
 * more requests a second than its quota.
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
	/* end of a mapping when its session ends; counted once more for each GRANTS_PER_COST grants under it */
	COST_MAPPING_END = 1,
	COST_GONE = 2,       /* end of a connection that the client closed before the broker identified it */
	COST_GREETING = 2,
	COST_SESSION_END = 6,
	COST_CONNECTION = 16 /* identifying the process, making the session's key, sending the challenge */
};

#define GRANTS_PER_COST 16

/*
 * A user who has entries, or whose bucket of tokens is not full. A token is the right to one request (see the quota of
 * requests a second).
 */
struct fair_user {
	/* the user's entries that wait. Must be the first member, because user_of() casts its address */
	struct rr_user     queue;
	uid_t              uid;
	unsigned           entries;   /* number of the user's entries, plus 1 while the user is served */
	uint64_t           pass;      /* number of the last pass in which the user's share was looked at */
	/* cost of the user's work in that pass, plus the cost by which earlier passes exceeded the share */
	unsigned           work;
	bool               has_quota; /* true: the user's requests a second are limited */
	/* requests that the user may make now; below 0 after a packet of several requests, or work without a token */
	double             tokens;
	double             filled;    /* time when `tokens` was last computed, in seconds of CLOCK_MONOTONIC */
	bool               late;      /* the user has less than one token */
	bool               in_debt;   /* the user has no entry, and is in queue->in_debt until the bucket is full */
	struct fair_user  *prev, *next; /* links in the list queue->in_debt */
	UT_hash_handle     hh;          /* handle in the hash table queue->users */
};

/* Member of a session, by which the session waits in its user's queue. All zeroes before fair_join(). */
struct fair_entry {
	/*
	 * links in user->queue, while `waits` is true. Must be the first member, because user_first() casts its address
	 */
	struct rr_item     item;
	struct fair_queue *queue;
	/* the user that the entry belongs to; NULL: the entry has not joined the queue, or has left it */
	struct fair_user  *user;
	bool               waits;   /* the entry is in its user's queue */
	bool               dead;    /* set by the session: the session's process is dead */
	bool               ending;  /* set by the session: only the end of the session is left to do */
	bool               urgent;  /* set by the session: other users may wait for the result of the session's work */
};

struct fair_queue {
	struct accounting *accounting;
	struct fair_user  *users;   /* all users, by uid */
	struct round_robin waiting; /* the users with entries that wait, in the order in which they are served */
	struct fair_user  *in_debt; /* users without entries whose bucket of tokens is not full */
	struct fair_user  *serving; /* the user that is being served in this pass; NULL: none */
	unsigned           left;    /* number of users that this pass still has to serve */
	bool               more;    /* a user served in this pass has more work that may be done in the next pass */
	struct event      *refill;  /* timer that wakes the loop when a late user has a token again */
	uint64_t           pass;    /* number of the current pass */
};

/* returns 0 or -ENOMEM */
int fair_queue_init(struct fair_queue *queue, struct event_base *base, struct accounting *accounting);
void fair_queue_deinit(struct fair_queue *queue); /* called after all entries have left */

/* Returns true if no user has an entry. */
bool fair_queue_is_empty(const struct fair_queue *queue);

/*
 * Adds an entry to the user's entries. Does not make the entry wait. Returns 0, or -ENOMEM with the error message set.
 */
int fair_join(struct fair_queue *queue, struct fair_entry *entry, uid_t uid);

/* Removes the entry from its user's entries, and from the user's queue. Does nothing if the entry never joined. */
void fair_leave(struct fair_entry *entry);

/*
 * Returns true if work may be done for the entry now: its user has some of its share left and, if its requests are
 * limited, a token. The final messages of a dead process, the end of a session, and urgent work need no token, because
 * other users may wait for the session's memory.
 */
bool fair_allows(struct fair_entry *entry);

/*
 * Counts a request that was served, or other work that costs a token, such as a connection, a step of a walk, the end
 * of a session: subtracts its cost from the user's share, and takes one token. Work that cannot be divided, such as a
 * packet of several messages, may exceed the share or the tokens. The excess is taken from the share and the tokens of
 * later passes.
 */
void fair_count(struct fair_entry *entry, unsigned cost);

/* Counts work that is no request of the user: subtracts its cost from the user's share, but takes no token. */
void fair_count_work(struct fair_entry *entry, unsigned cost);

/*
 * Puts the entry into its user's queue: at the beginning if it is urgent, dead or ending, else at the end. Does nothing
 * if the entry is in the queue already.
 */
void fair_wait(struct fair_entry *entry);

/* Takes the entry out of its user's queue. Does nothing if the entry is not in the queue. */
void fair_drop(struct fair_entry *entry);

/*
 * One pass of the loop over the queues: the caller calls fair_pass_begin(), then fair_pass_next() until it returns
 * NULL, then fair_pass_end(). fair_pass_next() takes an entry that may be served out of its queue and returns it. The
 * caller serves the entry, and may add, drop and free entries meanwhile, also the served entry. fair_pass_end() returns
 * true if entries are left that may be served in the next pass, because they need not wait for a token.
 */
void fair_pass_begin(struct fair_queue *queue);
struct fair_entry *fair_pass_next(struct fair_queue *queue);
bool fair_pass_end(struct fair_queue *queue);

#endif
