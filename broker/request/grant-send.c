/* SPDX-License-Identifier: Apache-2.0 */
/* grant-send.c - see grant-send.h */
#include "grant-send.h"

#include <string.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/grants.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/fair-queue.h"
#include "broker/session/session.h"
#include "common/crash-point.h"

/* What every handle of the grant is sealed with. */
static struct seal_terms terms_of(const struct session *session, const struct grant *grant)
{
	const struct allocation *allocation = grant->allocation;
	const struct board_header *board = session->broker->board->header;
	struct seal_terms terms = { .session = session->id,
				    .grant = grant->id,
				    .address = allocation->address,
				    .version = WIRE_VERSION,
				    .exported = allocation->slab.kind.exported };

	memcpy(terms.instance, board->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, board->device[allocation->device].uuid, sizeof terms.device_uuid);
	return terms;
}

/* Seals the handle in the board, which must happen before the GRANT that names its place is sent. */
void grant_seal(struct session *session, const struct use *use)
{
	const struct buffer *buffer = use->buffer;
	struct board *board = &session->broker->board->board;
	struct seal_terms terms = terms_of(session, use->grant);

	terms.serial = buffer->serial;
	terms.size = buffer->size;
	terms.offset = buffer->offset;
	terms.rights = use->rights;
	handle_seal(&board->handles[use->grant->place], &terms, &buffer->allocation->handle, session->key);
	atomic_thread_fence(memory_order_release);
}

/* A copy of the descriptor, which the client closes when it has mapped the memory. */
static void chunk_send(struct session *session, const struct grant *grant, const struct allocation *chunk,
		       uint64_t offset)
{
	struct seal_terms terms = terms_of(session, grant);
	struct sealed_handle sealed = { { 0 }, { 0 }, { 0 } };
	struct wire_message message;

	terms.size = chunk->span;
	terms.offset = offset;
	if (offset)
		handle_seal(&sealed, &terms, &chunk->handle, session->key);
	wire_init(&message, WIRE_MEMORY, 0);
	message.memory.grant = grant->id;
	message.memory.offset = offset;
	message.memory.span = chunk->span;
	memcpy(message.memory.sealed, &sealed, sizeof message.memory.sealed);
	session_send(session, &message, chunk->descriptor);
}

/* What the session does not have of the allocation, behind the bytes that it has. */
static void memory_send(struct session *session, const struct grant *grant, uint64_t bytes)
{
	const struct allocation *allocation = grant->allocation, *chunk;
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

static void use_send(struct session *session, uint64_t request, const struct use *use, bool fresh)
{
	const struct buffer *buffer = use->buffer;
	struct wire_message message;

	wire_init(&message, WIRE_GRANT, request);
	message.grant = (struct wire_grant){ .grant = use->grant->id,
					     .serial = buffer->serial,
					     .size = buffer->size,
					     .offset = buffer->offset,
					     .span = buffer->allocation->size,
					     .buffer = buffer->place,
					     .place = fresh ? use->grant->place : WIRE_NO_HANDLE,
					     .rights = use->rights,
					     .flags = buffer->flags,
					     .owner_device = buffer->allocation->device,
					     .owner = buffer->owner,
					     .room = buffer->reserve ? buffer->size :
								       buffer->allocation->slab.kind.range,
					     .layout = buffer_layout(buffer),
					     .exported = buffer->allocation->slab.kind.exported,
					     .address = buffer->allocation->address,
					     .reserve = buffer->allocation->reserved };
	session_send(session, &message, buffer->timeline ? buffer->timeline->readable : -1);
}

void grant_send(struct session *session, uint64_t request, const struct use *use, bool fresh, uint64_t bytes)
{
	memory_send(session, use->grant, bytes);
	CRASH_POINT(memory_sent);
	use_send(session, request, use, fresh);
	CRASH_POINT(grant_sent);
}
