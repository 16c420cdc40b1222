/* SPDX-License-Identifier: Apache-2.0 */
/* name-waits.c - see name-waits.h */
#include "name-waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "waiting.h"

#define SESSION_WAITS_MAX 1024 /* largest number of waits for names that one session may have */

/* The waits for one name. Exists while at least one request waits for the name. */
struct name_queue {
	char               name[NAME_SIZE];
	struct name_wait  *waits; /* list of the waits, in the order in which they are to be answered */
	/* the waits from the first to this one are to be answered; later waits are not. NULL: none is to be answered */
	struct name_wait  *last;
	struct name_queue *waking_prev, *waking_next; /* links in the list waiting->waking, while last is not NULL */
	UT_hash_handle     hh; /* handle in the hash table waiting->names */
};

struct name_wait {
	struct wait        wait; /* must be the first member, because name_wait_end() casts its address */
	struct name_queue *queue;
	union {
		char                name[NAME_SIZE]; /* the name that both structures below begin with */
		struct wire_acquire acquire;
		struct wire_newer   newer;
	};
	int32_t            timeout_ms;
	struct charge      charge;
	struct name_wait  *prev, *next; /* links in the list queue->waits */
};

/* Marks the waits of the queue, from the first to `last`, as to be answered. last: NULL marks none. */
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
		return error_set(-ENOENT,
				 "there is no %sbuffer '%s', and the broker is stopping: none is made any more",
				 newer, wait->name);
	return error_set(-ETIMEDOUT, "no %sbuffer '%s' appeared within %d ms", newer, wait->name, wait->timeout_ms);
}

static void name_wait_end(struct wait *wait, bool expired)
{
	struct name_wait ended = *(struct name_wait *)wait;
	bool stopping = wait->broker->waiting->stopping;
	struct session *session = expired || stopping ? wait_listener(wait) : NULL;
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

static const struct wait_kind acquire_kind = { .end = name_wait_end, .show = acquire_show };
static const struct wait_kind newer_kind = { .end = name_wait_end, .show = newer_show };

/* Enters the wait in its session's waits and in the queue of its name. On failure enters it in neither. */
static int name_enter(struct name_wait *wait, const struct wait_kind *kind, struct broker *broker, struct wait_key key)
{
	int error = wait_begin(&wait->wait, kind, broker, key, wait->timeout_ms);

	if (error)
		return error;
	if (wait->wait.waiter->names >= SESSION_WAITS_MAX)
		error = error_set(-EDQUOT,
				  "a session may have %d acquires wait and this one has %u: let some end first",
				  SESSION_WAITS_MAX, wait->wait.waiter->names);
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

/*
 * Charges the user of the session with the id for a wait. Charges nothing if the session has ended, because its waits
 * get no answer.
 */
static int charge_wait(struct charge *charge, struct broker *broker, uint64_t id)
{
	const struct session *session = session_find(broker, id);

	return session ? charge_take(charge, broker->accounting, session->who.uid, RESOURCE_WAITS, 1) : 0;
}

/* Allocates and begins a wait. like: a wait with the name, the request and timeout_ms, which the new wait copies. */
static int name_wait(const struct name_wait *like, const struct wait_kind *kind, struct broker *broker,
		     struct wait_key key)
{
	struct name_wait *wait = malloc(sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = *like;
	error = charge_wait(&wait->charge, broker, key.session);
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

int name_wait_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire)
{
	const struct name_wait wait = { .acquire = *acquire, .timeout_ms = acquire->timeout_ms };

	return name_wait(&wait, &acquire_kind, broker, (struct wait_key){ session, request });
}

int name_wait_newer(struct broker *broker, uint64_t session, uint64_t request, const struct wire_newer *newer)
{
	const struct name_wait wait = { .newer = *newer, .timeout_ms = newer->timeout_ms };

	return name_wait(&wait, &newer_kind, broker, (struct wait_key){ session, request });
}

/* ---- the name comes ---- */

void name_waits_wake(struct broker *broker, const char *name)
{
	struct name_queue *queue = queue_find(broker->waiting, name);

	if (queue)
		/* in a list of utlist.h, prev of the head is the last element */
		wake_until(broker->waiting, queue, queue->waits->prev);
}

/* Returns true if the wait is a question for a generation above a number that no buffer of the name has reached yet. */
static bool is_too_early(const struct name_wait *wait)
{
	const struct buffer *buffer = registry_find(wait->wait.broker->registry, wait->name);

	return wait->wait.kind == &newer_kind && buffer && buffer->serial <= wait->newer.generation;
}

/* Has the first wait of the queue go on: moves it behind all others, where it is not to be answered. */
static void wait_on(struct waiting *waiting, struct name_wait *wait)
{
	struct name_queue *queue = wait->queue;

	if (queue->last == wait)
		wake_until(waiting, queue, NULL);
	DL_DELETE(queue->waits, wait);
	DL_APPEND(queue->waits, wait);
}

bool name_waits_take(struct broker *broker, const char *name, struct name_woken *woken)
{
	struct name_queue *queue = queue_find(broker->waiting, name);
	struct name_wait *wait = queue && queue->last ? queue->waits : NULL;

	if (!wait)
		return false;
	if (is_too_early(wait)) {
		wait_on(broker->waiting, wait);
		*woken = (struct name_woken){ 0 };
		return true;
	}
	*woken = (struct name_woken){ .session = wait_listener(&wait->wait),
				      .request = wait->wait.key.request,
				      .since = wait->wait.began,
				      .is_newer = wait->wait.kind == &newer_kind };
	if (woken->is_newer)
		woken->newer = wait->newer;
	else
		woken->acquire = wait->acquire;
	CRASH_POINT_PEER(woken->session ? woken->session->pid : 0);
	CRASH_POINT(acquire_woken);
	name_drop(wait);
	return true;
}

bool name_waits_next(struct broker *broker, char name[NAME_SIZE])
{
	struct waiting *waiting = broker->waiting;
	struct name_queue *queue = waiting->waking;
	struct name_wait *last = queue ? queue->last : NULL;
	const struct buffer *buffer;

	if (!queue)
		return false;
	wake_until(waiting, queue, NULL);
	buffer = registry_find(broker->registry, queue->name);
	if (!buffer || buffer->state != BUFFER_LIVE)
		return false;
	wake_until(waiting, queue, last);
	strcpy(name, queue->name);
	return true;
}
