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
	struct create_wait  *creates; /* but those that expired while they try */
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

/* What create lines are found by. Hashed as bytes: no padding. */
struct create_key {
	uint32_t device;
	uid_t    uid;
};

_Static_assert(sizeof(struct create_key) == 8, "keys are compared as bytes: no padding");

/* A user's creates that wait for a device, the oldest first: that one tries. There is one as long as there are such. */
struct create_line {
	struct create_key   key;
	struct create_wait *waits;
	struct create_line *prev, *next; /* of the device */
	UT_hash_handle      hh;
};

struct create_wait {
	struct broker             *broker;
	struct create_line        *line;
	struct waiter             *waiter; /* NULL: it expired while trying */
	const struct create_hooks *hooks;
	void                      *context;
	bool                       trying; /* its job is on the device; it keeps its place in line */
	struct event              *timer;
	struct create_wait        *prev, *next;                 /* in its line */
	struct create_wait        *session_prev, *session_next; /* in its waiter */
};

struct drain_wait {
	struct broker     *broker;
	struct buffer     *buffer;
	struct waiter     *waiter;
	uint64_t           request;
	struct event      *timer;
	struct drain_wait *prev, *next; /* in its waiter */
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
	if (waiter->acquires || waiter->creates || waiter->drains)
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
	struct waiting *waiting = &wait->broker->waiting;

	DL_DELETE(wait->line->waits, wait);
	DL_DELETE2(wait->waiter->acquires, wait, session_prev, session_next);
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
		/* the waiter stays: it has those */
		return error_set(-EDQUOT, "a session may have %d acquires wait and this one has %u: let some end first",
				 WAITS_MAX, wait->waiter->count);
	}
	DL_APPEND(wait->line->waits, wait);
	DL_APPEND2(wait->waiter->acquires, wait, session_prev, session_next);
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

static void acquire_wake(struct acquire_wait *waits)
{
	struct acquire_wait wait = *waits;
	struct session *session = session_heard(wait.broker, wait.waiter->session);

	CRASH_POINT_PEER(session ? session->pid : 0);
	CRASH_POINT(acquire_woken);
	acquire_drop(waits);
	if (session)
		request_grant(session, wait.request, &wait.acquire);
}

void waiting_wake_name(struct broker *broker, const char *name)
{
	struct waiting *waiting = &broker->waiting;
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
	struct name_line *line = broker->waiting.waking;
	const struct buffer *buffer;

	if (!line)
		return false;
	line_wake_no_more(&broker->waiting, line);
	buffer = registry_find(&broker->registry, line->name);
	if (buffer && buffer->state == BUFFER_LIVE)
		waiting_wake_name(broker, buffer->name);
	return broker->waiting.waking;
}

/* ---- creates ---- */

static struct create_line *create_line_find(const struct waiting *waiting, unsigned device, uid_t uid)
{
	struct create_key key = { device, uid };
	struct create_line *line;

	HASH_FIND(hh, waiting->create_lines, &key, sizeof key, line);
	return line;
}

static struct create_line *create_line_get(struct waiting *waiting, unsigned device, uid_t uid)
{
	struct create_line *line = create_line_find(waiting, device, uid);

	if (line)
		return line;
	line = calloc(1, sizeof *line);
	if (!line)
		return NULL;
	line->key = (struct create_key){ device, uid };
	HASH_ADD(hh, waiting->create_lines, key, sizeof line->key, line);
	if (table_added(line)) {
		DL_APPEND(waiting->creates[device], line);
		return line;
	}
	free(line);
	return NULL;
}

static void create_line_put(struct waiting *waiting, struct create_line *line)
{
	if (line->waits)
		return;
	HASH_DEL(waiting->create_lines, line);
	DL_DELETE(waiting->creates[line->key.device], line);
	free(line);
}

/* Its first has ended: all other users' come before its next. */
static void create_line_advance(struct waiting *waiting, struct create_line *line)
{
	DL_DELETE(waiting->creates[line->key.device], line);
	DL_APPEND(waiting->creates[line->key.device], line);
}

static void create_leave_waiter(struct create_wait *wait)
{
	struct waiter *waiter = wait->waiter;

	if (!waiter)
		return;
	wait->waiter = NULL;
	DL_DELETE2(waiter->creates, wait, session_prev, session_next);
	waiter_put(&wait->broker->waiting, waiter);
}

static void create_drop(struct create_wait *wait)
{
	struct waiting *waiting = &wait->broker->waiting;

	waiting->ended++;
	create_leave_waiter(wait);
	if (wait == wait->line->waits)
		create_line_advance(waiting, wait->line);
	DL_DELETE(wait->line->waits, wait);
	create_line_put(waiting, wait->line);
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
	unsigned device = wait->line->key.device;

	create_leave_waiter(wait);
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

static int create_enter(struct create_wait *wait, unsigned device, uint64_t session)
{
	struct broker *broker = wait->broker;
	const struct session *creator = session_find(broker, session);

	wait->line = create_line_get(&broker->waiting, device, creator ? creator->who.uid : geteuid());
	if (!wait->line)
		return error_set(-ENOMEM, "the broker is out of memory");
	wait->waiter = waiter_get(&broker->waiting, session);
	if (!wait->waiter) {
		create_line_put(&broker->waiting, wait->line);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	DL_APPEND(wait->line->waits, wait);
	DL_APPEND2(wait->waiter->creates, wait, session_prev, session_next);
	count_changed(broker, 1);
	return 0;
}

int waiting_create(struct broker *broker, unsigned device, uint64_t session, int timeout_ms,
		   const struct create_hooks *hooks, void *context, struct create_wait **result)
{
	struct create_wait *wait = calloc(1, sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = (struct create_wait){ .broker = broker, .hooks = hooks, .context = context };
	error = create_enter(wait, device, session);
	if (error) {
		free(wait);
		return error;
	}
	error = timer_start(&wait->timer, broker->base, timeout_ms, create_expired, wait);
	if (error) {
		create_drop(wait);
		return error;
	}
	CRASH_POINT(create_waits);
	*result = wait;
	return 0;
}

void waiting_create_failed(struct create_wait *wait)
{
	wait->trying = false;
	if (!wait->waiter)
		create_expire(wait);
}

void waiting_create_over(struct create_wait *wait)
{
	struct broker *broker = wait->broker;
	unsigned device = wait->line->key.device;

	create_drop(wait);
	waiting_wake_memory(broker, device);
}

bool waiting_for_memory(const struct broker *broker, unsigned device, uid_t uid)
{
	return create_line_find(&broker->waiting, device, uid) != NULL;
}

static struct create_line *create_line_retry(struct broker *broker, struct create_line *line)
{
	unsigned device = line->key.device, ended = broker->waiting.ended;

	if (line->waits->trying)
		return line->next;
	line->waits->trying = true;
	line->waits->hooks->retry(line->waits->context);
	/* a try may end at once, and take its line along: then they are looked through anew */
	return ended == broker->waiting.ended ? line->next : broker->waiting.creates[device];
}

void waiting_wake_memory(struct broker *broker, unsigned device)
{
	struct create_line *line = broker->waiting.creates[device];

	while (line)
		line = create_line_retry(broker, line);
}

/* ---- drains ---- */

void waiting_forget_drain(struct buffer *buffer)
{
	struct drain_wait *wait = buffer->drain;

	if (!wait)
		return;
	buffer->drain = NULL;
	DL_DELETE(wait->waiter->drains, wait);
	waiter_put(&wait->broker->waiting, wait->waiter);
	count_changed(wait->broker, -1);
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
	*wait = (struct drain_wait){ .broker = broker, .buffer = buffer, .request = request };
	wait->waiter = waiter_get(&broker->waiting, session);
	if (!wait->waiter) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto free_wait;
	}
	error = timer_start(&wait->timer, broker->base, timeout_ms, drain_expired, wait);
	if (error)
		goto put_waiter;
	buffer->drain = wait;
	DL_APPEND(wait->waiter->drains, wait);
	count_changed(broker, 1);
	return 0;
put_waiter:
	waiter_put(&broker->waiting, wait->waiter);
free_wait:
	free(wait);
	return error;
}

void waiting_drained(struct broker *broker, struct buffer *buffer)
{
	struct drain_wait *wait = buffer->drain;
	struct session *session = wait ? session_heard(broker, wait->waiter->session) : NULL;

	if (session)
		request_done(session, wait->request, -1);
	waiting_forget_drain(buffer);
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

/* One that ends may let others try, and those end, too. */
static void creates_forget(struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	while ((waiter = waiter_find(waiting, session)) && waiter->creates)
		create_expire(waiter->creates);
}

/* The names are gone and stay so: only the question is forgotten. */
static void drains_forget(struct waiting *waiting, uint64_t session)
{
	struct waiter *waiter;

	while ((waiter = waiter_find(waiting, session)) && waiter->drains)
		waiting_forget_drain(waiter->drains->buffer);
}

static const struct waiter *waiter_who_waits(const struct waiting *waiting)
{
	const struct waiter *waiter = waiting->waiters;

	while (waiter && !waiter->acquires && !waiter->creates)
		waiter = waiter->hh.next;
	return waiter;
}

void waiting_forget(struct broker *broker, uint64_t session)
{
	acquires_forget(&broker->waiting, session);
	drains_forget(&broker->waiting, session);
	creates_forget(&broker->waiting, session);
}

void waiting_forget_all(struct broker *broker)
{
	const struct waiter *waiter;

	while ((waiter = waiter_who_waits(&broker->waiting))) {
		uint64_t session = waiter->session;

		acquires_forget(&broker->waiting, session);
		creates_forget(&broker->waiting, session);
	}
}
