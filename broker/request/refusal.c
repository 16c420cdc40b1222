/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c - see refusal.h */
#include "refusal.h"

#include <errno.h>
#include <stdbool.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/session/session.h"
#include "common/name.h"
#include "common/wire.h"

static void happened(struct session *session, enum event_kind kind, const char *name, uint64_t bytes, int error,
		     const char *text)
{
	char copy[NAME_SIZE];

	event_happened(session->broker, &(struct broker_event){ .kind = kind,
								.error = error,
								.actor = SESSION_PARTY(session),
								.bytes = bytes,
								.name = name_printable(name, copy),
								.text = text });
}

void refusal_of_acquire(struct session *session, const struct wire_acquire *acquire, int error, const char *text)
{
	if (error != -ENOENT && error != -ETIMEDOUT)
		happened(session, EVENT_ACQUIRE_REFUSED, acquire->name, 0, error, text);
}

static void of_evict(struct session *session, uint64_t id, int error, const char *text)
{
	const struct session *other = session_find(session->broker, id);

	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_EVICT_REFUSED,
								.error = error,
								.actor = SESSION_PARTY(session),
								.other = other ? SESSION_PARTY(other) :
										 (struct event_party){ .session = id },
								.text = text });
}

/* What is wrong with a ticket is an event of its own: delegation.c. */
static bool is_of_ticket(int error)
{
	return error == -EKEYREJECTED || error == -EKEYEXPIRED || error == -ESTALE;
}

void refusal_happened(struct session *session, const struct wire_message *message, int error, const char *text)
{
	switch (message->type) {
	case WIRE_CREATE:
		happened(session, EVENT_CREATE_REFUSED, message->create.name, message->create.size, error, text);
		break;
	case WIRE_UNLINK:
		happened(session, EVENT_UNLINK_REFUSED, message->name.name, 0, error, text);
		break;
	case WIRE_ACQUIRE:
		refusal_of_acquire(session, &message->acquire, error, text);
		break;
	case WIRE_CHANGE:
		happened(session, EVENT_CHANGE_REFUSED, message->change.name, 0, error, text);
		break;
	case WIRE_SEAL:
		happened(session, EVENT_SEAL_REFUSED, message->name.name, 0, error, text);
		break;
	case WIRE_RENAME:
		happened(session, EVENT_RENAME_REFUSED, message->rename.name, 0, error, text);
		break;
	case WIRE_RESIZE:
		happened(session, EVENT_RESIZE_REFUSED, message->resize.name, message->resize.size, error, text);
		break;
	case WIRE_DRAIN:
		happened(session, EVENT_DRAIN_REFUSED, message->drain.name, 0, error, text);
		break;
	case WIRE_EVICT:
		of_evict(session, message->evict.session, error, text);
		break;
	case WIRE_ISSUE:
		happened(session, EVENT_ISSUE_REFUSED, message->issue.name, 0, error, text);
		break;
	case WIRE_REDEEM:
		if (!is_of_ticket(error))
			event_happened(session->broker, &(struct broker_event){ .kind = EVENT_TICKET_VOID,
										.error = error,
										.actor = SESSION_PARTY(session),
										.text = text });
		break;
	default:
		break;
	}
}
