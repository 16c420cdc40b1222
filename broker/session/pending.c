/* SPDX-License-Identifier: Apache-2.0 */
/* pending.c - see pending.h */
#include "pending.h"

#include <errno.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/now.h"

int pending_prepare(struct pendings *all)
{
	if (!all->tracking)
		return 0;
	if (!all->next)
		all->next = calloc(1, sizeof *all->next);
	return all->next ? tracking_reserve(all->tracking, 1) : error_set(-ENOMEM, "the broker is out of memory");
}

void pendings_deinit(struct pendings *all)
{
	free(all->next);
	all->next = NULL;
}

static struct pending *find(struct pending *table, uint64_t request)
{
	struct pending *pending;

	HASH_FIND(hh, table, &request, sizeof request, pending);
	return pending;
}

/* Returns false if there is no memory for the table: the note is in no table then. */
static bool enter(struct pendings *all, struct pending **table, struct pending *pending)
{
	HASH_ADD(hh, *table, message.request, sizeof pending->message.request, pending);
	if (!table_added(pending))
		return false;
	tracked_begin(all->tracking, &pending->tracked, TRACKED_PENDING);
	return true;
}

void pending_begin(struct pendings *all, struct pending **table, uint64_t session, const struct wire_message *message,
		   uint64_t serial)
{
	struct pending *pending = all->next;

	if (!all->tracking || !pending || find(*table, message->request))
		return;
	*pending = (struct pending){ .message = *message,
				     .order = all->order++,
				     .received_ms = now_ms(CLOCK_MONOTONIC),
				     .serial = serial,
				     .session = session };
	if (enter(all, table, pending))
		all->next = NULL;
}

static void drop(struct pendings *all, struct pending **table, struct pending *pending)
{
	HASH_DELETE(hh, *table, pending);
	tracked_end(all->tracking, &pending->tracked);
	free(pending);
}

void pending_end(struct pendings *all, struct pending **table, uint64_t request)
{
	struct pending *pending = *table ? find(*table, request) : NULL;

	if (pending)
		drop(all, table, pending);
}

void pending_forget(struct pendings *all, struct pending **table)
{
	struct pending *pending, *next;

	HASH_ITER(hh, *table, pending, next)
		drop(all, table, pending);
}

void pending_note(const struct pending *pending, struct pending_record *record)
{
	*record = (struct pending_record){ .session = pending->session,
					   .order = pending->order,
					   .received_ms = pending->received_ms,
					   .serial = pending->serial,
					   .message = pending->message };
}

int pending_restore(struct pendings *all, struct pending **table, const struct pending_record *record)
{
	struct pending *pending;
	int error = tracking_reserve(all->tracking, 1);

	if (error)
		return error;
	pending = calloc(1, sizeof *pending);
	if (!pending)
		return error_set(-ENOMEM, "the broker is out of memory");
	*pending = (struct pending){ .message = record->message,
				     .order = record->order,
				     .received_ms = record->received_ms,
				     .serial = record->serial,
				     .session = record->session };
	if (!enter(all, table, pending)) {
		free(pending);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	if (all->order <= record->order)
		all->order = record->order + 1;
	return 0;
}

/* The time limit of a request, in milliseconds; NULL: its kind has none. */
static int32_t *timeout_of(struct wire_message *message)
{
	switch (message->type) {
	case WIRE_CREATE:
		return &message->create.timeout_ms;
	case WIRE_ACQUIRE:
		return &message->acquire.timeout_ms;
	case WIRE_DRAIN:
		return &message->drain.timeout_ms;
	case WIRE_NEWER:
		return &message->newer.timeout_ms;
	case WIRE_RESIZE:
		return &message->resize.timeout_ms;
	default:
		return NULL;
	}
}

void pending_shorten(struct wire_message *message, uint64_t received_ms)
{
	uint64_t now = now_ms(CLOCK_MONOTONIC), gone = now > received_ms ? now - received_ms : 0;
	int32_t *timeout = timeout_of(message);

	if (timeout && *timeout > 0)
		*timeout = gone < (uint64_t)*timeout ? *timeout - (int32_t)gone : 1;
}
