/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - see session.h */
#include "session.h"

#include <errno.h>
#include <poll.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "common/crash-point.h"

struct session *session_find(struct broker *broker, uint64_t id)
{
	struct session *session;

	HASH_FIND(hh, broker->sessions->by_id, &id, sizeof id, session);
	return session;
}

bool session_is_welcome(const struct session *session)
{
	return session->state != SESSION_ARRIVED && session->state != SESSION_GREETING;
}

bool session_maps(const struct session *session)
{
	return HASH_COUNT(session->mappings.by_id) > session->mappings.orphaned;
}

bool session_socket_is_closed(const struct session *session)
{
	struct pollfd p = { .fd = session->fd };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/* Also stops the greeting's time limit, because the time that the session waits in the queue must not count. */
void session_wait(struct session *session)
{
	if (session->reading)
		event_remove_timer(session->reading);
	fair_wait(&session->place);
}

void session_owe(struct session *session, unsigned due)
{
	session->due |= due;
	if (!session->place.urgent) /* it may wait in the middle of its user's queue */
		fair_drop(&session->place);
	session->place.urgent = true;
	session_wait(session);
}

/* ---- sending ---- */

/*
 * Returns how many messages the broker may send that the client has not asked for: a NOTICE for each grant and for each
 * mapping, and one INQUIRE. The client is not disconnected because these messages wait.
 */
static unsigned notices_due(void *context)
{
	const struct session *session = context;

	return HASH_COUNT(session->mappings.by_id) + session->mappings.grant_count +
	       (session->inquired.answer == ANSWER_OWED);
}

static void on_sent(void *context, uint64_t request)
{
	struct session *session = context;

	pending_end(&session->broker->sessions->pendings, &session->pending, request);
}

static void on_room(void *context)
{
	session_wait(context);
}

static void on_unsent(void *context, const char *reason)
{
	session_disconnect(context, reason);
}

int session_open_outbox(struct session *session)
{
	const struct outbox_owner owner = { .due = notices_due,
					    .failed = on_unsent,
					    .room = on_room,
					    .sent = on_sent,
					    .context = session,
					    .outboxes = &session->broker->sessions->outboxes,
					    .tracking = session->broker->notes ? session->broker->tracking : NULL,
					    .session = session->id,
					    .accounting = session->broker->accounting,
					    .uid = session->who.uid };

	return outbox_open(&session->outbox, session->broker->base, session->fd, &owner);
}

/*
 * Notes that a request is answered. One whose answer no other broker can give is answered when that is sent
 * (on_sent()).
 */
static void count_answer(struct session *session, const struct wire_message *message, int fd)
{
	if (!message->request || message->type == WIRE_PART || outbox_is_bound(message, fd))
		return;
	session->answered |= message->request == session->handled;
	pending_end(&session->broker->sessions->pendings, &session->pending, message->request);
}

void session_send(struct session *session, const struct wire_message *message, int fd)
{
	count_answer(session, message, fd);
	if (session->fd >= 0 && session->state != SESSION_DISCONNECTED)
		outbox_send(&session->outbox, message, fd);
}

void sessions_send(struct broker *broker)
{
	if (!broker->sessions->outboxes.changed)
		return;
	broker->sessions->open = false;
	broker_publish(broker);
	outboxes_send(&broker->sessions->outboxes);
}

void sessions_commit(struct broker *broker)
{
	sessions_send(broker);
	if (broker->sessions->open || broker->tracking->urgent)
		broker_commit(broker);
	broker->sessions->open = false;
}

int session_check_descriptors(struct session *session, unsigned descriptors)
{
	return session->fd >= 0 && session->state != SESSION_DISCONNECTED ?
		       outbox_check(&session->outbox, descriptors) :
		       0;
}

void session_done(struct session *session, uint64_t request, int fd)
{
	struct wire_message message;

	wire_init(&message, WIRE_DONE, request);
	session_send(session, &message, fd);
}

void session_drop_task(struct session *session)
{
	struct session_task *task = session->task;

	session->task = NULL;
	if (task)
		task->drop(task);
}

static uint64_t *refusals_of(struct counters *counters, int error)
{
	switch (-error) {
	case ENOENT:
		return &counters->refused_no_name;
	case ETIMEDOUT:
		return &counters->refused_timeout;
	case EEXIST:
		return &counters->refused_exists;
	case EACCES:
		return &counters->refused_access;
	case ENOMEM:
		return &counters->refused_memory;
	case EDQUOT:
		return &counters->refused_quota;
	case EKEYREJECTED:
	case EKEYEXPIRED:
	case ESTALE:
		return &counters->refused_ticket;
	default:
		return &counters->refused_other;
	}
}

void session_refuse(struct session *session, uint64_t request, int error, const char *text)
{
	struct wire_message message;

	++*refusals_of(&session->broker->counters, error);
	broker_changed(session->broker);
	wire_refuse(&message, request, error, text);
	session_send(session, &message, -1);
	CRASH_POINT(refused);
}

/* ---- disconnecting ---- */

/*
 * Puts the session into the state SESSION_DISCONNECTED, and activates its reading event, whose callback in serve.c ends
 * the requests and discards what the client sends.
 */
static void disconnect(struct session *session)
{
	session->broker->counters.sessions_cut++;
	if (!session_is_welcome(session))
		tracked_begin(session->broker->tracking, &session->tracked, TRACKED_SESSION);
	session->state = SESSION_DISCONNECTED;
	tracked_changed(session->broker->tracking, &session->tracked);
	fair_drop(&session->place);
	outbox_stop(&session->outbox);
	event_remove_timer(session->reading);
	event_active(session->reading, EV_READ, 0);
}

void session_disconnect(struct session *session, const char *reason)
{
	if (session->state == SESSION_DISCONNECTED)
		return;
	event_happened(session->broker,
		       &(struct broker_event){ .kind = EVENT_CUT, .actor = SESSION_PARTY(session), .text = reason });
	disconnect(session);
}

void session_evict(struct session *session, const struct session *by)
{
	if (session->state == SESSION_DISCONNECTED)
		return;
	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_EVICT,
								.actor = SESSION_PARTY(by),
								.other = SESSION_PARTY(session) });
	disconnect(session);
}
