/* SPDX-License-Identifier: Apache-2.0 */
/* provision.c - see provision.h */
#include "provision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "broker/base/context.h"
#include "broker/memory/allocation.h"
#include "broker/memory/jobs.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "create-queue.h"

/* largest number of attempts to get spare memory before a wait in the queue; other provisions may take it each time */
#define ROUNDS 2

/* Returns the pid of the session that asked for the memory, which the crash points need. 0: there is none. */
static pid_t peer_pid(const struct provision *provision)
{
	const struct session *session = session_find(provision->broker, provision->session);

	return session ? session->pid : 0;
}

static void leave_queue(struct provision *provision)
{
	if (provision->wait)
		create_wait_over(provision->wait);
	provision->wait = NULL;
}

static void succeed(struct provision *provision)
{
	struct broker *broker = provision->broker;

	broker->counters.allocations_made++;
	broker->counters.bytes_made += provision->allocation->span;
	provision->done(provision, 0, NULL);
}

static void expire(void *context)
{
	struct provision *provision = context;

	if (provision->broker->stopping)
		provision->done(provision, -ECONNREFUSED, "the broker is stopping: no memory is made any more");
	else
		provision->done(provision, -ENOMEM, "the device has no memory for this buffer, and none came back in "
						    "time: unlink buffers, return leases, or ask for less");
}

static void submit(struct provision *provision);
static void retry(void *context);

static const struct buffer *buffer_of(const void *context)
{
	return ((const struct provision *)context)->buffer;
}

/* Returns true if the session that asked still waits for the answer. Always true for the broker itself. */
static bool is_awaited(const struct provision *provision)
{
	const struct session *session = session_find(provision->broker, provision->session);

	return !provision->session || (session && session->state == SESSION_OPEN);
}

/*
 * Puts the provision into the queue for memory. If it is there, ends its try and, if its wait has ended meanwhile, the
 * provision. Returns false if the provision may not wait in the queue, or the broker is out of memory.
 */
static bool waits(struct provision *provision)
{
	static const struct create_hooks hooks = { retry, expire, buffer_of };

	provision->rounds = 0;
	if (provision->wait) {
		create_wait_failed(provision->wait);
		return true;
	}
	return provision->timeout_ms && !provision->broker->stopping && is_awaited(provision) &&
	       !create_wait(provision->broker, provision->allocation,
			    (struct wait_key){ provision->session, provision->request }, provision->timeout_ms, &hooks,
			    provision, &provision->wait);
}

static void again(void *context)
{
	submit(context);
}

/*
 * Has spare memory given back to the device for this provision. Returns true if the memory that is on its way back to
 * the device will be enough; again() is called when it has arrived.
 */
static bool finds_room(struct provision *provision)
{
	const struct allocation *allocation = provision->allocation;

	provision->shortage.over = again;
	provision->shortage.context = provision;
	return !provision->broker->stopping && provision->rounds++ < ROUNDS &&
	       pool_make_room(provision->broker, allocation->device, allocation->slab.kind.owner, allocation->span,
			      &provision->shortage);
}

static void on_allocated(struct job *job)
{
	struct provision *provision = job->context;
	struct broker *broker = provision->broker;

	CRASH_POINT_PEER(peer_pid(provision));
	if (job->outcome.error == -ENOMEM) {
		pool_refused(broker, job->order.device, job->order.size, job->outcome.room);
		if (finds_room(provision) || waits(provision))
			goto free_job;
	}
	if (job->outcome.error == -ENOBUFS) /* the owner is out of memory, and no device is */
		job->outcome.error = -ENOMEM;
	if (!job->outcome.error)
		pool_made(broker, job->order.device, job->order.size);
	else if (job->outcome.error != -ENOMEM)
		pool_device_failed(broker, job, "make", "");
	leave_queue(provision);
	if (!job->outcome.error) {
		allocation_made(provision->allocation, job);
		succeed(provision);
		return;
	}
	provision->done(provision, job->outcome.error, job->outcome.text);
free_job:
	explicit_bzero(&job->outcome.handle, sizeof job->outcome.handle);
	free(job);
}

/*
 * Takes pooled memory of the owner for the allocation, if the pool has memory of the same kind and size. Returns true
 * if it does. A private allocation takes none: processes that mapped pooled memory before may still have its handle,
 * and might not be allowed to map a private allocation.
 */
static bool recycles(struct provision *provision)
{
	struct allocation *allocation = provision->allocation;
	struct allocation *pooled =
		allocation->is_private ? NULL : pool_take(provision->broker, &allocation->slab.kind, allocation->span);

	if (!pooled)
		return false;
	allocation_adopt(provision->broker->tracking, allocation, pooled);
	leave_queue(provision);
	provision->broker->counters.buffers_recycled++;
	succeed(provision);
	return true;
}

static void submit(struct provision *provision)
{
	struct allocation *allocation = provision->allocation;
	struct job *job;

	if (recycles(provision))
		return;
	job = calloc(1, sizeof *job);
	if (!job) {
		leave_queue(provision);
		provision->done(provision, -ENOMEM, "the broker is out of memory");
		return;
	}
	job->order.kind = ORDER_ALLOCATE;
	job->order.device = allocation->device;
	job->order.uid = allocation->slab.kind.owner;
	job->order.size = allocation->span;
	job->order.exported = allocation->slab.kind.exported;
	job->done = on_allocated;
	job->context = provision;
	jobs_submit(provision->broker->jobs, job);
	allocation->memory = job->order.memory;
	tracked_changed(provision->broker->tracking, &allocation->tracked);
	CRASH_POINT(create_submitted);
}

/* Asks the device for memory only if it may have enough free. Otherwise has spare memory given back first. */
static void retry(void *context)
{
	struct provision *provision = context;
	const struct allocation *allocation = provision->allocation;

	CRASH_POINT_PEER(peer_pid(provision));
	CRASH_POINT(create_retried);
	if (recycles(provision))
		return;
	if (pool_has_room(provision->broker, allocation->device, allocation->span))
		submit(provision);
	else if (!finds_room(provision))
		waits(provision);
}

int provision_begin(struct provision *provision)
{
	const struct allocation *allocation = provision->allocation;
	bool must_wait = create_must_wait(provision->broker, allocation->device, allocation->slab.kind.owner);

	if (must_wait && !provision->timeout_ms)
		return error_set(-ENOMEM, "others of this user wait for memory of device %u: wait with a timeout",
				 allocation->device);
	if (!must_wait || !waits(provision))
		submit(provision);
	return 0;
}

/* Sets the provision's timeout to 0, so that a try that is under way does not wait in the queue again if it fails. */
void provision_abandon(struct provision *provision)
{
	provision->timeout_ms = 0;
	if (provision->wait)
		create_wait_abandon(provision->wait);
}
