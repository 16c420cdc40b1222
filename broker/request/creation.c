/* SPDX-License-Identifier: Apache-2.0 */
/* creation.c - see creation.h */
#include "creation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/values.h"
#include "broker/memory/allocation.h"
#include "broker/memory/pool.h"
#include "broker/memory/slab.h"
#include "broker/memory/workers.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/size.h"
#include "create-queue.h"
#include "inquiry.h"
#include "manage.h"
#include "waiting.h"

#define KNOWN_FLAGS (GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_DEDICATED | GPUB_SAME_ADDRESS)

#define ROUNDS 2 /* a create has memory given back for it so often in a row: others may take it first each time */

/* A create on its way through the device thread. */
struct creation {
	struct broker *broker;
	struct buffer *buffer;
	struct create_wait *wait; /* its place in the queue for memory; NULL: it has none */
	struct shortage shortage; /* while it waits for what is on its way back */
	unsigned rounds;          /* how often it did, since it was refused first */
	uint64_t began;           /* its request was received then; 0: it is the broker's own */
	struct creation_order order;
};

/* For the crash points: the process that the loop works for. */
static pid_t creation_pid(const struct creation *creation)
{
	const struct session *session = session_find(creation->broker, creation->order.session);

	return session ? session->pid : 0;
}

/* Of a session that is gone by now, its number is known, and whose the buffer would be. */
static void creation_tell(const struct creation *creation, const struct session *session, int error, const char *text)
{
	const struct buffer *buffer = creation->buffer;
	struct broker_event event = { .kind = error ? EVENT_CREATE_REFUSED : EVENT_CREATE,
				      .error = error,
				      .bytes = buffer->size,
				      .detail = buffer->mode,
				      .name = buffer->name,
				      .text = text };

	if (session)
		event.actor = SESSION_PARTY(session);
	else if (creation->order.session)
		event.actor = (struct event_party){ .session = creation->order.session, .uid = buffer->owner };
	event_happened(creation->broker, &event);
}

static void creation_answer(struct creation *creation, struct session *session, int error, const char *text)
{
	broker_publish(creation->broker);
	if (creation->order.done)
		creation->order.done(creation->order.context, error, text);
	else if (session && error)
		session_refuse(session, creation->order.request, error, text);
	else if (session)
		session_done(session, creation->order.request, -1);
	free(creation);
}

static void creation_fail(struct creation *creation, int error, const char *text)
{
	struct session *session = session_find(creation->broker, creation->order.session);

	creation_tell(creation, session, error, text);
	registry_abandon(creation->broker->registry, creation->buffer);
	broker_changed(creation->broker);
	creation_answer(creation, session, error, text);
}

static void creation_expire(void *context)
{
	creation_fail(context, -ENOMEM, "the device has no memory for this buffer, and none came back in time: "
					"unlink buffers, return leases, or ask for less");
}

/* Its creator may have gone, or the broker may be stopping, since the job was sent to the device. */
static bool creation_orphaned(const struct creation *creation, const struct session *session)
{
	if (creation->broker->stopping)
		return true;
	return creation->buffer->flags & GPUB_EPHEMERAL && creation->order.session && (!session || session->ended);
}

/* The buffer is LIVE. */
static void creation_succeed(struct creation *creation)
{
	struct broker *broker = creation->broker;
	struct buffer *buffer = creation->buffer;
	struct session *session = session_find(broker, creation->order.session);
	bool orphaned = creation_orphaned(creation, session);

	broker->counters.buffers_created++;
	histograms_count(&broker->histograms, HISTOGRAM_CREATE, creation->began);
	CRASH_POINT(create_live);
	creation_tell(creation, session, 0, NULL);
	creation_answer(creation, session, 0, NULL);
	CRASH_POINT(create_done);
	if (orphaned)
		manage_unlink(broker, buffer);
	else
		waiting_wake_name(broker, buffer->name);
	broker_changed(broker);
}

/* The memory is in the allocation. */
static void creation_made(struct creation *creation)
{
	struct broker *broker = creation->broker;
	struct buffer *buffer = creation->buffer;

	CRASH_POINT(create_made);
	broker->counters.allocations_made++;
	broker->counters.bytes_made += buffer->allocation->span;
	registry_live(broker->registry, buffer);
	creation_succeed(creation);
}

static void creation_submit(struct creation *creation);
static void creation_retry(void *context);

static const struct buffer *creation_buffer(const void *context)
{
	return ((const struct creation *)context)->buffer;
}

/* True: it is in the queue, which decides how it goes on. */
static bool creation_waits(struct creation *creation)
{
	static const struct create_hooks hooks = { creation_retry, creation_expire, creation_buffer };

	creation->rounds = 0;
	if (creation->wait) {
		create_wait_failed(creation->wait);
		return true;
	}
	return creation->order.timeout_ms && !creation->broker->stopping &&
	       !create_wait(creation->broker, creation->buffer->allocation, creation->order.session,
			    creation->order.timeout_ms, &hooks, creation, &creation->wait);
}

static void creation_leave_queue(struct creation *creation)
{
	if (creation->wait)
		create_wait_over(creation->wait);
	creation->wait = NULL;
}

static void creation_again(void *context)
{
	creation_submit(context);
}

/* True: it is submitted again when memory that was kept, or is on its way back, is with the device. */
static bool creation_finds_room(struct creation *creation)
{
	const struct buffer *buffer = creation->buffer;
	const struct allocation *allocation = buffer->allocation;

	creation->shortage.over = creation_again;
	creation->shortage.context = creation;
	return !creation->broker->stopping && creation->rounds++ < ROUNDS &&
	       pool_make_room(creation->broker, allocation->device, buffer->owner, allocation->span, &creation->shortage);
}

static void creation_done(struct job *job)
{
	struct creation *creation = job->context;
	struct broker *broker = creation->broker;

	CRASH_POINT_PEER(creation_pid(creation));
	if (job->error == -ENOMEM) {
		pool_refused(broker, job->device, job->span, job->room);
		if (creation_finds_room(creation) || creation_waits(creation))
			goto free_job;
	}
	if (!job->error)
		pool_made(broker, job->device, job->span);
	else if (job->error != -ENOMEM)
		pool_device_failed(broker, job, "make", "");
	creation_leave_queue(creation);
	if (!job->error) {
		allocation_made(creation->buffer->allocation, job);
		creation_made(creation);
		return;
	}
	creation_fail(creation, job->error, job->text);
free_job:
	explicit_bzero(&job->handle, sizeof job->handle);
	free(job);
}

/* True: its owner's pooled memory serves it. */
static bool creation_recycles(struct creation *creation)
{
	struct allocation *allocation = creation->buffer->allocation;
	struct allocation *pooled = pool_take(creation->broker, &allocation->slab.kind, allocation->span);

	if (!pooled)
		return false;
	allocation_adopt(allocation, pooled);
	creation_leave_queue(creation);
	creation->broker->counters.buffers_recycled++;
	creation_made(creation);
	return true;
}

static void creation_submit(struct creation *creation)
{
	struct allocation *allocation = creation->buffer->allocation;
	struct job *job;

	if (creation_recycles(creation))
		return;
	job = calloc(1, sizeof *job);
	if (!job) {
		creation_leave_queue(creation);
		creation_fail(creation, -ENOMEM, "the broker is out of memory");
		return;
	}
	job->kind = JOB_ALLOCATE;
	job->device = allocation->device;
	job->uid = creation->buffer->owner;
	job->span = allocation->span;
	job->exported = allocation->slab.kind.exported;
	job->done = creation_done;
	job->context = creation;
	workers_submit(creation->broker->workers, job);
	CRASH_POINT(create_submitted);
}

/* The device is not asked for what it is known not to have: it has some given back first. */
static void creation_retry(void *context)
{
	struct creation *creation = context;
	const struct allocation *allocation = creation->buffer->allocation;

	CRASH_POINT_PEER(creation_pid(creation));
	CRASH_POINT(create_retried);
	if (creation_recycles(creation))
		return;
	if (pool_has_room(creation->broker, allocation->device, allocation->span))
		creation_submit(creation);
	else if (!creation_finds_room(creation))
		creation_waits(creation);
}

/* Validates what can be known without the device; fills spec->span. */
static int spec_check(struct broker *broker, struct buffer_spec *spec)
{
	const struct board_header *board = broker->board->header;
	char asked[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];
	int error;

	if (broker->stopping)
		return error_set(-ECONNREFUSED, "the broker is stopping: no buffers are made any more");
	if (spec->flags & ~KNOWN_FLAGS || spec->mode & ~0777u)
		return error_set(-EINVAL, "unknown flags or mode bits: use GPUB_EPHEMERAL, GPUB_TIMELINE, GPUB_DEDICATED, "
					  "GPUB_SAME_ADDRESS, and a mode up to 0777");
	if (spec->device >= board->devices)
		return error_set(-ENODEV, "there is no device %u: the broker has %u", spec->device, board->devices);
	if (!spec->size)
		return error_set(-EINVAL, "a buffer has at least 1 byte");
	error = name_check(spec->name);
	if (!error)
		error = layout_check(&spec->layout);
	if (error)
		return error;
	if (layout_bytes(&spec->layout) > spec->size)
		return error_set(-EINVAL, "the layout needs %llu bytes, and the buffer has %llu",
				 (unsigned long long)layout_bytes(&spec->layout), (unsigned long long)spec->size);
	slab_shape(spec->size, broker->device->margin, board->device[spec->device].granule, &spec->range, &spec->span);
	spec->exported = spec->flags & GPUB_SAME_ADDRESS ? EXPORT_VMM : broker->memory->exported;
	if (spec->flags & (GPUB_DEDICATED | GPUB_SAME_ADDRESS))
		spec->range = spec->span = size_round_up(spec->size, board->device[spec->device].granule);
	if (!spec->span || spec->span > board->device[spec->device].memory)
		return error_set(-ENOMEM, "the buffer of %s is larger than the whole device, which has %s: ask for less",
				 size_format(spec->size, asked), size_format(board->device[spec->device].memory, text));
	return 0;
}

static int creation_timeline(struct broker *broker, const struct buffer_spec *spec, struct session *creator,
			     struct buffer *buffer)
{
	struct timeline_place place = { .end = &broker->board->board.ends[buffer->place], .serial = buffer->serial };
	int error = charge_take(&buffer->descriptors, broker->accounting, spec->owner, RESOURCE_DESCRIPTORS,
				TIMELINE_DESCRIPTORS);

	if (!error)
		error = timeline_create(creator ? &creator->timelines : NULL, &place, &buffer->timeline);
	if (!error)
		inquiry_watch(broker, buffer->timeline);
	return error;
}

int creation_begin(struct broker *broker, struct buffer_spec *spec, const struct creation_order *order)
{
	struct session *creator = session_find(broker, order->session);
	struct creation *creation;
	struct buffer *buffer;
	bool must_wait;
	int error = spec_check(broker, spec);

	if (error)
		return error;
	creation = malloc(sizeof *creation);
	if (!creation)
		return error_set(-ENOMEM, "the broker is out of memory");
	spec->ephemerals = creator ? &creator->ephemerals : NULL;
	error = registry_reserve(broker->registry, spec, &buffer);
	if (error)
		goto free_creation;
	if (spec->flags & GPUB_TIMELINE)
		error = creation_timeline(broker, spec, creator, buffer);
	if (error)
		goto abandon;
	must_wait = !allocation_is_made(buffer->allocation) && create_must_wait(broker, spec->device, spec->owner);
	if (must_wait && !order->timeout_ms) {
		error = error_set(-ENOMEM, "others of this user wait for memory of device %u: wait with a timeout",
				  spec->device);
		goto abandon;
	}
	CRASH_POINT(create_reserved);
	*creation = (struct creation){ .broker = broker,
					.buffer = buffer,
					.began = order->session ? broker->received : 0,
					.order = *order };
	if (allocation_is_made(buffer->allocation)) {
		broker->counters.buffers_recycled++;
		registry_live(broker->registry, buffer);
		creation_succeed(creation);
	} else if (!must_wait || !creation_waits(creation)) {
		creation_submit(creation);
	}
	return 0;
abandon:
	registry_abandon(broker->registry, buffer);
free_creation:
	free(creation);
	return error;
}

int broker_create(struct broker *broker, const char *name, const struct amount *amount, unsigned flags, unsigned mode,
		  void (*done)(void *context, int error, const char *text), void *context)
{
	struct creation_order order = { .done = done, .context = context };
	struct buffer_spec spec = { .name = name,
				    .size = amount->size,
				    .device = amount->device,
				    .owner = geteuid(),
				    .group = getegid(),
				    .mode = mode,
				    .flags = flags,
				    .layout = amount->layout };

	return creation_begin(broker, &spec, &order);
}
