/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c - see waiting.h */
#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"
#include "common/crash-point.h"
#include "common/error.h"

#define WAITS_MAX 1024 /* acquires that a session may have wait */
#define WAKES     16   /* of one name in one step: more could hold up others (invariant 5) */

/* Those who wait for one name, oldest first. There is one as long as anybody does. */
struct name_line {
	char                 name[NAME_SIZE];
	struct acquire_wait *waits;
	bool                 waking; /* it is in that list: */
	struct name_line    *waking_prev, *waking_next;
	UT_hash_handle       hh;
};

/* What one session waits for; session 0 is the broker itself. There is one as long as it does. */
struct waiter {
	uint64_t             session;
	unsigned             count; /* of its acquires */
	struct acquire_wait *acquires;
	struct drain_wait   *drains;
	UT_hash_handle       hh;
};

struct acquire_wait {
	struct broker       *broker;
	struct name_line    *line;
	struct waiter       *waiter;
	uint64_t             request;
	struct wire_acquire  acquire;
	struct charge        charge;
	struct event        *timer; /* NULL: waits for ever */
	struct acquire_wait *prev, *next;             /* in its line */
	struct acquire_wait *session_prev, *session_next; /* in its waiter */
};

struct drain_wait {
	struct drain        drain; /* the first member: see drain_done() */
	struct broker      *broker;
	char                name[NAME_SIZE];
	struct waiter      *waiter;
	uint64_t            request;
	struct event       *timer;
	struct drain_wait  *prev, *next; /* in its waiter */
};

/* People see in the status file how many wait. */
void waiting_count(struct broker *broker, int by)
{
	broker->waiting->count += (unsigned)by;
	broker_changed(broker);
}

int waiting_timer(struct event **timer, struct event_base *base, int timeout_ms, event_callback_fn expired,
		  void *context)
{
	struct timeval after = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };

	*timer = NULL;
	if (timeout_ms < 0)
		return 0;
	*timer = evtimer_new(base, expired, context);
	if (*timer && !evtimer_add(*timer, &after))
		return 0;
	if (*timer)
		event_free(*timer);
	return error_set(-ENOMEM, "the broker is out of memory");
}

/* The session that is to be answered; NULL: it is gone or is not heard any more. */
static struct session *session_heard(struct broker *broker, uint64_t id)
{
	struct session *session = session_find(broker, id);

	return session && session->state != SESSION_CUT ? session : NULL;
}

/* ---- what a session waits for ---- */

static struct waiter *waiter_get(struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	HASH_FIND(hh, waiting->waiters, &session, sizeof session, waiter);
	if (waiter)
		return waiter;
	waiter = calloc(1, sizeof *waiter);
	if (!waiter)
		return NULL;
	waiter->session = session;
	HASH_ADD(hh, waiting->waiters, session, sizeof waiter->session, waiter);
	if (table_added(waiter))
		return waiter;
	free(waiter);
	return NULL;
}

static void waiter_put(struct waiting *waiting, struct waiter *waiter)
{
	if (waiter->acquires || waiter->drains)
		return;
	HASH_DEL(waiting->waiters, waiter);
	free(waiter);
}

/* ---- acquires ---- */

static void line_wake_no_more(struct waiting *waiting, struct name_line *line)
{
	if (line->waking)
		DL_DELETE2(waiting->waking, line, waking_prev, waking_next);
	line->waking = false;
}

static void line_put(struct waiting *waiting, struct name_line *line)
{
	if (line->waits)
		return;
	line_wake_no_more(waiting, line);
	HASH_DEL(waiting->lines, line);
	free(line);
}

static struct name_line *line_find(const struct waiting *waiting, const char *name)
{
	struct name_line *line;

	HASH_FIND_STR(waiting->lines, name, line);
	return line;
}

static struct name_line *line_get(struct waiting *waiting, const char *name)
{
	struct name_line *line = line_find(waiting, name);

	if (line)
		return line;
	line = calloc(1, sizeof *line);
	if (!line)
		return NULL;
	strcpy(line->name, name);
	HASH_ADD_STR(waiting->lines, name, line);
	if (table_added(line))
		return line;
	free(line);
	return NULL;
}

static void acquire_drop(struct acquire_wait *wait)
{
	struct waiting *waiting = wait->broker->waiting;

	DL_DELETE(wait->line->waits, wait);
	DL_DELETE2(wait->waiter->acquires, wait, session_prev, session_next);
	wait->waiter->count--;
	waiting_count(wait->broker, -1);
	line_put(waiting, wait->line);
	waiter_put(waiting, wait->waiter);
	charge_release(&wait->charge, wait->broker->accounting);
	if (wait->timer)
		event_free(wait->timer);
	free(wait);
}

static void acquire_expired(evutil_socket_t fd, short what, void *argument)
{
	struct acquire_wait wait = *(struct acquire_wait *)argument;
	struct session *session = session_heard(wait.broker, wait.waiter->session);

	(void)fd;
	(void)what;
	acquire_drop(argument);
	error_set(-ETIMEDOUT, "no buffer '%s' appeared within %d ms", wait.acquire.name, wait.acquire.timeout_ms);
	if (session)
		session_refuse(session, wait.request, -ETIMEDOUT, error_text());
}

/* Enters it in both lists. */
static int acquire_enter(struct acquire_wait *wait, uint64_t session)
{
	struct waiting *waiting = wait->broker->waiting;

	wait->line = line_get(waiting, wait->acquire.name);
	if (!wait->line)
		return error_set(-ENOMEM, "the broker is out of memory");
	wait->waiter = waiter_get(waiting, session);
	if (!wait->waiter) {
		line_put(waiting, wait->line);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	if (wait->waiter->count >= WAITS_MAX) {
		line_put(waiting, wait->line);
		/* the waiter stays: it has those */
		return error_set(-EDQUOT, "a session may have %d acquires wait and this one has %u: let some end first",
				 WAITS_MAX, wait->waiter->count);
	}
	DL_APPEND(wait->line->waits, wait);
	DL_APPEND2(wait->waiter->acquires, wait, session_prev, session_next);
	wait->waiter->count++;
	waiting_count(wait->broker, 1);
	return 0;
}

/* To its session's user; one that is gone is passed over when it wakes. */
static int acquire_charge(struct acquire_wait *wait, uint64_t id)
{
	const struct session *session = session_find(wait->broker, id);

	return session ? charge_take(&wait->charge, wait->broker->accounting, session->who.uid, RESOURCE_WAITS, 1) : 0;
}

int waiting_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire)
{
	struct acquire_wait *wait = calloc(1, sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	wait->broker = broker;
	wait->request = request;
	wait->acquire = *acquire;
	error = acquire_charge(wait, session);
	if (error)
		goto free_wait;
	error = acquire_enter(wait, session);
	if (error)
		goto refund;
	error = waiting_timer(&wait->timer, broker->base, acquire->timeout_ms, acquire_expired, wait);
	if (error)
		acquire_drop(wait);
	CRASH_POINT(acquire_waits);
	return error;
refund:
	charge_release(&wait->charge, broker->accounting);
free_wait:
	free(wait);
	return error;
}

static void acquire_wake(struct acquire_wait *waits)
{
	struct acquire_wait wait = *waits;
	struct session *session = session_heard(wait.broker, wait.waiter->session);

	CRASH_POINT_PEER(session ? session->pid : 0);
	CRASH_POINT(acquire_woken);
	acquire_drop(waits);
	if (session)
		wait.broker->waiting->grant(session, wait.request, &wait.acquire);
}

void waiting_wake_name(struct broker *broker, const char *name)
{
	struct waiting *waiting = broker->waiting;
	struct name_line *line;

	for (int i = 0; i < WAKES && (line = line_find(waiting, name)); i++)
		acquire_wake(line->waits);
	line = line_find(waiting, name);
	if (!line || line->waking)
		return;
	line->waking = true;
	DL_APPEND2(waiting->waking, line, waking_prev, waking_next);
}

bool waiting_wake_more(struct broker *broker)
{
	struct name_line *line = broker->waiting->waking;
	const struct buffer *buffer;

	if (!line)
		return false;
	line_wake_no_more(broker->waiting, line);
	buffer = registry_find(broker->registry, line->name);
	if (buffer && buffer->state == BUFFER_LIVE)
		waiting_wake_name(broker, buffer->name);
	return broker->waiting->waking;
}

/* ---- drains ---- */

static void drain_forget(struct drain_wait *wait)
{
	*wait->drain.place = NULL;
	DL_DELETE(wait->waiter->drains, wait);
	waiter_put(wait->broker->waiting, wait->waiter);
	waiting_count(wait->broker, -1);
	if (wait->timer)
		event_free(wait->timer);
	free(wait);
}

static void drain_expired(evutil_socket_t fd, short what, void *argument)
{
	struct drain_wait wait = *(struct drain_wait *)argument;
	struct session *session = session_heard(wait.broker, wait.waiter->session);

	(void)fd;
	(void)what;
	error_set(-ETIMEDOUT, "'%s' is not freed yet: its name is gone, and broker-status says who holds it",
		  wait.name);
	if (session)
		session_refuse(session, wait.request, -ETIMEDOUT, error_text());
	drain_forget(argument);
}

static void drain_done(struct drain *drain)
{
	struct drain_wait *wait = (struct drain_wait *)drain;
	struct session *session = session_heard(wait->broker, wait->waiter->session);

	if (session)
		session_done(session, wait->request, -1);
	drain_forget(wait);
}

int waiting_drain(struct broker *broker, struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms)
{
	struct drain_wait *wait = calloc(1, sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = (struct drain_wait){ .drain = { .place = &buffer->drain, .done = drain_done }, .broker = broker, .request = request };
	strcpy(wait->name, buffer->name);
	wait->waiter = waiter_get(broker->waiting, session);
	if (!wait->waiter) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto free_wait;
	}
	error = waiting_timer(&wait->timer, broker->base, timeout_ms, drain_expired, wait);
	if (error)
		goto put_waiter;
	buffer->drain = &wait->drain;
	DL_APPEND(wait->waiter->drains, wait);
	waiting_count(broker, 1);
	return 0;
put_waiter:
	waiter_put(broker->waiting, wait->waiter);
free_wait:
	free(wait);
	return error;
}

/* ---- the end of a session ---- */

static struct waiter *waiter_find(const struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	HASH_FIND(hh, waiting->waiters, &session, sizeof session, waiter);
	return waiter;
}

/* Each may be the last, which takes the waiter with it. */
static void acquires_forget(struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	while ((waiter = waiter_find(waiting, session)) && waiter->acquires)
		acquire_drop(waiter->acquires);
}

/* The names are gone and stay so: only the question is forgotten. */
static void drains_forget(struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	while ((waiter = waiter_find(waiting, session)) && waiter->drains)
		drain_forget(waiter->drains);
}

static const struct waiter *waiter_who_waits(const struct waiting *waiting)
{
	const struct waiter *waiter = waiting->waiters;

	while (waiter && !waiter->acquires)
		waiter = waiter->hh.next;
	return waiter;
}

void waiting_forget(struct broker *broker, uint64_t session)
{
	acquires_forget(broker->waiting, session);
	drains_forget(broker->waiting, session);
}

void waiting_forget_all(struct broker *broker)
{
	const struct waiter *waiter;

	while ((waiter = waiter_who_waits(broker->waiting)))
		acquires_forget(broker->waiting, waiter->session);
}

void waiting_deinit(struct broker *broker)
{
	waiting_forget_all(broker);
	while (broker->waiting->waiters)
		drains_forget(broker->waiting, broker->waiting->waiters->session);
}
