/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c - see waiting.h */
#include "waiting.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/session/session.h"
#include "common/error.h"
#include "common/now.h"

/* ---- the waits of a session ---- */

static struct waiter *waiter_find(const struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	HASH_FIND(hh, waiting->waiters, &session, sizeof session, waiter);
	return waiter;
}

static struct waiter *waiter_get(struct broker *broker, uint64_t session)
{
	struct waiting *waiting = broker->waiting;
	struct waiter *waiter = waiter_find(waiting, session);

	if (waiter)
		return waiter;
	waiter = calloc(1, sizeof *waiter);
	if (!waiter)
		return NULL;
	waiter->broker = broker;
	waiter->session = session;
	HASH_ADD(hh, waiting->waiters, session, sizeof waiter->session, waiter);
	if (table_added(waiter))
		return waiter;
	free(waiter);
	return NULL;
}

static void waiter_put(struct waiting *waiting, struct waiter *waiter)
{
	if (waiter->waits)
		return;
	HASH_DEL(waiting->waiters, waiter);
	if (waiter->timer)
		event_free(waiter->timer);
	free(waiter);
}

/* ---- deadlines ---- */

/* Sets the session's timer to expire at `ms`, in milliseconds of CLOCK_MONOTONIC. Returns -1 if there is no memory. */
static int timer_set(struct waiter *waiter, uint64_t ms)
{
	uint64_t now = now_ms(CLOCK_MONOTONIC), left = ms > now ? ms - now : 0;
	struct timeval after = { .tv_sec = (time_t)(left / 1000), .tv_usec = (suseconds_t)(left % 1000 * 1000) };

	return evtimer_add(waiter->timer, &after);
}

/*
 * Called when the session's timer expires: has those waits whose time is over ended in the share of the session's user.
 * Ends waits of the broker itself, which are few, at once.
 */
static void on_time(evutil_socket_t fd, short what, void *argument)
{
	const struct waiter *waiter = argument;
	struct broker *broker = waiter->broker;
	uint64_t id = waiter->session;
	struct session *session = session_find(broker, id);

	(void)fd;
	(void)what;
	if (session)
		session_owe(session, DUE_EXPIRY);
	else
		while (waiting_expire(broker, id))
			;
}

/* Gives the wait a deadline, unless timeout_ms is below 0. Returns -1 if there is no memory. */
static int deadline_begin(struct wait *wait, int timeout_ms)
{
	struct waiter *waiter = wait->waiter;

	if (timeout_ms < 0)
		return 0;
	if (!waiter->timer)
		waiter->timer = evtimer_new(waiter->broker->base, on_time, waiter);
	wait->expires.ms = now_ms(CLOCK_MONOTONIC) + (uint64_t)timeout_ms + 1; /* now_ms() rounds down */
	if (!waiter->timer || deadlines_add(&waiter->deadlines, &wait->expires))
		return -1;
	if (deadlines_first(&waiter->deadlines) != &wait->expires || !timer_set(waiter, wait->expires.ms))
		return 0;
	deadlines_remove(&waiter->deadlines, &wait->expires);
	return -1;
}

bool waiting_expire(struct broker *broker, uint64_t session)
{
	struct waiter *waiter = waiter_find(broker->waiting, session);
	struct deadline *first = waiter ? deadlines_first(&waiter->deadlines) : NULL;
	struct wait *wait = first ? (struct wait *)((char *)first - offsetof(struct wait, expires)) : NULL;

	if (!wait)
		return false;
	/* without a timer the request would wait for ever, so it is refused before its time */
	if (first->ms > now_ms(CLOCK_MONOTONIC) && !timer_set(waiter, first->ms))
		return false;
	wait->kind->end(wait, true);
	return true;
}

/*
 * Enters the wait in waiting->by_request. If a client uses a request number twice, only the first wait is entered, and
 * only this one can be cancelled. Returns -1 if there is no memory.
 */
static int by_request_enter(struct wait *wait)
{
	struct waiting *waiting = wait->broker->waiting;
	struct wait *same;

	HASH_FIND(hh, waiting->by_request, &wait->key, sizeof wait->key, same);
	if (same)
		return 0;
	HASH_ADD(hh, waiting->by_request, key, sizeof wait->key, wait);
	return table_added(wait) ? 0 : -1;
}

static void by_request_leave(struct wait *wait)
{
	if (table_added(wait))
		HASH_DEL(wait->broker->waiting->by_request, wait);
}

int wait_begin(struct wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key,
	       int timeout_ms)
{
	struct waiter *waiter = waiter_get(broker, key.session);

	*wait = (struct wait){ .kind = kind,
			       .broker = broker,
			       .waiter = waiter,
			       .since_ms = now_ms(CLOCK_REALTIME),
			       .began = broker->received,
			       .key = key };
	if (!waiter)
		goto refuse;
	if (by_request_enter(wait))
		goto put_waiter;
	if (deadline_begin(wait, timeout_ms))
		goto leave_by_request;
	if (kind->outlasts_stop)
		DL_APPEND(waiter->waits, wait);
	else
		DL_PREPEND(waiter->waits, wait);
	broker->waiting->count++;
	tracked_begin(broker->tracking, &wait->tracked, TRACKED_REQUEST);
	broker_changed(broker); /* the status file has the number of waits */
	return 0;
leave_by_request:
	by_request_leave(wait);
put_waiter:
	waiter_put(broker->waiting, waiter);
refuse:
	return error_set(-ENOMEM, "the broker is out of memory");
}

void wait_leave(struct wait *wait)
{
	if (!wait->waiter)
		return;
	DL_DELETE(wait->waiter->waits, wait);
	if (wait->expires.ms)
		deadlines_remove(&wait->waiter->deadlines, &wait->expires);
	by_request_leave(wait);
	waiter_put(wait->broker->waiting, wait->waiter);
	wait->waiter = NULL;
	tracked_end(wait->broker->tracking, &wait->tracked);
	wait->broker->waiting->count--;
	broker_changed(wait->broker);
}

struct session *wait_listener(const struct wait *wait)
{
	struct session *session = session_find(wait->broker, wait->waiter->session);

	return session && session->state != SESSION_DISCONNECTED ? session : NULL;
}

uint64_t wait_session(const struct wait *wait)
{
	return wait->waiter->session;
}

void waiting_cancel(struct broker *broker, uint64_t session, uint64_t request)
{
	const struct wait_key key = { session, request };
	struct wait *wait;

	HASH_FIND(hh, broker->waiting->by_request, &key, sizeof key, wait);
	if (wait)
		wait->kind->end(wait, true);
}

/* ---- the end of a session, and of the broker ---- */

bool waiting_forget(struct broker *broker, uint64_t session)
{
	struct waiter *waiter = waiter_find(broker->waiting, session);

	if (waiter)
		waiter->waits->kind->end(waiter->waits, false);
	return waiter;
}

/* Returns a wait of a kind that does not outlast a stop of the broker. NULL: none is left. */
static struct wait *first_to_forget(const struct waiting *waiting)
{
	const struct waiter *waiter = waiting->waiters;

	while (waiter && waiter->waits->kind->outlasts_stop)
		waiter = waiter->hh.next;
	return waiter ? waiter->waits : NULL;
}

void waiting_forget_all(struct broker *broker)
{
	struct wait *wait;

	broker->waiting->stopping = true;
	while ((wait = first_to_forget(broker->waiting)))
		wait->kind->end(wait, false);
	broker->waiting->stopping = false;
}

void waiting_deinit(struct broker *broker)
{
	while (broker->waiting->waiters)
		waiting_forget(broker, broker->waiting->waiters->session);
}
