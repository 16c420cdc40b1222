/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c - see waiting.h */
#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <utlist.h>

#include "broker.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "request.h"

#define WAITS_MAX 1024 /* acquires that a session may have wait */

/* Those who wait for one name, oldest first. There is one as long as anybody does. */
struct name_line {
	char                 name[NAME_SIZE];
	struct acquire_wait *waits;
	UT_hash_handle       hh;
};

/* What one session waits for. There is one as long as it does. */
struct waiter {
	uint64_t             session;
	unsigned             count;
	struct acquire_wait *waits;
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

struct create_wait {
	struct broker             *broker;
	unsigned                   device;
	uint64_t                   session;
	uid_t                      uid;
	bool                       first; /* of its user on that device: the one that tries */
	const struct create_hooks *hooks;
	void                      *context;
	bool                       trying;  /* its job is on the device; it keeps its place in line */
	bool                       expired; /* its time ended, or its session did, while trying */
	struct event              *timer;
	struct create_wait        *prev, *next;
};

/* People see in the status file how many wait. */
static void count_changed(struct broker *broker, int by)
{
	broker->waiting.count += (unsigned)by;
	status_changed(broker);
}

/* A timer for a timeout; NULL with 0 where it never ends. */
static int timer_start(struct event **timer, struct event_base *base, int timeout_ms, event_callback_fn expired,
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

/* ---- acquires ---- */

static void line_put(struct waiting *waiting, struct name_line *line)
{
	if (line->waits)
		return;
	HASH_DEL(waiting->lines, line);
	free(line);
}

static void waiter_put(struct waiting *waiting, struct waiter *waiter)
{
	if (waiter->count)
		return;
	HASH_DEL(waiting->waiters, waiter);
	free(waiter);
}

static struct name_line *line_get(struct waiting *waiting, const char *name)
{
	struct name_line *line;

	HASH_FIND_STR(waiting->lines, name, line);
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

static void acquire_drop(struct acquire_wait *wait)
{
	struct waiting *waiting = &wait->broker->waiting;

	DL_DELETE(wait->line->waits, wait);
	DL_DELETE2(wait->waiter->waits, wait, session_prev, session_next);
	wait->waiter->count--;
	count_changed(wait->broker, -1);
	line_put(waiting, wait->line);
	waiter_put(waiting, wait->waiter);
	charge_release(&wait->charge, &wait->broker->accounting);
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
	struct waiting *waiting = &wait->broker->waiting;

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
		return error_set(-EDQUOT, "a session may have %d acquires wait and this one has %u: let some end first",
				 WAITS_MAX, wait->waiter->count);
	}
	DL_APPEND(wait->line->waits, wait);
	DL_APPEND2(wait->waiter->waits, wait, session_prev, session_next);
	wait->waiter->count++;
	count_changed(wait->broker, 1);
	return 0;
}

/* To its session's user; one that is gone is passed over when it wakes. */
static int acquire_charge(struct acquire_wait *wait, uint64_t id)
{
	const struct session *session = session_find(wait->broker, id);

	return session ? charge_take(&wait->charge, &wait->broker->accounting, session->who.uid, RESOURCE_WAITS, 1) : 0;
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
	error = timer_start(&wait->timer, broker->base, acquire->timeout_ms, acquire_expired, wait);
	if (error)
		acquire_drop(wait);
	CRASH_POINT(acquire_waits);
	return error;
refund:
	charge_release(&wait->charge, &broker->accounting);
free_wait:
	free(wait);
	return error;
}

void waiting_wake_name(struct broker *broker, const char *name)
{
	struct name_line *line;
	struct acquire_wait wait;
	struct session *session;

	for (;;) {
		HASH_FIND_STR(broker->waiting.lines, name, line);
		if (!line)
			return;
		wait = *line->waits;
		session = session_heard(broker, wait.waiter->session);
		CRASH_POINT_PEER(session ? session->pid : 0);
		CRASH_POINT(acquire_woken);
		acquire_drop(line->waits);
		if (session)
			request_grant(session, wait.request, &wait.acquire);
	}
}

static void acquires_forget(struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	HASH_FIND(hh, waiting->waiters, &session, sizeof session, waiter);
	/* the last one takes the waiter with it */
	for (unsigned count = waiter ? waiter->count : 0; count; count--)
		acquire_drop(waiter->waits);
}

/* ---- creates ---- */

static struct create_wait *first_of(struct create_wait *line, uid_t uid)
{
	struct create_wait *wait;

	DL_FOREACH(line, wait)
		if (wait->uid == uid)
			return wait;
	return NULL;
}

static void create_drop(struct create_wait *wait)
{
	struct create_wait *next;

	DL_DELETE(wait->broker->waiting.creates[wait->device], wait);
	next = first_of(wait->broker->waiting.creates[wait->device], wait->uid);
	if (next)
		next->first = true;
	count_changed(wait->broker, -1);
	if (wait->timer)
		event_free(wait->timer);
	free(wait);
}

/* While its job is on the device, the job's outcome comes first. */
static void create_expire(struct create_wait *wait)
{
	struct broker *broker = wait->broker;
	const struct create_hooks *hooks = wait->hooks;
	void *context = wait->context;
	unsigned device = wait->device;

	wait->expired = true;
	if (wait->trying)
		return;
	create_drop(wait);
	hooks->expire(context);
	/* whoever stood behind it may need less */
	waiting_wake_memory(broker, device);
}

static void create_expired(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	create_expire(argument);
}

int waiting_create(struct broker *broker, unsigned device, uint64_t session, int timeout_ms,
		   const struct create_hooks *hooks, void *context, struct create_wait **result)
{
	struct create_wait *wait = calloc(1, sizeof *wait);
	const struct session *creator = session_find(broker, session);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = (struct create_wait){ .broker = broker,
				      .device = device,
				      .session = session,
				      .uid = creator ? creator->who.uid : geteuid(),
				      .hooks = hooks,
				      .context = context };
	error = timer_start(&wait->timer, broker->base, timeout_ms, create_expired, wait);
	if (error) {
		free(wait);
		return error;
	}
	wait->first = !first_of(broker->waiting.creates[device], wait->uid);
	DL_APPEND(broker->waiting.creates[device], wait);
	count_changed(broker, 1);
	CRASH_POINT(create_waits);
	*result = wait;
	return 0;
}

void waiting_create_failed(struct create_wait *wait)
{
	wait->trying = false;
	if (wait->expired)
		create_expire(wait);
}

void waiting_create_over(struct create_wait *wait)
{
	struct broker *broker = wait->broker;
	unsigned device = wait->device;

	create_drop(wait);
	waiting_wake_memory(broker, device);
}

bool waiting_for_memory(const struct broker *broker, unsigned device, uid_t uid)
{
	return first_of(broker->waiting.creates[device], uid) != NULL;
}

/* A try may end at once and take its wait along: so the line is looked through anew. Those that try are passed over. */
void waiting_wake_memory(struct broker *broker, unsigned device)
{
	struct create_wait *wait = broker->waiting.creates[device];

	while (wait) {
		if (!wait->first || wait->trying) {
			wait = wait->next;
			continue;
		}
		wait->trying = true;
		wait->hooks->retry(wait->context);
		wait = broker->waiting.creates[device];
	}
}

/* ---- drains ---- */

struct drain_wait {
	struct broker *broker;
	struct buffer *buffer;
	uint64_t       session, request;
	struct event  *timer;
	struct drain_wait *prev, *next;
};

void waiting_forget_drain(struct buffer *buffer)
{
	struct drain_wait *wait = buffer->drain;

	if (!wait)
		return;
	buffer->drain = NULL;
	DL_DELETE(wait->broker->waiting.drains, wait);
	count_changed(wait->broker, -1);
	if (wait->timer)
		event_free(wait->timer);
	free(wait);
}

static void drain_expired(evutil_socket_t fd, short what, void *argument)
{
	struct drain_wait wait = *(struct drain_wait *)argument;
	struct session *session = session_heard(wait.broker, wait.session);

	(void)fd;
	(void)what;
	error_set(-ETIMEDOUT, "'%s' is not freed yet: its name is gone, and broker-status says who holds it",
		  wait.buffer->name);
	if (session)
		session_refuse(session, wait.request, -ETIMEDOUT, error_text());
	waiting_forget_drain(wait.buffer);
}

int waiting_drain(struct broker *broker, struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms)
{
	struct drain_wait *wait = calloc(1, sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = (struct drain_wait){ .broker = broker, .buffer = buffer, .session = session, .request = request };
	error = timer_start(&wait->timer, broker->base, timeout_ms, drain_expired, wait);
	if (error) {
		free(wait);
		return error;
	}
	buffer->drain = wait;
	DL_APPEND(broker->waiting.drains, wait);
	count_changed(broker, 1);
	return 0;
}

void waiting_drained(struct broker *broker, struct buffer *buffer)
{
	struct drain_wait *wait = buffer->drain;
	struct session *session = wait ? session_heard(broker, wait->session) : NULL;

	if (session)
		request_done(session, wait->request, -1);
	waiting_forget_drain(buffer);
}

/* The names are gone and stay so: only the question is forgotten. */
static void drains_forget(struct broker *broker, uint64_t session)
{
	struct drain_wait *wait, *next;

	DL_FOREACH_SAFE(broker->waiting.drains, wait, next)
		if (wait->session == session)
			waiting_forget_drain(wait->buffer);
}

static struct create_wait *create_of(struct broker *broker, uint64_t session)
{
	struct create_wait *wait;

	for (unsigned device = 0; device < DEVICE_MAX; device++)
		DL_FOREACH(broker->waiting.creates[device], wait)
			if (!wait->expired && (!session || wait->session == session))
				return wait;
	return NULL;
}

void waiting_forget(struct broker *broker, uint64_t session)
{
	struct waiting *waiting = &broker->waiting;
	struct create_wait *create;

	while (!session && waiting->waiters)
		acquires_forget(waiting, waiting->waiters->session);
	acquires_forget(waiting, session);
	drains_forget(broker, session);
	/* an expiry may drop others: begin anew after each */
	while ((create = create_of(broker, session)))
		create_expire(create);
}
