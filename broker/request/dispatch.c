/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - see dispatch.h */
#include "dispatch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "acquire.h"
#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/session/session.h"
#include "common/error.h"
#include "common/wire.h"
#include "creation.h"
#include "ending.h"
#include "inquiry.h"
#include "lookup.h"
#include "manage.h"
#include "refusal.h"
#include "resize.h"
#include "waiting.h"
#include "writer.h"

static int cancel(struct session *session, const struct wire_message *message)
{
	waiting_cancel(session->broker, session->id, message->request);
	return 0;
}

static int snapshot(struct session *session, const struct wire_message *message)
{
	return session->broker->snapshot(session, message->request);
}

/* ---- the table ---- */

/* What the broker does with one type of a client's messages. */
struct row {
	/*
	 * Does what the message asks for, and answers now or later, if the message has an answer. Returns 0, or a
	 * negative errno with the error message set if nothing was done. NULL: clients may not send messages of this
	 * type.
	 */
	int (*handle)(struct session *session, const struct wire_message *message);
	/* Kind of the event, with the name of the buffer, that is made when the request is refused; 0: no event. */
	enum event_kind refused;
	/* Offset of the requested size in struct wire_message, for the event; 0: the request has no size. */
	size_t bytes_at;
	/* Makes the event of a refusal, if `refused` alone cannot describe it; NULL: the event is of kind `refused`. */
	void (*tell)(struct session *session, const struct wire_message *message, int error, const char *text);
};

#define BYTES(member) offsetof(struct wire_message, member)

static const struct row rows[WIRE_TYPES] = {
	[WIRE_CREATE] = { .handle = creation_request, .refused = EVENT_CREATE_REFUSED, .bytes_at = BYTES(create.size) },
	[WIRE_UNLINK] = { .handle = manage_unlink_named, .refused = EVENT_UNLINK_REFUSED },
	[WIRE_STAT] = { .handle = lookup_stat },
	[WIRE_ACQUIRE] = { .handle = acquire_named, .tell = refusal_of_acquire },
	[WIRE_CLOSED] = { .handle = acquire_closed },
	[WIRE_WRITER] = { .handle = writer_claim },
	[WIRE_LEAVE] = { .handle = ending_leave },
	[WIRE_CHANGE] = { .handle = manage_change, .refused = EVENT_CHANGE_REFUSED },
	[WIRE_DRAIN] = { .handle = manage_drain, .refused = EVENT_DRAIN_REFUSED },
	[WIRE_EVICT] = { .handle = manage_evict, .tell = refusal_of_evict },
	[WIRE_ISSUE] = { .handle = manage_issue, .refused = EVENT_ISSUE_REFUSED },
	[WIRE_REDEEM] = { .handle = acquire_redeem, .tell = refusal_of_redeem },
	[WIRE_QUIESCED] = { .handle = acquire_quiesced },
	[WIRE_REFRESH] = { .handle = inquiry_refresh },
	[WIRE_WAITS] = { .handle = inquiry_take },
	[WIRE_SNAPSHOT] = { .handle = snapshot },
	[WIRE_RIGHTS] = { .handle = acquire_rights },
	[WIRE_SEAL] = { .handle = manage_seal, .refused = EVENT_SEAL_REFUSED },
	[WIRE_RENAME] = { .handle = manage_rename, .refused = EVENT_RENAME_REFUSED },
	[WIRE_NEWER] = { .handle = lookup_newer },
	[WIRE_RESIZE] = { .handle = resize_begin, .refused = EVENT_RESIZE_REFUSED, .bytes_at = BYTES(resize.size) },
	[WIRE_CANCEL] = { .handle = cancel },
	[WIRE_LIST] = { .handle = lookup_list },
};

/* ---- one message ---- */

/*
 * Returns true if the session may send a message of the type in its present state. An answer to an INQUIRE may come
 * without an INQUIRE: two brokers, one after the other, may have sent the same INQUIRE, and each is answered.
 */
static bool is_in_place(const struct session *session, unsigned type)
{
	unsigned traits = wire_row(type)->traits;

	if (!rows[type].handle || (session->state == SESSION_LEAVING && !(traits & WIRE_LATE)))
		return false;
	return !(traits & WIRE_OWED) || session->answers;
}

static void tell_of_refusal(struct session *session, const struct wire_message *message, int error, const char *text)
{
	const struct row *row = &rows[message->type];
	uint64_t bytes = 0;

	if (row->bytes_at)
		memcpy(&bytes, (const char *)message + row->bytes_at, sizeof bytes);
	if (row->tell)
		row->tell(session, message, error, text);
	else if (row->refused)
		refusal_happened(session, row->refused, message->name.name, bytes, error, text);
}

static bool is_answered(const struct wire_message *message)
{
	return wire_row(message->type)->answer != WIRE_NONE;
}

/* Notes the request if its answer is still to come. */
static void note_request(struct session *session, const struct wire_message *message)
{
	if (is_answered(message) && !session->answered && session->state != SESSION_DISCONNECTED)
		pending_begin(&session->broker->sessions->pendings, &session->pending, session->id, message,
			      session->awaited);
	session->awaited = session->handled = 0;
}

int dispatch_message(struct session *session, const struct wire_message *message)
{
	int error;

	if (!is_in_place(session, message->type))
		return error_set(-EPROTO, "it sent %s out of place", wire_row(message->type)->name);
	error = is_answered(message) ? pending_prepare(&session->broker->sessions->pendings) : 0;
	session->handled = message->request;
	session->answered = false;
	if (!error)
		error = rows[message->type].handle(session, message);
	if (error) {
		tell_of_refusal(session, message, error, error_text());
		session_refuse(session, message->request, error, error_text());
	}
	note_request(session, message);
	return 0;
}
