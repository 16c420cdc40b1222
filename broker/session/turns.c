/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - see turns.h */
#include "turns.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <utlist.h>

#include "broker/core/broker.h"
#include "common/error.h"

#define SHARE      16   /* messages of a user in a pass, on the average */
#define LAST_WORDS 1024 /* that a dead process can have left in its socket: more are another process's */
#define LOOKS      2    /* at who left owing, whenever a session joins or leaves: more than one, so that they get fewer */

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- users ---- */

/* A bucket that fills by so many tokens a second, and holds those of one second. */
static void rate_fill(struct broker *broker, struct turn *turn)
{
	uint64_t rate = accounting_quota(&broker->accounting, turn->uid)->requests;
	double now;

	turn->rated = rate != QUOTA_NONE;
	if (!turn->rated)
		return;
	now = now_seconds();
	turn->tokens += (now - turn->filled) * (double)rate;
	turn->filled = now;
	if (turn->tokens > (double)rate)
		turn->tokens = (double)rate;
}

static struct turn *turn_get(struct broker *broker, uid_t uid)
{
	struct turns *turns = &broker->turns;
	struct turn *turn;

	HASH_FIND(hh, turns->users, &uid, sizeof uid, turn);
	if (turn)
		return turn;
	turn = calloc(1, sizeof *turn);
	if (!turn)
		return NULL;
	turn->uid = uid;
	turn->filled = now_seconds();
	turn->tokens = (double)accounting_quota(&broker->accounting, uid)->requests;
	HASH_ADD(hh, turns->users, uid, sizeof turn->uid, turn);
	if (table_added(turn))
		return turn;
	free(turn);
	return NULL;
}

static void turn_free(struct turns *turns, struct turn *turn)
{
	HASH_DEL(turns->users, turn);
	free(turn);
}

/* Who comes back finds the debt, or what is left of the second's requests, that it left with. */
static bool is_owing(struct broker *broker, struct turn *turn)
{
	rate_fill(broker, turn);
	return turn->rated && turn->tokens < (double)accounting_quota(&broker->accounting, turn->uid)->requests;
}

static void owing_leave(struct turns *turns, struct turn *turn)
{
	if (turn->owing)
		DL_DELETE(turns->owing, turn);
	turn->owing = false;
}

/* Nobody has it any more. */
static void turn_put(struct broker *broker, struct turn *turn)
{
	owing_leave(&broker->turns, turn);
	turn->owing = is_owing(broker, turn);
	if (turn->owing)
		DL_APPEND(broker->turns.owing, turn);
	else
		turn_free(&broker->turns, turn);
}

/* Forgets who owes nothing any more: never all at once, for there may be as many as there are users. */
static void owing_sweep(struct broker *broker)
{
	for (unsigned looks = 0; looks < LOOKS && broker->turns.owing; looks++)
		turn_put(broker, broker->turns.owing);
}

int turns_join(struct session *session)
{
	struct turn *turn;

	owing_sweep(session->broker);
	turn = turn_get(session->broker, session->who.uid);
	if (!turn)
		return error_set(-ENOMEM, "the broker is out of memory");
	owing_leave(&session->broker->turns, turn);
	turn->sessions++;
	session->turn = turn;
	return 0;
}

void turns_leave(struct session *session)
{
	struct turn *turn = session->turn;

	if (!turn)
		return;
	turns_drop(session);
	session->turn = NULL;
	owing_sweep(session->broker);
	if (!--turn->sessions)
		turn_put(session->broker, turn);
}

/* ---- the share and the rate ---- */

/* What was done beyond the share counts in the passes behind it. */
static void pass_begin(struct turn *turn, uint64_t pass)
{
	uint64_t past = pass - turn->pass;

	if (!past)
		return;
	turn->heard = past < turn->heard / SHARE + 1 ? turn->heard - (unsigned)past * SHARE : 0;
	turn->pass = pass;
}

/* Others may wait for its memory: it goes first in its user's share, and into debt where no tokens are left. */
static bool is_urgent(const struct session *session)
{
	return session->ending || (session->dead && session->last_words < LAST_WORDS);
}

bool turns_allow(struct session *session)
{
	struct turn *turn = session->turn;

	pass_begin(turn, session->broker->turns.pass);
	rate_fill(session->broker, turn);
	turn->late = turn->rated && turn->tokens < 1;
	return turn->heard < SHARE && (!turn->late || is_urgent(session));
}

void turns_count(struct session *session, unsigned cost)
{
	struct turn *turn = session->turn;

	/* without a quota none are filled in, and no debt must be left for the next one */
	if (turn->rated)
		turn->tokens -= 1;
	turn->heard += cost;
	session->last_words += session->dead;
}

/* ---- the queues ---- */

void turns_wait(struct session *session)
{
	struct turn *turn = session->turn;

	if (session->in_line)
		return;
	if (session->reading)
		event_del(session->reading);
	if (!turn->line)
		DL_APPEND(session->broker->turns.waiting, turn);
	if (is_urgent(session))
		DL_PREPEND2(turn->line, session, line_prev, line_next);
	else
		DL_APPEND2(turn->line, session, line_prev, line_next);
	session->in_line = true;
}

void turns_drop(struct session *session)
{
	struct turn *turn = session->turn;

	if (!session->in_line)
		return;
	DL_DELETE2(turn->line, session, line_prev, line_next);
	session->in_line = false;
	if (!turn->line)
		DL_DELETE(session->broker->turns.waiting, turn);
}

/* The user's sessions one after the other, until its share is used up or there is nothing more to do for them. */
static void turn_serve(struct turn *turn)
{
	while (turn->line && turns_allow(turn->line)) {
		struct session *session = turn->line;

		turns_drop(session);
		session_serve(session);
	}
}

static void refill_after(struct turns *turns, double seconds)
{
	struct timeval after = { .tv_sec = (time_t)seconds };

	after.tv_usec = (suseconds_t)((seconds - (double)after.tv_sec) * 1e6) + 1;
	evtimer_add(turns->refill, &after);
}

/* When the first of those who are late has a token. The loop wakes for a few tokens at once, not for each. */
static void refill_plan(struct broker *broker)
{
	const struct turn *turn;
	double soonest = -1;

	DL_FOREACH(broker->turns.waiting, turn) {
		double rate = (double)accounting_quota(&broker->accounting, turn->uid)->requests, wait;

		if (!turn->late)
			continue;
		wait = rate < 1 ? 1 : (1 - turn->tokens) / rate;
		wait = wait < 0.001 ? 0.001 : wait;
		soonest = soonest < 0 || wait < soonest ? wait : soonest;
	}
	if (soonest >= 0)
		refill_after(&broker->turns, soonest);
}

bool turns_serve(struct broker *broker)
{
	struct turns *turns = &broker->turns;
	struct turn *turn;
	unsigned count = 0;
	bool more = false;

	turns->pass++;
	if (!turns->waiting)
		return false;
	DL_COUNT(turns->waiting, turn, count);
	for (; count && turns->waiting; count--) {
		turn = turns->waiting;
		turn->sessions++; /* it stays while it is served */
		turn_serve(turn);
		if (turn->line) {
			DL_DELETE(turns->waiting, turn);
			DL_APPEND(turns->waiting, turn);
			more |= !turn->late || is_urgent(turn->line);
		}
		if (!--turn->sessions)
			turn_put(broker, turn);
	}
	refill_plan(broker);
	return more;
}

/* The loop is awake: that is all it is for. */
static void on_refill(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

int turns_init(struct broker *broker)
{
	broker->turns.refill = evtimer_new(broker->base, on_refill, NULL);
	return broker->turns.refill ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void turns_deinit(struct broker *broker)
{
	struct turn *turn, *next;

	if (broker->turns.refill)
		event_free(broker->turns.refill);
	broker->turns.refill = NULL;
	HASH_ITER(hh, broker->turns.users, turn, next)
		turn_free(&broker->turns, turn);
}

bool turns_empty(const struct turns *turns)
{
	for (const struct turn *turn = turns->users; turn; turn = turn->hh.next)
		if (turn->sessions)
			return false;
	return true;
}
