/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c - see resize.h */
#include "resize.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/memory/allocation.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/memory/jobs.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/size.h"
#include "delegation.h"
#include "manage.h"
#include "provision.h"
#include "waking.h"

/* State of a resize, from its request to its answer. Used for a buffer that grows and for one that shrinks. */
struct growth {
	struct broker    *broker;
	/* the buffer to resize. It may lose its name, but is not freed while its allocation is held (memory_hold()) */
	struct buffer    *buffer;
	/* the chunk of memory that the buffer grows by; NULL: the buffer needs no more memory */
	struct allocation *chunk;
	struct provision  provision; /* the request for the chunk's memory */
	uint64_t          size;      /* the new size of the buffer, in bytes */
	uint64_t          session, request; /* id of the session to answer, and number of its request */
	/* milliseconds that the resize may wait in the queue for memory; 0: not at all; below 0: for ever */
	int               timeout_ms;
};

/* ---- the end ---- */

static void resized(struct broker *broker, struct buffer *buffer, uint64_t size, struct event_party actor)
{
	delegation_forget(broker, buffer);
	registry_resize(broker->registry, buffer, size);
	event_happened(broker, &(struct broker_event){
				       .kind = EVENT_RESIZE, .actor = actor, .bytes = size, .name = buffer->name });
	CRASH_POINT(resized);
}

static void growth_answer(struct growth *growth, int error, const char *text)
{
	struct session *session = session_find(growth->broker, growth->session);

	if (session && error)
		session_refuse(session, growth->request, error, text);
	else if (session)
		session_done(session, growth->request, -1);
}

/*
 * Returns a negative errno, and sets *text to its message, if the buffer was unlinked or sealed since the resize began.
 * Otherwise returns 0.
 */
static int growth_may_end(const struct growth *growth, const char **text)
{
	if (growth->buffer->state != BUFFER_LIVE) {
		*text = "the buffer was unlinked meanwhile: nobody can acquire it any more";
		return -ENOENT;
	}
	if (growth->buffer->flags & GPUB_SEALED) {
		*text = "the buffer was sealed meanwhile: it stays as it is";
		return -EROFS;
	}
	return 0;
}

static void growth_end(struct growth *growth, int error, const char *text)
{
	struct broker *broker = growth->broker;
	struct buffer *buffer = growth->buffer;
	const struct session *session = session_find(broker, growth->session);
	int lost = growth_may_end(growth, &text);

	/*
	 * the error of growth_may_end() comes first, because an unlink or a seal also ends the provision, with -ENOMEM
	 */
	error = lost ? lost : error;
	buffer->growing = NULL;
	if (error && growth->chunk)
		memory_not_grown(broker->memory, growth->chunk);
	else if (growth->chunk)
		memory_grown(broker->memory, buffer->allocation, growth->chunk);
	if (!error)
		resized(broker, buffer, growth->size,
			session ? SESSION_PARTY(session) :
				  (struct event_party){ .session = growth->session, .uid = buffer->owner });
	growth_answer(growth, error, text);
	if (!error)
		waking_name(broker, buffer->name);
	broker_changed(broker);
	memory_unhold(broker->memory, buffer->allocation);
	free(growth);
}

/* ---- growing ---- */

static void growth_provided(struct provision *provision, int error, const char *text)
{
	struct growth *growth = (struct growth *)((char *)provision - offsetof(struct growth, provision));

	CRASH_POINT(growth_made);
	growth_end(growth, error, text);
}

static int growth_provide(struct growth *growth)
{
	growth->provision = (struct provision){ .broker = growth->broker,
						.allocation = growth->chunk,
						.buffer = growth->buffer,
						.session = growth->session,
						.request = growth->request,
						.timeout_ms = growth->timeout_ms,
						.done = growth_provided };
	/* set before provision_begin(), which may end the growth and then clears this member */
	growth->buffer->growing = &growth->provision;
	return provision_begin(&growth->provision);
}

/* ---- zeroing behind the buffer's end ---- */

static struct job *zero_job_new(struct growth *growth, void (*done)(struct job *job))
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		error_set(-ENOMEM, "the broker is out of memory");
		return NULL;
	}
	job->order.kind = ORDER_ZERO;
	job->done = done;
	job->context = growth;
	return job;
}

/*
 * Has the device zero `bytes` bytes behind the buffer's end. The end is in the last chunk or, without chunks, in the
 * allocation's first part.
 */
static void zero_job_submit(struct job *job, uint64_t bytes)
{
	const struct growth *growth = job->context;
	const struct buffer *buffer = growth->buffer;
	const struct allocation *allocation = buffer->allocation;
	const struct allocation *last = allocation->chunks ? allocation->chunks->chunk_prev : allocation;

	job->order.device = allocation->device;
	job->order.uid = buffer->owner;
	job->order.size = bytes;
	job->order.memory = last->memory;
	job->order.offset = buffer->size - (allocation->size - last->span);
	jobs_submit(growth->broker->jobs, job);
}

/* -ENOENT, that the owner of the devices does not have the memory, would mean to the client that there is no buffer. */
static int zero_error(const struct job *job)
{
	return job->outcome.error == -ENOENT ? -EIO : job->outcome.error;
}

static void growth_zeroed(struct job *job)
{
	struct growth *growth = job->context;
	const char *text;
	int error = zero_error(job);

	CRASH_POINT(growth_zeroed);
	if (error)
		pool_device_failed(growth->broker, job, "zero", "");
	if (error)
		growth_end(growth, error, job->outcome.text);
	else if (!growth->chunk || growth_may_end(growth, &text)) /* growth_end() reports the error */
		growth_end(growth, 0, NULL);
	else if ((error = growth_provide(growth)))
		growth_end(growth, error, error_text());
	free(job);
}

/*
 * Has the device zero the bytes of the allocation that the buffer grows into, because a process may have written behind
 * the buffer's end by mistake.
 */
static int growth_zero(struct growth *growth, uint64_t bytes)
{
	struct job *job = zero_job_new(growth, growth_zeroed);

	if (!job)
		return -ENOMEM;
	zero_job_submit(job, bytes);
	return 0;
}

/*
 * Begins to grow the buffer: first into the rest of its allocation, which is zeroed for this, and then into a new
 * chunk.
 */
static int growth_begin(struct growth *growth)
{
	struct broker *broker = growth->broker;
	struct allocation *allocation = growth->buffer->allocation;
	uint64_t granule = broker->board->header->device[allocation->device].granule;
	uint64_t within = growth->size < allocation->size ? growth->size : allocation->size;
	int error = 0;

	if (growth->size > allocation->size)
		error = memory_grow(broker->memory, allocation, size_round_up(growth->size - allocation->size, granule),
				    &growth->chunk);
	if (error)
		return error;
	if (within == growth->buffer->size)
		return growth_provide(growth);
	return growth_zero(growth, within - growth->buffer->size);
}

static struct growth *growth_new(const struct session *session, const struct wire_message *message,
				 struct buffer *buffer)
{
	struct growth *growth = calloc(1, sizeof *growth);

	if (!growth) {
		error_set(-ENOMEM, "the broker is out of memory");
		return NULL;
	}
	*growth = (struct growth){ .broker = session->broker,
				   .buffer = buffer,
				   .size = message->resize.size,
				   .session = session->id,
				   .request = message->request,
				   .timeout_ms = message->resize.timeout_ms };
	return growth;
}

static int grow(struct session *session, const struct wire_message *message, struct buffer *buffer)
{
	struct growth *growth = growth_new(session, message, buffer);
	int error;

	if (!growth)
		return -ENOMEM;
	memory_hold(buffer->allocation); /* the hold comes before growth_begin(), because the growth may end at once */
	error = growth_begin(growth);
	if (!error)
		return 0;
	buffer->growing = NULL;
	if (growth->chunk)
		memory_not_grown(session->broker->memory, growth->chunk);
	memory_unhold(session->broker->memory, buffer->allocation);
	free(growth);
	return error;
}

/* ---- shrinking ---- */

/* Refuses to shrink a buffer while a process maps it, because the process could still use the memory behind the end. */
static int shrink_check(const struct buffer *buffer, uint64_t size)
{
	const struct mapping *mapping = buffer->allocation->mappings;
	gpub_layout layout = buffer_layout(buffer);

	layout_resize(&layout, size);
	if (layout_bytes(&layout) > size)
		return error_set(-EINVAL, "'%s' is one element of %llu bytes: it cannot shrink below them",
				 buffer->name, (unsigned long long)layout_bytes(&layout));
	if (mapping)
		return error_set(-EBUSY,
				 "'%s' cannot shrink while a process maps it, such as session %llu (pid %d, uid %u): "
				 "let it call gpub_trim, or end",
				 buffer->name, (unsigned long long)mapping->session->id, (int)mapping->session->pid,
				 mapping->uid);
	return 0;
}

static void cut_zeroed(struct job *job)
{
	struct growth *cut = job->context;
	struct broker *broker = cut->broker;

	if (job->outcome.error)
		pool_device_failed(broker, job, "zero", "");
	growth_answer(cut, zero_error(job), job->outcome.text);
	broker_changed(broker);
	memory_unhold(broker->memory, cut->buffer->allocation);
	free(cut);
	free(job);
}

/*
 * Gives the buffer its new size at once, so that an acquire does not wait. The request is answered when the rest of the
 * allocation, behind the buffer's new end, is zeroed.
 */
static int shrink(struct session *session, const struct wire_message *message, struct buffer *buffer)
{
	struct broker *broker = session->broker;
	struct growth *cut = growth_new(session, message, buffer);
	struct job *job = cut ? zero_job_new(cut, cut_zeroed) : NULL;
	int error = job ? shrink_check(buffer, message->resize.size) : -ENOMEM;

	if (error) {
		free(job);
		free(cut);
		return error;
	}
	resized(broker, buffer, cut->size, SESSION_PARTY(session));
	memory_shrink(broker->memory, buffer->allocation, buffer->size);
	memory_hold(buffer->allocation);
	waking_name(broker, buffer->name);
	if (buffer->size < buffer->allocation->size) {
		zero_job_submit(job, buffer->allocation->size - buffer->size);
		return 0;
	}
	cut_zeroed(job);
	return 0;
}

static int resize_check(const struct buffer *buffer, uint64_t size)
{
	char text[SIZE_TEXT_MAX];

	if (!size)
		return error_set(-EINVAL, "a buffer has at least 1 byte");
	if (!buffer->reserve)
		return error_set(-EINVAL,
				 "'%s' keeps its size: create it with a reserve, which says how large it may become",
				 buffer->name);
	if (size > buffer->reserve)
		return error_set(-ENOSPC, "'%s' may grow to %s, its reserve: create it with a larger one", buffer->name,
				 size_format(buffer->reserve, text));
	if (buffer->flags & GPUB_SEALED)
		return error_set(-EROFS, "'%s' is sealed: it stays as it is", buffer->name);
	if (buffer->allocation->busy)
		return error_set(-EBUSY, "'%s' is being resized: try again when that is done", buffer->name);
	return 0;
}

int resize_begin(struct session *session, const struct wire_message *message)
{
	const struct wire_resize *resize = &message->resize;
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, resize->name, &buffer);

	if (!error)
		error = manage_check(session, buffer, "resize");
	if (!error && session->broker->stopping)
		error = error_set(-ECONNREFUSED, "the broker is stopping: no memory is made any more");
	if (!error)
		error = resize_check(buffer, resize->size);
	if (error)
		return error;
	if (resize->size > buffer->size)
		return grow(session, message, buffer);
	if (resize->size < buffer->size)
		return shrink(session, message, buffer);
	session_done(session, message->request, -1);
	return 0;
}
