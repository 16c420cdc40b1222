/* SPDX-License-Identifier: Apache-2.0 */
/* fair-queue.c - see fair-queue.h */
#include "fair-queue.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "broker/users/accounting.h"
#include "common/error.h"
#include "common/now.h"

#define SHARE          16   /* a user's average share of a pass, in messages (enum fair_cost) */
/* number of users in debt to check when an entry joins or leaves; with 1 their number might never shrink */
#define SCANS          2

static double now_seconds(void)
{
	return (double)now_ns(CLOCK_MONOTONIC) / 1e9;
}

/* ---- users ---- */

static uint64_t requests_of(const struct fair_queue *queue, uid_t uid)
{
	return accounting_quota(queue->accounting, uid)->requests;
}

/*
 * Adds the tokens that the user has earned since the last call: as many a second as its quota of requests, and never
 * more in all than one second earns.
 */
static void tokens_fill(struct fair_queue *queue, struct fair_user *user)
{
	uint64_t rate = requests_of(queue, user->uid);
	double now;

	user->has_quota = rate != QUOTA_NONE;
	if (!user->has_quota)
		return;
	now = now_seconds();
	user->tokens += (now - user->filled) * (double)rate;
	user->filled = now;
	if (user->tokens > (double)rate)
		user->tokens = (double)rate;
}

static struct fair_user *user_get(struct fair_queue *queue, uid_t uid)
{
	struct fair_user *user;

	HASH_FIND(hh, queue->users, &uid, sizeof uid, user);
	if (user)
		return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	user->filled = now_seconds();
	user->tokens = (double)requests_of(queue, uid);
	HASH_ADD(hh, queue->users, uid, sizeof user->uid, user);
	if (table_added(user))
		return user;
	free(user);
	return NULL;
}

static void user_free(struct fair_queue *queue, struct fair_user *user)
{
	HASH_DEL(queue->users, user);
	free(user);
}

/*
 * Returns true if a user without entries must be kept, because its bucket of tokens is not full and the bucket of a new
 * struct fair_user would be.
 */
static bool is_in_debt(struct fair_queue *queue, struct fair_user *user)
{
	tokens_fill(queue, user);
	return user->has_quota && user->tokens < (double)requests_of(queue, user->uid);
}

static void debt_leave(struct fair_queue *queue, struct fair_user *user)
{
	if (user->in_debt)
		DL_DELETE(queue->in_debt, user);
	user->in_debt = false;
}

/* Frees a user without entries, or moves it to the end of queue->in_debt. */
static void user_put(struct fair_queue *queue, struct fair_user *user)
{
	debt_leave(queue, user);
	user->in_debt = is_in_debt(queue, user);
	if (user->in_debt)
		DL_APPEND(queue->in_debt, user);
	else
		user_free(queue, user);
}

/* Frees users of queue->in_debt whose bucket is full. Checks only a few at a time, because there may be many. */
static void debt_sweep(struct fair_queue *queue)
{
	for (unsigned scans = 0; scans < SCANS && queue->in_debt; scans++)
		user_put(queue, queue->in_debt);
}

int fair_join(struct fair_queue *queue, struct fair_entry *entry, uid_t uid)
{
	struct fair_user *user;

	debt_sweep(queue);
	user = user_get(queue, uid);
	if (!user)
		return error_set(-ENOMEM, "the broker is out of memory");
	debt_leave(queue, user);
	user->entries++;
	entry->queue = queue;
	entry->user = user;
	return 0;
}

void fair_leave(struct fair_entry *entry)
{
	struct fair_queue *queue = entry->queue;
	struct fair_user *user = entry->user;

	if (!user)
		return;
	fair_drop(entry);
	entry->user = NULL;
	debt_sweep(queue);
	if (!--user->entries)
		user_put(queue, user);
}

/* ---- the share and the tokens ---- */

/* Begins the user's share of a pass, less the cost by which the user's work exceeded earlier shares. */
static void share_begin(struct fair_user *user, uint64_t pass)
{
	uint64_t past = pass - user->pass;

	if (!past)
		return;
	user->work = past < user->work / SHARE + 1 ? user->work - (unsigned)past * SHARE : 0;
	user->pass = pass;
}

/*
 * Returns true if the entry is served before others of its user, and without a token, because other users may wait for
 * the entry's work.
 */
static bool is_urgent(const struct fair_entry *entry)
{
	return entry->ending || entry->dead || entry->urgent;
}

bool fair_allows(struct fair_entry *entry)
{
	struct fair_user *user = entry->user;

	share_begin(user, entry->queue->pass);
	tokens_fill(entry->queue, user);
	user->late = user->has_quota && user->tokens < 1;
	return user->work < SHARE && (!user->late || is_urgent(entry));
}

void fair_count_work(struct fair_entry *entry, unsigned cost)
{
	entry->user->work += cost;
}

void fair_count(struct fair_entry *entry, unsigned cost)
{
	struct fair_user *user = entry->user;

	/* a user without a quota gets no tokens, and must not begin with a debt when it gets a quota */
	if (user->has_quota)
		user->tokens -= 1;
	user->work += cost;
}

/* ---- the queues ---- */

static struct fair_user *user_of(struct rr_user *queue)
{
	return (struct fair_user *)queue;
}

/* Returns the first entry in the user's queue. NULL: no entry waits. */
static struct fair_entry *user_first(const struct fair_user *user)
{
	return (struct fair_entry *)user->queue.items;
}

void fair_wait(struct fair_entry *entry)
{
	if (entry->waits)
		return;
	(is_urgent(entry) ? rr_prepend : rr_append)(&entry->queue->waiting, &entry->user->queue, &entry->item);
	entry->waits = true;
}

void fair_drop(struct fair_entry *entry)
{
	if (!entry->waits)
		return;
	rr_remove(&entry->queue->waiting, &entry->user->queue, &entry->item);
	entry->waits = false;
}

static int refill_after(struct fair_queue *queue, double seconds)
{
	struct timeval after = { .tv_sec = (time_t)seconds };

	after.tv_usec = (suseconds_t)((seconds - (double)after.tv_sec) * 1e6) + 1;
	return evtimer_add(queue->refill, &after);
}

/*
 * Sets the timer to the time when the first of the late users has a token. Sets it to 1 ms from now if that is later,
 * so that the loop wakes less often. Returns -1 if there is no memory for the timer.
 */
static int refill_plan(struct fair_queue *queue)
{
	struct rr_user *waiting;
	double soonest = -1;

	DL_FOREACH(queue->waiting.users, waiting) {
		const struct fair_user *user = user_of(waiting);
		double rate = (double)requests_of(queue, user->uid), wait;

		if (!user->late)
			continue;
		wait = rate < 1 ? 1 : (1 - user->tokens) / rate;
		wait = wait < 0.001 ? 0.001 : wait;
		soonest = soonest < 0 || wait < soonest ? wait : soonest;
	}
	return soonest >= 0 ? refill_after(queue, soonest) : 0;
}

void fair_pass_begin(struct fair_queue *queue)
{
	const struct rr_user *user;

	queue->pass++;
	queue->more = false;
	DL_COUNT(queue->waiting.users, user, queue->left);
}

/*
 * Returns the next user to serve in this pass, and counts one entry more, so that the user is not freed meanwhile.
 * NULL: all users were served.
 */
static struct fair_user *user_begin(struct fair_queue *queue)
{
	struct fair_user *user = user_of(queue->waiting.users);

	if (!queue->left || !user)
		return NULL;
	queue->left--;
	user->entries++;
	return user;
}

/* Ends the service of a user. If some of its entries still wait, moves the user behind all other users. */
static void user_end(struct fair_queue *queue, struct fair_user *user)
{
	if (user->queue.items) {
		rr_served(&queue->waiting, &user->queue, &user->queue);
		queue->more |= !user->late || is_urgent(user_first(user));
	}
	if (!--user->entries)
		user_put(queue, user);
}

/*
 * Returns entries user by user: of each user until fair_allows() refuses its first entry or none of its entries waits.
 */
struct fair_entry *fair_pass_next(struct fair_queue *queue)
{
	while (queue->serving || (queue->serving = user_begin(queue))) {
		struct fair_user *user = queue->serving;
		struct fair_entry *entry = user_first(user);

		if (entry && fair_allows(entry)) {
			fair_drop(entry);
			return entry;
		}
		queue->serving = NULL;
		user_end(queue, user);
	}
	return NULL;
}

bool fair_pass_end(struct fair_queue *queue)
{
	/* without a timer the loop must not sleep, because nothing would wake it */
	return refill_plan(queue) || queue->more;
}

/* Callback of the timer `refill`. Does nothing, because the timer only has to wake the loop. */
static void on_refill(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

int fair_queue_init(struct fair_queue *queue, struct event_base *base, struct accounting *accounting)
{
	*queue = (struct fair_queue){ .accounting = accounting, .refill = evtimer_new(base, on_refill, NULL) };
	return queue->refill ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void fair_queue_deinit(struct fair_queue *queue)
{
	struct fair_user *user, *next;

	if (queue->refill)
		event_free(queue->refill);
	queue->refill = NULL;
	HASH_ITER(hh, queue->users, user, next)
		user_free(queue, user);
}

bool fair_queue_is_empty(const struct fair_queue *queue)
{
	for (const struct fair_user *user = queue->users; user; user = user->hh.next)
		if (user->entries)
			return false;
	return true;
}
