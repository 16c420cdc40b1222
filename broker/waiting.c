/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.c - see waiting.h */
#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <utlist.h>

#include "broker.h"
#include "common/error.h"
#include "request.h"

struct acquire_wait {
	struct broker       *broker;
	uint64_t             session, request;
	struct wire_acquire  acquire;
	struct event        *timer; /* NULL: waits for ever */
	struct acquire_wait *prev, *next;
};

struct create_wait {
	struct broker             *broker;
	unsigned                   device;
	uint64_t                   session;
	const struct create_hooks *hooks;
	void                      *context;
	bool                       trying;  /* its job is on the device; it keeps its place in line */
	bool                       expired; /* its time ended, or its session did, while trying */
	struct event              *timer;
	struct create_wait        *prev, *next;
};

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

/* ---- acquires ---- */

static void acquire_drop(struct acquire_wait *wait)
{
	DL_DELETE(wait->broker->waiting.acquires, wait);
	wait->broker->waiting.count--;
	if (wait->timer)
		event_free(wait->timer);
	free(wait);
}

/* Answering may cut the session off, which drops what it waits for: this one is off the list by then. */
static void acquire_expired(evutil_socket_t fd, short what, void *argument)
{
	struct acquire_wait wait = *(struct acquire_wait *)argument;
	struct session *session = session_find(wait.broker, wait.session);

	(void)fd;
	(void)what;
	acquire_drop(argument);
	error_set(-ETIMEDOUT, "no buffer '%s' appeared within %d ms", wait.acquire.name, wait.acquire.timeout_ms);
	if (session)
		session_refuse(session, wait.request, -ETIMEDOUT, error_text());
}

int waiting_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire)
{
	struct acquire_wait *wait = calloc(1, sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	wait->broker = broker;
	wait->session = session;
	wait->request = request;
	wait->acquire = *acquire;
	error = timer_start(&wait->timer, broker->base, acquire->timeout_ms, acquire_expired, wait);
	if (error) {
		free(wait);
		return error;
	}
	DL_APPEND(broker->waiting.acquires, wait);
	broker->waiting.count++;
	return 0;
}

static struct acquire_wait *acquire_for(struct broker *broker, const char *name)
{
	struct acquire_wait *wait;

	DL_FOREACH(broker->waiting.acquires, wait)
		if (!strcmp(wait->acquire.name, name))
			return wait;
	return NULL;
}

void waiting_wake_name(struct broker *broker, const char *name)
{
	struct acquire_wait *found, wait;
	struct session *session;

	while ((found = acquire_for(broker, name))) {
		wait = *found;
		acquire_drop(found);
		session = session_find(broker, wait.session);
		if (session)
			request_grant(session, wait.request, &wait.acquire);
	}
}

/* ---- creates ---- */

static void create_drop(struct create_wait *wait)
{
	DL_DELETE(wait->broker->waiting.creates[wait->device], wait);
	wait->broker->waiting.count--;
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
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = (struct create_wait){ .broker = broker,
				      .device = device,
				      .session = session,
				      .hooks = hooks,
				      .context = context };
	error = timer_start(&wait->timer, broker->base, timeout_ms, create_expired, wait);
	if (error) {
		free(wait);
		return error;
	}
	DL_APPEND(broker->waiting.creates[device], wait);
	broker->waiting.count++;
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

bool waiting_for_memory(const struct broker *broker, unsigned device)
{
	return broker->waiting.creates[device] != NULL;
}

void waiting_wake_memory(struct broker *broker, unsigned device)
{
	struct create_wait *wait = broker->waiting.creates[device];

	if (!wait || wait->trying)
		return;
	wait->trying = true;
	wait->hooks->retry(wait->context);
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
	struct acquire_wait *acquire, *next;
	struct create_wait *create;

	DL_FOREACH_SAFE(broker->waiting.acquires, acquire, next)
		if (!session || acquire->session == session)
			acquire_drop(acquire);
	/* an expiry may drop others: begin anew after each */
	while ((create = create_of(broker, session)))
		create_expire(create);
}
