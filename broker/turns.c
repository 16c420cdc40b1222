/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - see turns.h */
#include "turns.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <utlist.h>

#include "broker.h"
#include "common/error.h"

#define SHARE      16   /* messages of a user in a pass, on the average */
#define LAST_WORDS 1024 /* that a dead process can have left in its socket: more are another process's */

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

static void turns_sweep(struct broker *broker)
{
	struct turn *turn, *next;

	HASH_ITER(hh, broker->turns.users, turn, next)
		if (!turn->sessions && !is_owing(broker, turn))
			turn_free(&broker->turns, turn);
}

int turns_join(struct session *session)
{
	turns_sweep(session->broker);
	session->turn = turn_get(session->broker, session->who.uid);
	if (!session->turn)
		return error_set(-ENOMEM, "the broker is out of memory");
	session->turn->sessions++;
	return 0;
}

void turns_leave(struct session *session)
{
	if (!session->turn)
		return;
	turns_drop(session);
	session->turn->sessions--;
	session->turn = NULL;
	turns_sweep(session->broker);
}

/* ---- the share and the rate ---- */

/* A packet is heard whole: what it had beyond the share counts in the passes behind it. */
static void pass_begin(struct turn *turn, uint64_t pass)
{
	uint64_t past = pass - turn->pass;

	if (!past)
		return;
	turn->heard = past < turn->heard / SHARE + 1 ? turn->heard - (unsigned)past * SHARE : 0;
	turn->words = 0;
	turn->pass = pass;
}

static bool has_last_words(const struct session *session)
{
	return session->dead && session->last_words < LAST_WORDS;
}

/* As many as one can have left, of all of its user's that died: they may be many. */
static unsigned last_words_allowed(const struct session *session)
{
	unsigned left = LAST_WORDS - session->last_words, room = LAST_WORDS > session->turn->words ?
									 LAST_WORDS - session->turn->words : 0;

	return left < room ? left : room;
}

unsigned turns_allow(struct session *session)
{
	struct turn *turn = session->turn;
	unsigned share;

	pass_begin(turn, session->broker->turns.pass);
	rate_fill(session->broker, turn);
	turn->late = turn->rated && turn->tokens < 1;
	if (has_last_words(session))
		return last_words_allowed(session);
	if (turn->late || turn->heard >= SHARE)
		return 0;
	share = SHARE - turn->heard;
	return !turn->rated || turn->tokens >= share ? share : (unsigned)turn->tokens;
}

void turns_count(struct session *session)
{
	struct turn *turn = session->turn;

	/* into debt, too; without a quota none are filled in, and no debt must be left for the next one */
	if (turn->rated)
		turn->tokens -= 1;
	if (has_last_words(session)) {
		session->last_words++;
		turn->words++;
	} else {
		turn->heard++;
	}
}

/* ---- the lines ---- */

void turns_wait(struct session *session)
{
	struct turn *turn = session->turn;

	if (session->in_line)
		return;
	event_del(session->reading);
	if (!turn->line)
		DL_APPEND(session->broker->turns.waiting, turn);
	/* behind its last words is its end, for which others may wait: ahead of those who are late */
	if (has_last_words(session))
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

/* The user's sessions in turn, until its share is used up or none of them has more. */
static void turn_serve(struct turn *turn)
{
	while (turn->line && turns_allow(turn->line)) {
		struct session *session = turn->line;

		turns_drop(session);
		session_listen(session);
	}
}

static void refill_after(struct turns *turns, double seconds)
{
	struct timeval after = { .tv_sec = (time_t)seconds };

	after.tv_usec = (suseconds_t)((seconds - (double)after.tv_sec) * 1e6) + 1;
	evtimer_add(turns->refill, &after);
}

/* When the first of those who are late has a token. They are woken for a few at once, not for each. */
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
	bool more = false, gone = false;

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
			more |= !turn->late || has_last_words(turn->line);
		}
		gone |= !--turn->sessions;
	}
	if (gone)
		turns_sweep(broker);
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
