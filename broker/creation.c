/* SPDX-License-Identifier: Apache-2.0 */
/* creation.c - see creation.h */
#include "creation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/size.h"
#include "request.h"
#include "timeline.h"

#define KNOWN_FLAGS (GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_ALONE)

/* A create on its way through the device thread. */
struct creation {
	struct broker *broker;
	struct buffer *buffer;
	struct create_wait *wait; /* its place in line for memory; NULL: it stands in none */
	bool is_short;            /* the device had no memory when it was asked first */
	struct shortage shortage; /* since then */
	struct creation_order order;
};

/* For the crash points: whom the loop is busy with. */
static pid_t creation_pid(const struct creation *creation)
{
	const struct session *session = session_find(creation->broker, creation->order.session);

	return session ? session->pid : 0;
}

static void creation_answer(struct creation *creation, int error, const char *text)
{
	struct session *session = session_find(creation->broker, creation->order.session);

	if (creation->order.done)
		creation->order.done(creation->order.context, error, text);
	else if (session && error)
		session_refuse(session, creation->order.request, error, text);
	else if (session)
		request_done(session, creation->order.request, -1);
	free(creation);
}

static void creation_fail(struct creation *creation, int error, const char *text)
{
	registry_abandon(&creation->broker->registry, creation->buffer);
	broker_changed(creation->broker);
	creation_answer(creation, error, text);
}

static void creation_expire(void *context)
{
	creation_fail(context, -ENOMEM, "the device has no memory for this buffer, and none came back in time: "
					"unlink buffers, return leases, or ask for less");
}

/* Its creator may be gone, or over and only waited for, or the broker be stopping, since the job was sent to the device. */
static bool creation_orphaned(const struct creation *creation)
{
	const struct session *session = session_find(creation->broker, creation->order.session);

	if (creation->broker->stopping)
		return true;
	return creation->buffer->flags & GPUB_EPHEMERAL && creation->order.session && (!session || session->over);
}

/* The buffer is LIVE. */
static void creation_succeed(struct creation *creation)
{
	struct broker *broker = creation->broker;
	struct buffer *buffer = creation->buffer;
	bool orphaned = creation_orphaned(creation);

	broker->counters.buffers_created++;
	CRASH_POINT(create_live);
	creation_answer(creation, 0, NULL);
	CRASH_POINT(create_done);
	if (orphaned)
		broker_unlink(broker, buffer);
	else
		waiting_wake_name(broker, buffer->name);
	broker_changed(broker);
}

/* The memory is there; the job stays with the allocation, whose release it will be. */
static void creation_made(struct creation *creation, struct job *job)
{
	struct broker *broker = creation->broker;
	struct buffer *buffer = creation->buffer;

	CRASH_POINT(create_made);
	broker->counters.allocations_made++;
	broker->counters.bytes_made += job->span;
	registry_ready(&broker->registry, buffer, job->ptr, &job->handle);
	explicit_bzero(&job->handle, sizeof job->handle);
	buffer->allocation->release_job = job;
	creation_succeed(creation);
}

static void creation_submit(struct creation *creation);

static void creation_retry(void *context)
{
	CRASH_POINT_PEER(creation_pid(context));
	CRASH_POINT(create_retried);
	creation_submit(context);
}

/* True: it stands in line, and the line decides how it goes on. */
static bool creation_waits(struct creation *creation)
{
	static const struct create_hooks hooks = { creation_retry, creation_expire };

	if (creation->wait) {
		waiting_create_failed(creation->wait);
		return true;
	}
	return creation->order.timeout_ms && !creation->broker->stopping &&
	       !waiting_create(creation->broker, creation->buffer->allocation->device, creation->order.session,
			       creation->order.timeout_ms, &hooks, creation, &creation->wait);
}

static void creation_leave_line(struct creation *creation)
{
	if (creation->wait)
		waiting_create_over(creation->wait);
	creation->wait = NULL;
}

/*
 * What is kept for later is there for now, and so is, in a while, what is on its way back to the device. Others may free
 * for ever: what they let go of later is not waited for. Idle memory takes as long as those who map it need to close it.
 */
static bool creation_finds_more(struct creation *creation)
{
	struct broker *broker = creation->broker;
	unsigned device = creation->buffer->allocation->device;

	registry_give_up_idle(&broker->registry, device, ANY_OWNER);
	if (!creation->is_short)
		pool_flush(broker, device, &creation->shortage);
	creation->is_short = true;
	return creation->shortage.left;
}

static void creation_seeks_no_more(struct creation *creation)
{
	if (creation->is_short)
		pool_suffices(creation->broker, creation->buffer->allocation->device, &creation->shortage);
	creation->is_short = false;
}

static void creation_done(struct job *job)
{
	struct creation *creation = job->context;

	CRASH_POINT_PEER(creation_pid(creation));
	if (job->error == -ENOMEM && creation_finds_more(creation)) {
		workers_submit(&creation->broker->workers, job); /* in turn with the releases */
		return;
	}
	creation_seeks_no_more(creation);
	if (job->error == -ENOMEM && creation_waits(creation))
		goto free_job;
	creation_leave_line(creation);
	if (!job->error) {
		creation_made(creation, job);
		return;
	}
	creation_fail(creation, job->error, job->text);
free_job:
	explicit_bzero(&job->handle, sizeof job->handle);
	free(job);
}

static void creation_submit(struct creation *creation)
{
	struct allocation *allocation = creation->buffer->allocation;
	struct job *job = pool_take(creation->broker, &allocation->slab.kind, allocation->span);

	if (job) {
		creation_leave_line(creation);
		creation->broker->counters.buffers_recycled++;
		creation_made(creation, job);
		return;
	}
	job = calloc(1, sizeof *job);
	if (!job) {
		creation_leave_line(creation);
		creation_fail(creation, -ENOMEM, "the broker is out of memory");
		return;
	}
	job->kind = JOB_ALLOCATE;
	job->device = allocation->device;
	job->uid = creation->buffer->owner;
	job->span = allocation->span;
	job->done = creation_done;
	job->context = creation;
	workers_submit(&creation->broker->workers, job);
	CRASH_POINT(create_submitted);
}

/* Validates what can be known without the device; fills spec->span. */
static int spec_check(struct broker *broker, struct buffer_spec *spec, int timeout_ms)
{
	const struct board_header *board = broker->board.header;
	char asked[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];
	int error;

	if (broker->stopping)
		return error_set(-ECONNREFUSED, "the broker is stopping: no buffers are made any more");
	if (spec->flags & ~KNOWN_FLAGS || spec->mode & ~0777u)
		return error_set(-EINVAL, "unknown flags or mode bits: use GPUB_EPHEMERAL, GPUB_TIMELINE, GPUB_ALONE, "
					  "and a mode up to 0777");
	if (spec->device >= board->devices)
		return error_set(-ENODEV, "there is no device %u: the broker has %u", spec->device, board->devices);
	if (!spec->size)
		return error_set(-EINVAL, "a buffer has at least 1 byte");
	error = name_check(spec->name);
	if (error)
		return error;
	slab_shape(spec->size, broker->device->margin, board->device[spec->device].granule, &spec->range, &spec->span);
	if (spec->flags & GPUB_ALONE)
		spec->range = spec->span = size_round_up(spec->size, board->device[spec->device].granule);
	if (!spec->span || spec->span > board->device[spec->device].memory)
		return error_set(-ENOMEM, "the buffer of %s is larger than the whole device, which has %s: ask for less",
				 size_format(spec->size, asked), size_format(board->device[spec->device].memory, text));
	if (!timeout_ms && waiting_for_memory(broker, spec->device, spec->owner))
		return error_set(-ENOMEM, "others of this user stand in line for memory of device %u: wait with a timeout",
				 spec->device);
	return 0;
}

static int creation_timeline(struct broker *broker, const struct buffer_spec *spec, struct session *creator,
			     struct buffer *buffer)
{
	struct timeline_place place = { .end = &broker->board.board.ends[buffer->place], .serial = buffer->serial };
	int error = charge_take(&buffer->descriptors, &broker->accounting, spec->owner, RESOURCE_DESCRIPTORS,
				TIMELINE_DESCRIPTORS);

	return error ? error : timeline_create(creator ? &creator->timelines : NULL, &place, &buffer->timeline);
}

int creation_begin(struct broker *broker, struct buffer_spec *spec, const struct creation_order *order)
{
	struct session *creator = session_find(broker, order->session);
	struct creation *creation;
	struct buffer *buffer;
	int error = spec_check(broker, spec, order->timeout_ms);

	if (error)
		return error;
	creation = malloc(sizeof *creation);
	if (!creation)
		return error_set(-ENOMEM, "the broker is out of memory");
	spec->ephemerals = creator ? &creator->ephemerals : NULL;
	error = registry_reserve(&broker->registry, spec, &buffer);
	if (error == -EDQUOT)
		registry_give_up_idle(&broker->registry, spec->device, spec->owner);
	if (error)
		goto free_creation;
	if (spec->flags & GPUB_TIMELINE)
		error = creation_timeline(broker, spec, creator, buffer);
	if (error)
		goto abandon;
	CRASH_POINT(create_reserved);
	*creation = (struct creation){ .broker = broker, .buffer = buffer, .order = *order };
	if (buffer->allocation->made) {
		broker->counters.buffers_recycled++;
		registry_live(&broker->registry, buffer);
		creation_succeed(creation);
	} else if (!waiting_for_memory(broker, spec->device, spec->owner) || !creation_waits(creation))
		creation_submit(creation);
	return 0;
abandon:
	registry_abandon(&broker->registry, buffer);
free_creation:
	free(creation);
	return error;
}

int broker_create(struct broker *broker, const char *name, uint64_t size, unsigned device, unsigned flags,
		  unsigned mode, void (*done)(void *context, int error, const char *text), void *context)
{
	struct creation_order order = { .done = done, .context = context };
	struct buffer_spec spec = { .name = name,
				    .size = size,
				    .device = device,
				    .owner = geteuid(),
				    .group = getegid(),
				    .mode = mode,
				    .flags = flags };

	return creation_begin(broker, &spec, &order);
}
