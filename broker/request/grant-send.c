/* SPDX-License-Identifier: Apache-2.0 */
/* grant-send.c - see grant-send.h */
#include "grant-send.h"

#include <string.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/fair-queue.h"
#include "broker/session/session.h"
#include "common/crash-point.h"

/*
 * Returns the body of the GRANT message for a grant. place: the mapping's handle place in the board, or WIRE_NO_HANDLE
 * if the session has the handle already.
 */
static struct wire_grant grant_of(const struct grant *grant, uint32_t place)
{
	const struct buffer *buffer = grant->buffer;
	const struct allocation *allocation = buffer->allocation;

	return (struct wire_grant){ .mapping = grant->mapping->id,
				    .serial = buffer->serial,
				    .size = buffer->size,
				    .offset = buffer->offset,
				    .span = allocation->size,
				    .buffer = buffer->place,
				    .place = place,
				    .rights = grant->rights,
				    .flags = buffer->flags,
				    .owner_device = allocation->device,
				    .owner = buffer->owner,
				    .room = buffer->reserve ? buffer->size : allocation->slab.kind.range,
				    .layout = buffer_layout(buffer),
				    .exported = allocation->slab.kind.exported,
				    .address = allocation->address,
				    .reserve = allocation->reserved };
}

/* Ends with a fence, so that the handle is readable in the board before the GRANT with its place is sent. */
void grant_seal(struct session *session, const struct grant *grant)
{
	const struct wire_grant body = grant_of(grant, grant->mapping->place);
	const struct board_owner *board = session->broker->board;
	struct seal_terms terms = board_grant_terms(board->header, session->id, &body);

	handle_seal(&board->board.handles[body.place], &terms, &grant->buffer->allocation->handle, session->key);
	atomic_thread_fence(memory_order_release);
}

/*
 * Sends a MEMORY with a copy of the chunk's descriptor, which the client closes when it has mapped the chunk. offset:
 * byte offset of the chunk in its allocation.
 */
static void chunk_send(struct session *session, const struct wire_grant *grant, const struct allocation *chunk,
		       uint64_t offset)
{
	struct wire_message message;

	wire_init(&message, WIRE_MEMORY, 0);
	message.memory.mapping = grant->mapping;
	message.memory.offset = offset;
	message.memory.span = chunk->span;
	session_send(session, &message, chunk->descriptor);
}

/*
 * Sends a MEMORY for each part of the allocation that the session does not have yet, but none for a first part without
 * a descriptor. bytes: how many bytes of the allocation, from its beginning, the session has.
 */
static void memory_send(struct session *session, const struct wire_grant *grant, const struct allocation *allocation,
			uint64_t bytes)
{
	const struct allocation *chunk;
	uint64_t offset = allocation->span;

	if (!bytes && allocation->descriptor >= 0)
		chunk_send(session, grant, allocation, 0);
	DL_FOREACH2(allocation->chunks, chunk, chunk_next) {
		if (offset >= bytes) {
			chunk_send(session, grant, chunk, offset);
			fair_count(&session->place, COST_MESSAGE);
		}
		offset += chunk->span;
	}
}

void grant_send(struct session *session, uint64_t request, const struct grant *grant, bool fresh, uint64_t bytes)
{
	const struct buffer *buffer = grant->buffer;
	struct wire_message message;

	wire_init(&message, WIRE_GRANT, request);
	message.grant = grant_of(grant, fresh ? grant->mapping->place : WIRE_NO_HANDLE);
	memory_send(session, &message.grant, buffer->allocation, bytes);
	CRASH_POINT(memory_sent);
	session_send(session, &message, buffer->timeline ? buffer->timeline->readable : -1);
	CRASH_POINT(grant_sent);
}
