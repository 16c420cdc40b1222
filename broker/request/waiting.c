/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c - see waiting.h */
#include "waiting.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/now.h"

#define WAITS_MAX 1024 /* for names, that a session may have */
#define WAKES     16   /* of one name in one step: more could hold up others (invariant 5) */

/* Requests that wait for one name, oldest first. There is one as long as any does. */
struct name_queue {
	char                 name[NAME_SIZE];
	struct name_wait    *waits;
	struct name_wait    *last;   /* that is to be answered: those behind it came later. NULL: none; else it is in that list: */
	struct name_queue   *waking_prev, *waking_next;
	UT_hash_handle       hh;
};

/* What one session waits for; session 0 is the broker itself. There is one as long as it waits for anything. */
struct waiter {
	struct broker *broker;
	uint64_t       session;
	struct deadlines deadlines; /* of its waits */
	struct event  *timer; /* for the first of them; NULL: none had one yet */
	unsigned       names; /* how many wait for one */
	struct wait   *waits; /* those that outlast a stop last */
	UT_hash_handle hh;
};

/* An acquire until the name is there, or the question for a newer buffer of it. */
struct name_wait {
	struct wait          wait; /* the first member: see name_end() */
	struct name_queue   *queue;
	union {
		char                name[NAME_SIZE]; /* both begin with it */
		struct wire_acquire acquire;
		struct wire_newer   newer;
	};
	int32_t              timeout_ms;
	struct charge        charge;
	struct name_wait    *prev, *next; /* in its queue */
};

/* Drains that wait for one buffer. There is one as long as any does. */
struct drain_queue {
	uint64_t            serial; /* the buffer's */
	struct drain_wait  *waits;
	bool                ended;  /* the buffer is no more, and it is in that list: */
	struct drain_queue *ended_prev, *ended_next;
	UT_hash_handle      hh; /* by serial */
};

struct drain_wait {
	struct wait         wait;   /* the first member: see drain_end() */
	struct drain_queue *queue;
	uint64_t            last;   /* the serial of the last buffer that it waits for */
	uid_t               owner;  /* of all of them */
	char                name[NAME_SIZE];
	struct charge       charge; /* of one that joined */
	struct drain_wait  *prev, *next; /* in its queue */
};

/* ---- a wait of any kind ---- */

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
	deadlines_deinit(&waiter->deadlines);
	free(waiter);
}

/* ---- deadlines ---- */

/* -1: no memory. */
static int timer_set(struct waiter *waiter, uint64_t ms)
{
	uint64_t now = now_ms(CLOCK_MONOTONIC), left = ms > now ? ms - now : 0;
	struct timeval after = { .tv_sec = (time_t)(left / 1000), .tv_usec = (suseconds_t)(left % 1000 * 1000) };

	return evtimer_add(waiter->timer, &after);
}

/* The broker's own requests, which are few, have no session in whose share they could end. */
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

/* -1: no memory. */
static int deadline_begin(struct wait *wait, int timeout_ms)
{
	struct waiter *waiter = wait->waiter;

	if (timeout_ms < 0)
		return 0;
	if (!waiter->timer)
		waiter->timer = evtimer_new(waiter->broker->base, on_time, waiter);
	wait->expires.ms = now_ms(CLOCK_MONOTONIC) + (uint64_t)timeout_ms + 1; /* never before its time */
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
	if (first->ms > now_ms(CLOCK_MONOTONIC)) {
		timer_set(waiter, first->ms);
		return false;
	}
	wait->kind->end(wait, true);
	return true;
}

/* A session that gives two requests one number can cancel the first of them alone. -1: no memory. */
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

int wait_begin(struct wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key, int timeout_ms)
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
	broker_changed(broker); /* people see in the status file how many wait */
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

/* The session that is to be answered; NULL: it is gone, or nothing is sent to it any more. */
static struct session *session_of(const struct wait *wait)
{
	struct session *session = session_find(wait->broker, wait->waiter->session);

	return session && session->state != SESSION_DISCONNECTED ? session : NULL;
}

uint64_t wait_session(const struct wait *wait)
{
	return wait->waiter->session;
}

/* ---- names ---- */

static void wake_until(struct waiting *waiting, struct name_queue *queue, struct name_wait *last)
{
	if (last && !queue->last)
		DL_APPEND2(waiting->waking, queue, waking_prev, waking_next);
	else if (!last && queue->last)
		DL_DELETE2(waiting->waking, queue, waking_prev, waking_next);
	queue->last = last;
}

static void queue_leave(struct waiting *waiting, struct name_wait *wait)
{
	struct name_queue *queue = wait->queue;

	if (queue->last == wait)
		wake_until(waiting, queue, wait == queue->waits ? NULL : wait->prev);
	DL_DELETE(queue->waits, wait);
	if (queue->waits)
		return;
	HASH_DEL(waiting->names, queue);
	free(queue);
}

static struct name_queue *queue_find(const struct waiting *waiting, const char *name)
{
	struct name_queue *queue;

	HASH_FIND_STR(waiting->names, name, queue);
	return queue;
}

static struct name_queue *queue_get(struct waiting *waiting, const char *name)
{
	struct name_queue *queue = queue_find(waiting, name);

	if (queue)
		return queue;
	queue = calloc(1, sizeof *queue);
	if (!queue)
		return NULL;
	strcpy(queue->name, name);
	HASH_ADD_STR(waiting->names, name, queue);
	if (table_added(queue))
		return queue;
	free(queue);
	return NULL;
}

static void name_drop(struct name_wait *wait)
{
	struct broker *broker = wait->wait.broker;

	queue_leave(broker->waiting, wait);
	wait->wait.waiter->names--;
	wait_leave(&wait->wait);
	charge_release(&wait->charge, broker->accounting);
	free(wait);
}

static const struct wait_kind newer_kind;

static int name_refusal(const struct name_wait *wait, bool stopping)
{
	const char *newer = wait->wait.kind == &newer_kind ? "newer " : "";

	if (stopping)
		return error_set(-ENOENT, "there is no %sbuffer '%s', and the broker is stopping: none is made any more", newer,
				 wait->name);
	return error_set(-ETIMEDOUT, "no %sbuffer '%s' appeared within %d ms", newer, wait->name, wait->timeout_ms);
}

static void name_end(struct wait *wait, bool expired)
{
	struct name_wait ended = *(struct name_wait *)wait;
	bool stopping = wait->broker->waiting->stopping;
	struct session *session = expired || stopping ? session_of(wait) : NULL;
	int error;

	name_drop((struct name_wait *)wait);
	if (!session)
		return;
	error = name_refusal(&ended, stopping);
	session_refuse(session, ended.wait.key.request, error, error_text());
}

static void acquire_show(const struct wait *wait, struct wait_shown *shown)
{
	*shown = (struct wait_shown){ .what = WAIT_ACQUIRE, .name = ((const struct name_wait *)wait)->name };
}

static void newer_show(const struct wait *wait, struct wait_shown *shown)
{
	*shown = (struct wait_shown){ .what = WAIT_NEWER, .name = ((const struct name_wait *)wait)->name };
}

static const struct wait_kind acquire_kind = { .end = name_end, .show = acquire_show };
static const struct wait_kind newer_kind = { .end = name_end, .show = newer_show };

/* Enters it in its session and in its name's queue, or in neither. */
static int name_enter(struct name_wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key)
{
	int error = wait_begin(&wait->wait, kind, broker, key, wait->timeout_ms);

	if (error)
		return error;
	if (wait->wait.waiter->names >= WAITS_MAX)
		error = error_set(-EDQUOT, "a session may have %d acquires wait and this one has %u: let some end first",
				  WAITS_MAX, wait->wait.waiter->names);
	else if (!(wait->queue = queue_get(broker->waiting, wait->name)))
		error = error_set(-ENOMEM, "the broker is out of memory");
	if (error) {
		wait_leave(&wait->wait);
		return error;
	}
	DL_APPEND(wait->queue->waits, wait);
	wait->wait.waiter->names++;
	return 0;
}

/* To its session's user; one that is gone is passed over when it wakes. */
static int charge_waits(struct charge *charge, struct broker *broker, uint64_t id)
{
	const struct session *session = session_find(broker, id);

	return session ? charge_take(charge, broker->accounting, session->who.uid, RESOURCE_WAITS, 1) : 0;
}

/* A copy of that, as a wait for its name. */
static int name_wait(const struct name_wait *like, const struct wait_kind *kind, struct broker *broker, struct wait_key key)
{
	struct name_wait *wait = malloc(sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = *like;
	error = charge_waits(&wait->charge, broker, key.session);
	if (error)
		goto free_wait;
	error = name_enter(wait, kind, broker, key);
	if (error)
		goto refund;
	CRASH_POINT(acquire_waits);
	return 0;
refund:
	charge_release(&wait->charge, broker->accounting);
free_wait:
	free(wait);
	return error;
}

int waiting_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire)
{
	const struct name_wait wait = { .acquire = *acquire, .timeout_ms = acquire->timeout_ms };

	return name_wait(&wait, &acquire_kind, broker, (struct wait_key){ session, request });
}

int waiting_newer(struct broker *broker, uint64_t session, uint64_t request, const struct wire_newer *newer)
{
	const struct name_wait wait = { .newer = *newer, .timeout_ms = newer->timeout_ms };

	return name_wait(&wait, &newer_kind, broker, (struct wait_key){ session, request });
}

static void name_wake(struct name_wait *wait)
{
	struct name_wait woken = *wait;
	struct session *session = session_of(&wait->wait);

	CRASH_POINT_PEER(session ? session->pid : 0);
	CRASH_POINT(acquire_woken);
	name_drop(wait);
	if (!session)
		return;
	if (woken.wait.kind == &newer_kind)
		session->broker->waiting->tell(session, woken.wait.key.request, &woken.newer);
	else
		session->broker->waiting->grant(session, woken.wait.key.request, &woken.acquire, woken.wait.began);
}

static void wake_first(struct broker *broker, const char *name)
{
	const struct name_queue *queue;

	for (int i = 0; i < WAKES && (queue = queue_find(broker->waiting, name)) && queue->last; i++)
		name_wake(queue->waits);
}

void waiting_wake_name(struct broker *broker, const char *name)
{
	struct name_queue *queue = queue_find(broker->waiting, name);

	if (!queue)
		return;
	wake_until(broker->waiting, queue, queue->waits->prev); /* the last of all */
	wake_first(broker, name);
}

/* Of one name, which is the last to be looked at again. */
static void wake_some(struct broker *broker)
{
	struct waiting *waiting = broker->waiting;
	struct name_queue *queue = waiting->waking;
	struct name_wait *last = queue ? queue->last : NULL;
	const struct buffer *buffer;

	if (!queue)
		return;
	wake_until(waiting, queue, NULL);
	buffer = registry_find(broker->registry, queue->name);
	if (!buffer || buffer->state != BUFFER_LIVE)
		return;
	wake_until(waiting, queue, last);
	wake_first(broker, buffer->name);
}

/* ---- drains ---- */

static struct drain_queue *drains_find(const struct waiting *waiting, uint64_t serial)
{
	struct drain_queue *queue;

	HASH_FIND(hh, waiting->drains, &serial, sizeof serial, queue);
	return queue;
}

static struct drain_queue *drains_get(struct waiting *waiting, uint64_t serial)
{
	struct drain_queue *queue = drains_find(waiting, serial);

	if (queue)
		return queue;
	queue = calloc(1, sizeof *queue);
	if (!queue)
		return NULL;
	queue->serial = serial;
	HASH_ADD(hh, waiting->drains, serial, sizeof queue->serial, queue);
	if (table_added(queue))
		return queue;
	free(queue);
	return NULL;
}

static void drains_put(struct waiting *waiting, struct drain_queue *queue)
{
	if (queue->waits)
		return;
	if (queue->ended)
		DL_DELETE2(waiting->ended, queue, ended_prev, ended_next);
	HASH_DEL(waiting->drains, queue);
	free(queue);
}

/* Waits for that buffer from now on. -ENOMEM: for none. */
static int drain_wait_for(struct drain_wait *drain, uint64_t serial)
{
	drain->queue = drains_get(drain->wait.broker->waiting, serial);
	if (!drain->queue)
		return error_set(-ENOMEM, "the broker is out of memory");
	DL_APPEND(drain->queue->waits, drain);
	return 0;
}

static void drain_wait_no_more(struct drain_wait *drain)
{
	DL_DELETE(drain->queue->waits, drain);
	drains_put(drain->wait.broker->waiting, drain->queue);
}

static void drain_free(struct drain_wait *drain, struct broker *broker)
{
	charge_release(&drain->charge, broker->accounting);
	free(drain);
}

static void drain_leave(struct drain_wait *drain)
{
	wait_leave(&drain->wait);
	drain_free(drain, drain->wait.broker);
}

static void tell_of_drain(struct session *session, enum event_kind kind, const char *name)
{
	event_happened(session->broker,
		       &(struct broker_event){ .kind = kind, .actor = SESSION_PARTY(session), .name = name });
}

/* The name is gone and stays so, also where nobody waits any more. */
static void drain_end(struct wait *wait, bool expired)
{
	struct drain_wait drain = *(struct drain_wait *)wait;
	struct session *session = expired ? session_of(wait) : NULL;

	drain_wait_no_more((struct drain_wait *)wait);
	drain_leave((struct drain_wait *)wait);
	if (!session)
		return;
	tell_of_drain(session, EVENT_DRAIN_LATE, drain.name);
	error_set(-ETIMEDOUT, "'%s' is not freed yet: its name is gone, and broker-ctl stat says who holds it", drain.name);
	session_refuse(session, drain.wait.key.request, -ETIMEDOUT, error_text());
}

static void drain_show(const struct wait *wait, struct wait_shown *shown)
{
	const struct drain_wait *drain = (const struct drain_wait *)wait;

	*shown = (struct wait_shown){ .what = WAIT_DRAIN, .name = drain->name, .generation = drain->queue->serial };
}

/* error: with the error message set; 0: its memory is freed. It waits for no buffer any more. */
static void drain_answer(struct drain_wait *wait, int error)
{
	struct drain_wait drain = *wait;
	struct broker *broker = wait->wait.broker;
	struct session *session = session_of(&wait->wait);

	drain_leave(wait);
	if (!session)
		return;
	if (error) {
		session_refuse(session, drain.wait.key.request, error, error_text());
		return;
	}
	histograms_count(&broker->histograms, HISTOGRAM_DRAIN, drain.wait.began);
	tell_of_drain(session, EVENT_DRAINED, drain.name);
	session_done(session, drain.wait.key.request, -1);
}

/* The next of the buffers that it joined, or the answer. */
static void drain_go_on(struct drain_wait *drain)
{
	struct broker *broker = drain->wait.broker;
	uint64_t ended = drain->queue->serial, last;
	const struct buffer *next = registry_find_draining(broker->registry, drain->name, drain->owner, &last);
	int error = 0;

	drain_wait_no_more(drain);
	if (next && next->serial > ended && next->serial <= drain->last && session_of(&drain->wait)) {
		error = drain_wait_for(drain, next->serial);
		if (!error) {
			tracked_changed(broker->tracking, &drain->wait.tracked);
			return;
		}
	}
	drain_answer(drain, error);
}

/* Those of one buffer, so many at most. Returns how many are left of the number. */
static unsigned drains_answer(struct waiting *waiting, uint64_t serial, unsigned most)
{
	struct drain_queue *queue;

	for (; most && (queue = drains_find(waiting, serial)); most--)
		drain_go_on(queue->waits);
	return most;
}

void waiting_drained(void *context, uint64_t serial)
{
	struct broker *broker = context;
	struct waiting *waiting = broker->waiting;
	struct drain_queue *queue;

	drains_answer(waiting, serial, WAKES);
	queue = drains_find(waiting, serial);
	if (!queue || queue->ended)
		return;
	queue->ended = true;
	DL_APPEND2(waiting->ended, queue, ended_prev, ended_next);
}

bool waiting_wake_more(struct broker *broker)
{
	struct waiting *waiting = broker->waiting;

	wake_some(broker);
	if (waiting->ended)
		drains_answer(waiting, waiting->ended->serial, WAKES);
	return waiting->waking || waiting->ended;
}

static struct drain_wait *drain_new(const struct buffer *first, uint64_t last)
{
	struct drain_wait *drain = calloc(1, sizeof *drain);

	if (!drain) {
		error_set(-ENOMEM, "the broker is out of memory");
		return NULL;
	}
	drain->last = last;
	drain->owner = first->owner;
	strcpy(drain->name, first->name);
	return drain;
}

/* It waits for first, or is freed. */
static int drain_begin(struct drain_wait *drain, struct broker *broker, const struct buffer *first, struct wait_key key,
		       int timeout_ms)
{
	static const struct wait_kind kind = { .end = drain_end, .show = drain_show, .outlasts_stop = true };
	int error = wait_begin(&drain->wait, &kind, broker, key, timeout_ms);

	if (error) {
		drain_free(drain, broker);
		return error;
	}
	error = drain_wait_for(drain, first->serial);
	if (error)
		drain_leave(drain);
	return error;
}

int waiting_drain(struct broker *broker, const struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms)
{
	struct drain_wait *drain = drain_new(buffer, buffer->serial);

	return drain ? drain_begin(drain, broker, buffer, (struct wait_key){ session, request }, timeout_ms) : -ENOMEM;
}

int waiting_join_drain(struct broker *broker, const struct buffer *first, uint64_t last, uint64_t session, uint64_t request,
		       int timeout_ms)
{
	struct drain_wait *drain = drain_new(first, last);
	int error;

	if (!drain)
		return -ENOMEM;
	error = charge_waits(&drain->charge, broker, session);
	if (!error)
		return drain_begin(drain, broker, first, (struct wait_key){ session, request }, timeout_ms);
	free(drain);
	return error;
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
