/* SPDX-License-Identifier: Apache-2.0 */
/* creation.c - see creation.h */
#include "creation.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/values.h"
#include "broker/memory/allocation.h"
#include "broker/memory/slab.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/session.h"
#include "broker/users/access.h"
#include "broker/users/accounting.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/exports.h"
#include "common/layout.h"
#include "common/size.h"
#include "inquiry.h"
#include "manage.h"
#include "provision.h"
#include "waking.h"

#define KNOWN_FLAGS (GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_DEDICATED | GPUB_SAME_ADDRESS)

/*
 * largest reserve / size (in whole granules) of a buffer with GPUB_SAME_ADDRESS: a reserve takes addresses, which are
 * few (invariant 5)
 */
#define SAME_ADDRESS_GROWTH 16u

/* State of a create from its request to its answer. */
struct creation {
	struct broker *broker;
	struct buffer *buffer;
	struct provision provision; /* state of the request for the allocation's memory */
	uint64_t began; /* time when the request was received: now_ns(CLOCK_MONOTONIC); 0: the broker itself asked */
	struct creation_order order;
};

/*
 * Makes the event of a create that has ended. session: the session that asked; NULL: it has ended, or the broker asked.
 */
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
	if (creation->order.done) {
		broker_publish(creation->broker);
		creation->order.done(creation->order.context, error, text);
	} else if (session && error) {
		session_refuse(session, creation->order.request, error, text);
	} else if (session) {
		session_done(session, creation->order.request, -1);
	}
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

/*
 * Returns true if the new buffer must be unlinked at once: the broker is stopping, or the buffer is ephemeral and its
 * creator has ended since the request. session: the creator; NULL: it has ended, or the broker asked.
 */
static bool creation_orphaned(const struct creation *creation, const struct session *session)
{
	if (creation->broker->stopping)
		return true;
	return creation->buffer->flags & GPUB_EPHEMERAL && creation->order.session && (!session || session->ends);
}

/* Ends the create of a buffer that is LIVE now. */
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
		waking_name(broker, buffer->name);
	broker_changed(broker);
}

/* Ends the create when its allocation has got its memory, or will not get it (error). Called as provision.done(). */
static void creation_provided(struct provision *provision, int error, const char *text)
{
	struct creation *creation = (struct creation *)((char *)provision - offsetof(struct creation, provision));

	if (error) {
		creation_fail(creation, error, text);
		return;
	}
	CRASH_POINT(create_made);
	error = registry_live(creation->broker->registry, creation->buffer);
	if (error)
		creation_fail(creation, error, error_text());
	else
		creation_succeed(creation);
}

/* Checks spec->reserve, and rounds it up to whole granules. */
static int reserve_check(const struct board_device *device, struct buffer_spec *spec)
{
	char text[SIZE_TEXT_MAX];

	if (!spec->reserve)
		return 0;
	if (spec->reserve < spec->size)
		return error_set(-EINVAL,
				 "the reserve is less than the size: it is the size that the buffer may grow to");
	if (spec->flags & GPUB_SAME_ADDRESS && (spec->reserve - 1) / SAME_ADDRESS_GROWTH >= spec->span)
		return error_set(-EINVAL,
				 "with GPUB_SAME_ADDRESS the reserve is at most %u times the size: addresses are for "
				 "all users",
				 SAME_ADDRESS_GROWTH);
	spec->reserve = size_round_up(spec->reserve, device->granule);
	if (!spec->reserve || spec->reserve > device->memory)
		return error_set(-EINVAL, "the reserve is larger than the whole device, which has %s: reserve less",
				 size_format(device->memory, text));
	return 0;
}

/* Checks a request without a job of the device. Fills spec->range, span and exported; rounds spec->reserve. */
static int spec_check(struct broker *broker, struct buffer_spec *spec)
{
	const struct board_header *board = broker->board->header;
	char asked[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];
	int error;

	if (broker->stopping)
		return error_set(-ECONNREFUSED, "the broker is stopping: no buffers are made any more");
	if (spec->flags & ~KNOWN_FLAGS || spec->mode & ~0777u)
		return error_set(-EINVAL, "unknown flags or mode bits: use GPUB_EPHEMERAL, GPUB_TIMELINE, "
					  "GPUB_DEDICATED, GPUB_SAME_ADDRESS, and a mode up to 0777");
	error = board_check_device(broker->board, spec->device);
	if (error)
		return error;
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
	spec->exported = broker->memory->exported;
	if (spec->reserve || spec->flags & GPUB_SAME_ADDRESS)
		spec->exported = export_growable(spec->exported);
	if (spec->reserve || spec->flags & (GPUB_DEDICATED | GPUB_SAME_ADDRESS))
		spec->range = spec->span = size_round_up(spec->size, board->device[spec->device].granule);
	error = reserve_check(&board->device[spec->device], spec);
	if (error)
		return error;
	if (!spec->span || spec->span > board->device[spec->device].memory)
		return error_set(-ENOMEM,
				 "the buffer of %s is larger than the whole device, which has %s: ask for less",
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
	int error = spec_check(broker, spec);

	if (error)
		return error;
	creation = malloc(sizeof *creation);
	if (!creation)
		return error_set(-ENOMEM, "the broker is out of memory");
	spec->ephemerals = creator ? &creator->ephemerals : NULL;
	spec->creator = creator ? creator->id : 0;
	error = registry_reserve(broker->registry, spec, &buffer);
	if (error)
		goto free_creation;
	if (spec->flags & GPUB_TIMELINE)
		error = creation_timeline(broker, spec, creator, buffer);
	if (error)
		goto abandon;
	CRASH_POINT(create_reserved);
	*creation = (struct creation){ .broker = broker,
				       .buffer = buffer,
				       .provision = { .broker = broker,
						      .allocation = buffer->allocation,
						      .buffer = buffer,
						      .session = order->session,
						      .request = order->request,
						      .timeout_ms = order->timeout_ms,
						      .done = creation_provided },
				       .began = order->session ? broker->received : 0,
				       .order = *order };
	if (!allocation_is_made(buffer->allocation)) {
		error = provision_begin(&creation->provision);
		if (error)
			goto abandon;
		return 0;
	}
	broker->counters.buffers_recycled++;
	/*
	 * registry_live() cannot fail here: it fails only with GPUB_SAME_ADDRESS, whose allocation is always a new one
	 */
	registry_live(broker->registry, buffer);
	creation_succeed(creation);
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
				    .reserve = amount->reserve,
				    .device = amount->device,
				    .owner = geteuid(),
				    .group = getegid(),
				    .mode = mode,
				    .flags = flags,
				    .layout = amount->layout };

	return creation_begin(broker, &spec, &order);
}

int creation_request(struct session *session, const struct wire_message *message)
{
	const struct wire_create *create = &message->create;
	struct creation_order order = { .session = session->id,
					.request = message->request,
					.timeout_ms = create->timeout_ms };
	struct buffer_spec spec = { .name = create->name,
				    .size = create->size,
				    .device = create->device,
				    .owner = session->who.uid,
				    .group = session->who.gid,
				    .mode = create->mode,
				    .flags = create->flags,
				    .reserve = create->reserve,
				    .layout = create->layout };

	if (!access_may_create(session->broker->creators, &session->who))
		return error_set(-EACCES,
				 "uid %u may not create buffers here: the broker's configuration names who may",
				 session->who.uid);
	return creation_begin(session->broker, &spec, &order);
}
