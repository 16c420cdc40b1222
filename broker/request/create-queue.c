/* SPDX-License-Identifier: Apache-2.0 */
/* create-queue.c - see create-queue.h */
#include "create-queue.h"

#include <stdlib.h>
#include <unistd.h>

#include <event2/event.h>
#include <utlist.h>

#include "broker/base/context.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/memory/jobs.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/error.h"

/* Milliseconds before a question to a device how much memory it has free: the first pause, and the longest. */
#define LOOK_MS     100
#define LOOK_MAX_MS 1000

/*
 * Largest number of creates of a queue, from the oldest on, that are looked at to find the next to try, or whether a
 * new create must wait. Bounds the cost.
 */
#define PASS_MAX 64

struct queue_key {
	uint32_t device;
	uid_t    uid;
};

_Static_assert(sizeof(struct queue_key) == 8, "keys are compared as bytes: no padding");

/* The creates of one user that wait for memory of one device. Exists while at least one waits. */
struct create_queue {
	struct queue_key     key;
	struct create_waits *among; /* all queues of the device */
	struct create_wait  *waits; /* list of the creates, the oldest first */
	struct create_wait  *trying; /* the create of the list `waits` that tries to get its memory now; NULL: none */
	uint64_t             woken; /* value of creates->wakes when create_wake() last looked at this queue */
	UT_hash_handle       hh;    /* handle in the hash table creates->by_key */
	struct create_queue *prev, *next; /* links in the list among->queues */
};

struct create_wait {
	struct wait                wait;  /* must be the first member, because create_end() casts its address */
	struct create_queue       *queue;
	uint64_t                   span;  /* bytes of memory that the create needs */
	const struct create_hooks *hooks;
	void                      *context;
	struct create_wait        *prev, *next; /* links in the list queue->waits */
};

static struct create_queue *queue_find(const struct broker *broker, unsigned device, uid_t uid)
{
	struct queue_key key = { .device = device, .uid = uid };
	struct create_queue *queue;

	HASH_FIND(hh, broker->creates->by_key, &key, sizeof key, queue);
	return queue;
}

/* ---- looking for memory that was freed outside the broker ---- */

/* Sets the timer's interval. Returns -1 if there is no memory; a timer that runs needs none. */
static int look_every(struct create_waits *waits)
{
	struct timeval pause = { .tv_sec = waits->pause_ms / 1000, .tv_usec = waits->pause_ms % 1000 * 1000 };

	return event_add(waits->look, &pause);
}

static void looked(struct job *job)
{
	struct broker *broker = job->context;
	struct create_waits *waits = &broker->creates->device[job->order.device];

	if (!job->outcome.error)
		pool_told(broker, job->order.device, job->outcome.room);
	free(job);
	waits->asked = false;
	waits->pause_ms = 2 * waits->pause_ms < LOOK_MAX_MS ? 2 * waits->pause_ms : LOOK_MAX_MS;
	if (waits->look)
		look_every(waits);
	create_wake(broker, waits->device);
	broker_changed(broker); /* a stopping broker checks whether it is done, and this job may have been its last */
}

/*
 * Asks the device how much memory it has free. Asks nothing if the device, which may hang, has not answered the last
 * question yet, or if there is no memory for the job.
 */
static void on_look(evutil_socket_t fd, short what, void *argument)
{
	struct create_waits *waits = argument;
	struct job *job = waits->asked ? NULL : calloc(1, sizeof *job);

	(void)fd;
	(void)what;
	if (!job)
		return;
	job->order.kind = ORDER_ROOM;
	job->order.device = waits->device;
	job->order.uid = geteuid();
	job->done = looked;
	job->context = waits->broker;
	waits->asked = true;
	jobs_submit(waits->broker->jobs, job);
}

static void look_end(struct create_waits *waits)
{
	event_free(waits->look);
	waits->look = NULL;
}

/*
 * Starts the timer by which the device is asked at intervals for its free memory, unless the timer runs. Returns -1 if
 * there is no memory for the timer.
 */
static int look_begin(struct broker *broker, unsigned device)
{
	struct create_waits *waits = &broker->creates->device[device];

	if (waits->look)
		return 0;
	waits->broker = broker;
	waits->device = device;
	waits->pause_ms = LOOK_MS;
	waits->look = event_new(broker->base, -1, EV_PERSIST, on_look, waits);
	if (!waits->look)
		return -1;
	if (!look_every(waits))
		return 0;
	look_end(waits);
	return -1;
}

/* ---- the queues ---- */

static struct create_queue *queue_new(struct broker *broker, unsigned device, uid_t uid)
{
	struct create_waits *waits = &broker->creates->device[device];
	struct create_queue *queue = calloc(1, sizeof *queue);

	if (!queue)
		return NULL;
	queue->key = (struct queue_key){ .device = device, .uid = uid };
	queue->among = waits;
	if (look_begin(broker, device))
		goto free_queue;
	HASH_ADD(hh, broker->creates->by_key, key, sizeof queue->key, queue);
	if (!table_added(queue))
		goto end_look;
	DL_APPEND(waits->queues, queue);
	return queue;
end_look:
	if (!waits->queues)
		look_end(waits);
free_queue:
	free(queue);
	return NULL;
}

static void queue_put(struct create_queue *queue)
{
	struct create_waits *waits = queue->among;

	if (queue->waits)
		return;
	HASH_DEL(waits->broker->creates->by_key, queue);
	DL_DELETE(waits->queues, queue);
	if (!waits->queues)
		look_end(waits);
	free(queue);
}

static bool may_be_passed(const struct create_wait *wait)
{
	const struct create_queue *queue = wait->queue;

	return pool_needs_others(queue->among->broker, queue->key.device, queue->key.uid, wait->span);
}

/*
 * Returns the create of the queue to try next: the first for which there may be enough memory, if creates of the user
 * may pass all that are before it. NULL: none.
 */
static struct create_wait *queue_next(const struct create_queue *queue)
{
	struct create_wait *wait = queue->waits;

	for (unsigned i = 0; wait && i < PASS_MAX; i++, wait = wait->next) {
		if (pool_may_have_room(queue->among->broker, queue->key.device, wait->span))
			return wait;
		if (!may_be_passed(wait))
			return NULL;
	}
	return NULL;
}

static void try(struct create_wait *wait)
{
	wait->queue->trying = wait;
	wait->hooks->retry(wait->context);
}

/*
 * Reads the list of queues from its beginning after each try, because a try may end at once and free its queue.
 * create_queue.woken keeps this call from looking at a queue twice.
 */
void create_wake(struct broker *broker, unsigned device)
{
	uint64_t wake = ++broker->creates->wakes;
	struct create_queue *queue = broker->creates->device[device].queues;
	struct create_wait *wait;

	usages_write_off_late(&broker->memory->usages);
	while (queue) {
		wait = queue->trying || queue->woken >= wake ? NULL : queue_next(queue);
		if (queue->woken < wake)
			queue->woken = wake;
		if (!wait) {
			queue = queue->next;
			continue;
		}
		try(wait);
		queue = broker->creates->device[device].queues;
	}
}

bool create_must_wait(const struct broker *broker, unsigned device, uid_t uid)
{
	const struct create_queue *queue = queue_find(broker, device, uid);
	const struct create_wait *wait = queue ? queue->waits : NULL;

	for (unsigned i = 0; wait && i < PASS_MAX; i++, wait = wait->next)
		if (!may_be_passed(wait))
			return true;
	return wait;
}

/* ---- a wait ---- */

/* Moves a user's queue behind those of the other users. Called when the first create of the queue ends. */
static void queue_advance(struct create_queue *queue)
{
	DL_DELETE(queue->among->queues, queue);
	DL_APPEND(queue->among->queues, queue);
}

static void wait_drop(struct create_wait *wait)
{
	struct create_queue *queue = wait->queue;

	wait_leave(&wait->wait);
	if (wait == queue->waits)
		queue_advance(queue);
	DL_DELETE(queue->waits, wait);
	if (queue->trying == wait)
		queue->trying = NULL;
	queue_put(queue);
	free(wait);
}

/*
 * Ends a wait without memory. If the create is trying to get its memory, only marks the wait as over, and leaves the
 * end to create_wait_failed() or create_wait_over(). The caller then has later creates woken, which may need less
 * memory.
 */
static void wait_expire(struct create_wait *wait)
{
	const struct create_hooks *hooks = wait->hooks;
	void *context = wait->context;

	wait_leave(&wait->wait);
	if (wait->queue->trying == wait)
		return;
	wait_drop(wait);
	hooks->expire(context);
}

/*
 * The function end() of struct wait_kind. If the session ends, which may end many creates, does not wake other creates:
 * create_wake_forgotten() wakes them when all creates of the session have ended.
 */
static void create_end(struct wait *wait, bool expired)
{
	struct create_waits *waits = ((struct create_wait *)wait)->queue->among;

	if (expired) {
		create_wait_abandon((struct create_wait *)wait);
		return;
	}
	wait_expire((struct create_wait *)wait);
	waits->broker->creates->forgotten |= 1ull << waits->device;
}

static void create_show(const struct wait *wait, struct wait_shown *shown)
{
	const struct create_wait *create = (const struct create_wait *)wait;
	const struct buffer *buffer = create->hooks->buffer ? create->hooks->buffer(create->context) : NULL;

	*shown = (struct wait_shown){ .what = WAIT_CREATE,
				      .name = buffer ? buffer->name : "",
				      .generation = buffer ? buffer->serial : 0,
				      .bytes = create->span,
				      .device = create->queue->key.device };
}

int create_wait(struct broker *broker, const struct allocation *allocation, struct wait_key key, int timeout_ms,
		const struct create_hooks *hooks, void *context, struct create_wait **result)
{
	static const struct wait_kind kind = { .end = create_end, .show = create_show };
	uid_t uid = allocation->slab.kind.owner;
	struct create_wait *wait = calloc(1, sizeof *wait);
	int error;

	if (!wait)
		return error_set(-ENOMEM, "the broker is out of memory");
	*wait = (struct create_wait){ .span = allocation->span, .hooks = hooks, .context = context };
	error = wait_begin(&wait->wait, &kind, broker, key, timeout_ms);
	if (error)
		goto free_wait;
	wait->queue = queue_find(broker, allocation->device, uid);
	if (!wait->queue)
		wait->queue = queue_new(broker, allocation->device, uid);
	if (!wait->queue) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto leave;
	}
	DL_APPEND(wait->queue->waits, wait);
	CRASH_POINT(create_waits);
	*result = wait;
	return 0;
leave:
	wait_leave(&wait->wait);
free_wait:
	free(wait);
	return error;
}

/*
 * Also has another create of the queue try, because memory that is too little for this create may be enough for
 * another.
 */
void create_wait_failed(struct create_wait *wait)
{
	struct create_queue *queue = wait->queue;
	struct create_wait *next;

	queue->trying = NULL;
	if (!wait->wait.waiter) {
		create_wait_abandon(wait);
		return;
	}
	next = queue_next(queue);
	if (next && next != wait)
		try(next);
}

void create_wait_over(struct create_wait *wait)
{
	struct broker *broker = wait->queue->among->broker;
	unsigned device = wait->queue->key.device;

	wait_drop(wait);
	create_wake(broker, device);
}

void create_wait_abandon(struct create_wait *wait)
{
	struct create_waits *waits = wait->queue->among;

	wait_expire(wait);
	create_wake(waits->broker, waits->device);
}

_Static_assert(DEVICE_MAX <= 64, "a device is a bit");

void create_wake_forgotten(struct broker *broker)
{
	uint64_t devices = broker->creates->forgotten;

	broker->creates->forgotten = 0;
	for (; devices; devices &= devices - 1)
		create_wake(broker, (unsigned)__builtin_ctzll(devices));
}
