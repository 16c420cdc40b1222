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
	if (session->task)
		return error_set(-EBUSY, "this session is being sent a snapshot already: wait for its end");
	return session->broker->snapshot(session, message->request);
}

/* ---- the table ---- */

/* What the broker does with a message of a client. */
struct row {
	/* Does what the message asks for, and answers. Negative errno with the error message set: nothing was done. */
	int (*handle)(struct session *session, const struct wire_message *message);
	/* The kind of the event that a refusal is, which names the buffer; 0 (EVENT_START, which is no refusal): no event. */
	enum event_kind refused;
	/* Where the message has the bytes that were asked for, which that event says; 0: nowhere. */
	size_t bytes_at;
	/* Makes the event of a refusal where it is not as above; NULL: it is. */
	void (*tell)(struct session *session, const struct wire_message *message, int error, const char *text);
};

#define BYTES(member) offsetof(struct wire_message, member)

static const struct row rows[WIRE_TYPES] = {
	[WIRE_CREATE] = { creation_request, EVENT_CREATE_REFUSED, BYTES(create.size) },
	[WIRE_UNLINK] = { manage_unlink_named, EVENT_UNLINK_REFUSED },
	[WIRE_STAT] = { lookup_stat },
	[WIRE_ACQUIRE] = { acquire_named, .tell = refusal_of_acquire },
	[WIRE_CLOSED] = { acquire_closed },
	[WIRE_WRITER] = { writer_claim },
	[WIRE_LEAVE] = { ending_leave },
	[WIRE_CHANGE] = { manage_change, EVENT_CHANGE_REFUSED },
	[WIRE_DRAIN] = { manage_drain, EVENT_DRAIN_REFUSED },
	[WIRE_EVICT] = { manage_evict, .tell = refusal_of_evict },
	[WIRE_ISSUE] = { manage_issue, EVENT_ISSUE_REFUSED },
	[WIRE_REDEEM] = { acquire_redeem, .tell = refusal_of_redeem },
	[WIRE_QUIESCED] = { acquire_quiesced },
	[WIRE_REFRESH] = { inquiry_refresh },
	[WIRE_WAITS] = { inquiry_take },
	[WIRE_SNAPSHOT] = { snapshot },
	[WIRE_RIGHTS] = { acquire_rights },
	[WIRE_SEAL] = { manage_seal, EVENT_SEAL_REFUSED },
	[WIRE_RENAME] = { manage_rename, EVENT_RENAME_REFUSED },
	[WIRE_NEWER] = { lookup_newer },
	[WIRE_RESIZE] = { resize_begin, EVENT_RESIZE_REFUSED, BYTES(resize.size) },
	[WIRE_CANCEL] = { cancel },
};

/* ---- one message ---- */

/* Whether the session may send such a message now. */
static bool is_in_place(const struct session *session, unsigned type)
{
	unsigned traits = wire_row(type)->traits;

	if (!rows[type].handle || (session->state == SESSION_LEAVING && !(traits & WIRE_LATE)))
		return false;
	return !(traits & WIRE_OWED) || session->inquired.answer == ANSWER_OWED;
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

int dispatch_message(struct session *session, const struct wire_message *message)
{
	int error;

	if (!is_in_place(session, message->type))
		return error_set(-EPROTO, "it sent %s out of place", wire_row(message->type)->name);
	error = rows[message->type].handle(session, message);
	if (error) {
		tell_of_refusal(session, message, error, error_text());
		session_refuse(session, message->request, error, error_text());
	}
	return 0;
}
