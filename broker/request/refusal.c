/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c - see refusal.h */
#include "refusal.h"

#include <errno.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/session/session.h"
#include "common/name.h"
#include "common/wire.h"

void refusal_happened(struct session *session, enum event_kind kind, const char *name, uint64_t bytes, int error,
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

void refusal_of_waited_acquire(struct session *session, const struct wire_acquire *acquire, int error,
			       const char *text)
{
	if (error != -ENOENT && error != -ETIMEDOUT)
		refusal_happened(session, EVENT_ACQUIRE_REFUSED, acquire->name, 0, error, text);
}

void refusal_of_acquire(struct session *session, const struct wire_message *message, int error, const char *text)
{
	refusal_of_waited_acquire(session, &message->acquire, error, text);
}

void refusal_of_evict(struct session *session, const struct wire_message *message, int error, const char *text)
{
	uint64_t id = message->evict.session;
	const struct session *other = session_find(session->broker, id);

	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_EVICT_REFUSED,
								.error = error,
								.actor = SESSION_PARTY(session),
								.other = other ? SESSION_PARTY(other) :
										 (struct event_party){ .session = id },
								.text = text });
}

void refusal_of_redeem(struct session *session, const struct wire_message *message, int error, const char *text)
{
	(void)message;
	if (error == -EKEYREJECTED || error == -EKEYEXPIRED || error == -ESTALE)
		return;
	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_TICKET_VOID,
								.error = error,
								.actor = SESSION_PARTY(session),
								.text = text });
}
