/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.c - see acquire.h */
#include "acquire.h"

#include <errno.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/export.h"
#include "delegation.h"
#include "grant-send.h"
#include "inquiry.h"
#include "name-waits.h"
#include "refusal.h"

#define KNOWN_RIGHTS (GPUB_READ | GPUB_WRITE)

/*
 * Returns 0, or -ENODEV if the process cannot open the memory because it has the same pid in its pid namespace as the
 * owner has in the broker's: CUDA IPC refuses to open a handle in the process that made it (facts.md).
 */
static int check_pid(const struct session *session, const struct buffer *buffer)
{
	if (!session->own_pid || session->own_pid != (uint32_t)session->broker->owner_pid ||
	    !export_of(buffer->allocation->slab.kind.exported)->pid_matters)
		return 0;
	return error_set(-ENODEV,
			 "'%s' cannot be opened here: this is process %u in its container, as the owner of the memory "
			 "is outside of it, and CUDA IPC takes the two for one: start the program anew, so that it "
			 "gets another number (docker run --init), or the broker with --export vmm",
			 buffer->name, session->own_pid);
}

/*
 * Grants the buffer to the session and sends the GRANT. Makes no check of the buffer's mode. ticket: the ticket that
 * the session redeems; its grant gets a mapping that other acquires of the session do not share. NULL: the grant is by
 * the mode. waited_since: time when the request was received, if it waited for its name (acquire_waited()); 0: it did
 * not.
 */
static int grant_give(struct session *session, uint64_t request, struct buffer *buffer, unsigned device,
		      unsigned rights, const struct ticket *ticket, uint64_t waited_since)
{
	struct broker *broker = session->broker;
	struct grant_order order = { .session = session,
				     .uid = session->who.uid,
				     .mappings = &session->mappings,
				     .device = device,
				     .rights = rights,
				     .own = ticket != NULL };
	struct grant *grant;
	uint64_t bytes;
	bool fresh;
	int error = check_pid(session, buffer);

	if (!error)
		error = session_check_descriptors(session,
						  mapping_missing(buffer, &order) + (buffer->timeline != NULL));
	if (!error)
		error = grant_open(broker->registry, buffer, &order, &grant, &fresh);
	if (error)
		return error;
	broker->counters.acquires_answered++;
	broker->counters.mappings_opened += fresh;
	if (ticket)
		delegation_spend(session, ticket, buffer);
	CRASH_POINT(grant_accounted);
	if (buffer->timeline)
		inquiry_join(session);
	if (fresh)
		grant_seal(session, grant);
	CRASH_POINT(handle_sealed);
	histograms_count(&broker->histograms, waited_since ? HISTOGRAM_ACQUIRE_WAIT : HISTOGRAM_ACQUIRE,
			 waited_since ? waited_since : broker->received);
	broker_changed(broker);
	bytes = mapping_update_size(broker->registry, grant->mapping);
	grant_send(session, request, grant, fresh, fresh ? 0 : bytes);
	return 0;
}

/*
 * Returns 0, or -EPERM if the buffer's owner is not the one that the acquire expects, or is not allowed by GPUB_MINE.
 */
static int check_owner(const struct session *session, const struct wire_acquire *acquire, const struct buffer *buffer)
{
	if (acquire->expects && acquire->owner != buffer->owner)
		return error_set(-EPERM,
				 "'%s' belongs to uid %u, and uid %u is expected: it is not the buffer that is meant",
				 buffer->name, buffer->owner, acquire->owner);
	if (acquire->rights & GPUB_MINE && buffer->owner != session->who.uid && buffer->owner &&
	    buffer->owner != geteuid())
		return error_set(-EPERM,
				 "'%s' belongs to uid %u, neither uid %u nor root nor the broker's user: "
				 "GPUB_MINE refuses it",
				 buffer->name, buffer->owner, session->who.uid);
	return 0;
}

static int check_rights(const struct session *session, unsigned rights, const struct buffer *buffer)
{
	if (!(rights & ~buffer_rights(buffer, &session->who)))
		return 0;
	if (rights & GPUB_WRITE && buffer->flags & GPUB_SEALED)
		return error_set(-EROFS, "'%s' is sealed: nobody may write it any more. Create another buffer",
				 buffer->name);
	return error_set(-EACCES, "the mode %04o of '%s' (owner uid %u) refuses these rights to uid %u", buffer->mode,
			 buffer->name, buffer->owner, session->who.uid);
}

/*
 * Checks owner and rights, and grants the buffer. buffer: the buffer with the name acquire->name; NULL: there is none.
 */
static int grant_named(struct session *session, uint64_t request, const struct wire_acquire *acquire,
		       struct buffer *buffer, uint64_t waited_since)
{
	int error;

	if (!buffer || buffer->state != BUFFER_LIVE)
		return error_set(-ENOENT, "there is no buffer '%s': create it, or wait for it with a timeout",
				 acquire->name);
	error = check_owner(session, acquire, buffer);
	if (!error)
		error = check_rights(session, acquire->rights & KNOWN_RIGHTS, buffer);
	if (error)
		return error;
	return grant_give(session, request, buffer, acquire->device, acquire->rights & KNOWN_RIGHTS, NULL,
			  waited_since);
}

void acquire_waited(struct session *session, uint64_t request, const struct wire_acquire *acquire, uint64_t since)
{
	struct buffer *buffer = registry_find(session->broker->registry, acquire->name);
	int error = grant_named(session, request, acquire, buffer, since);

	if (!error)
		return;
	refusal_of_waited_acquire(session, acquire, error, error_text());
	session_refuse(session, request, error, error_text());
}

int acquire_redeem(struct session *session, const struct wire_message *message)
{
	const struct wire_redeem *redeem = &message->redeem;
	unsigned rights = redeem->ticket.rights;
	struct buffer *buffer;
	int error = board_check_device(session->broker->board, redeem->device);

	if (!error)
		error = delegation_check(session, &redeem->ticket, &buffer);
	if (error)
		return error;
	if (buffer->flags & GPUB_SEALED)
		rights &= ~GPUB_WRITE;
	if (!rights)
		return error_set(-EROFS, "the ticket is for writing, and '%s' is sealed: ask for one to read",
				 buffer->name);
	/*
	 * the ticket gets a mapping of its own, so that a CLOSED that crosses the GRANT does not end what the ticket
	 * gave
	 */
	return grant_give(session, message->request, buffer, redeem->device, rights, &redeem->ticket, 0);
}

int acquire_rights(struct session *session, const struct wire_message *message)
{
	const struct wire_rights *rights = &message->rights;
	const struct mapping *mapping = mappings_find(&session->mappings, rights->mapping);
	struct grant *grant = mapping ? mapping_find_grant(mapping, rights->serial) : NULL;
	int error;

	if (!rights->rights || rights->rights & ~KNOWN_RIGHTS)
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	if (!grant || grant->buffer->state != BUFFER_LIVE || grant->key.serial != grant->buffer->serial)
		return error_set(-ESTALE, "the buffer was unlinked, renamed or resized: acquire its name again");
	error = check_rights(session, rights->rights, grant->buffer);
	if (error)
		return error;
	grant_add_rights(session->broker->registry, grant, rights->rights);
	CRASH_POINT(rights_added);
	session_done(session, message->request, -1);
	return 0;
}

int acquire_named(struct session *session, const struct wire_message *message)
{
	const struct wire_acquire *acquire = &message->acquire;
	struct buffer *buffer;
	int error = name_check(acquire->name);

	if (error)
		return error;
	if (!(acquire->rights & KNOWN_RIGHTS) || acquire->rights & ~(KNOWN_RIGHTS | GPUB_MINE))
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	error = board_check_device(session->broker->board, acquire->device);
	if (error)
		return error;
	buffer = registry_find(session->broker->registry, acquire->name);
	if (acquire->timeout_ms && (!buffer || buffer->state != BUFFER_LIVE) && !session->broker->stopping)
		return name_wait_acquire(session->broker, session->id, message->request, acquire);
	return grant_named(session, message->request, acquire, buffer, 0);
}

/*
 * Ends or orphans the mapping that the CLOSED names. If the session has no such mapping, the CLOSED is only counted,
 * because no session can end another session's mapping (invariant 3).
 */
int acquire_closed(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	struct mapping *mapping = mappings_find(&session->mappings, message->grant_id.mapping);

	CRASH_POINT(closed_received);
	if (!mapping)
		broker->counters.closed_foreign++;
	else if (mapping_closed(broker->registry, mapping))
		broker->counters.mappings_closed++;
	else
		broker->counters.mappings_held++;
	CRASH_POINT(closed_accounted);
	broker_changed(broker);
	return 0;
}

/*
 * Ends the grant that the QUIESCED names, unless grant_quiesced() keeps it until the CLOSED or the death of the
 * process. Frees no memory, because the mapping stays, but the buffer's range may then serve the owner's next buffer.
 */
int acquire_quiesced(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	const struct wire_grant_id *id = &message->grant_id;
	const struct mapping *mapping = mappings_find(&session->mappings, id->mapping);
	struct grant *grant = mapping ? mapping_find_grant(mapping, id->serial) : NULL;

	CRASH_POINT(quiesced_received);
	if (grant && grant_quiesced(broker->registry, grant))
		broker->counters.grants_quiesced++;
	else
		broker->counters.quiesced_foreign++;
	CRASH_POINT(quiesced_accounted);
	broker_changed(broker);
	return 0;
}

/* ---- the registry's hook ---- */

void acquire_notice(void *context, struct mapping *mapping, uint64_t serial)
{
	struct broker *broker = context;
	struct wire_message message;

	wire_init(&message, WIRE_NOTICE, 0);
	message.grant_id.mapping = mapping->id;
	message.grant_id.serial = serial;
	broker->counters.notices_sent++;
	broker_changed(broker);
	CRASH_POINT_PEER(mapping->session->pid);
	session_send(mapping->session, &message, -1);
	CRASH_POINT(notice_sent);
}
