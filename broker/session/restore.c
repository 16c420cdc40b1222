/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c - see restore.h */
#include "restore.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/context.h"
#include "common/error.h"
#include "greeting.h"
#include "session-end.h"
#include "session.h"

void session_note(const struct session *session, struct session_record *record)
{
	*record = (struct session_record){ .id = session->id,
					   .start = session->start,
					   .since = (uint64_t)session->since,
					   .leave_request = session->leave_request,
					   .pid = (uint32_t)session->pid,
					   .own_pid = session->own_pid,
					   .rank = session->rank,
					   .revision = session->revision,
					   .uid = session->who.uid,
					   .gid = session->who.gid,
					   .state = (uint8_t)session->state,
					   .opened = session->opened,
					   .answers = session->answers,
					   .mps = session->proof.mps,
					   .hung_up = session->fd < 0,
					   .owes = session->inquired.answer == ANSWER_OWED };
	memcpy(record->command, session->command, sizeof record->command);
}

static int record_check(struct broker *broker, const struct session_record *record,
			const struct session_descriptors *kept)
{
	bool is_known = record->state == SESSION_OPEN || record->state == SESSION_LEAVING ||
			record->state == SESSION_DISCONNECTED;

	if (record->id && !session_find(broker, record->id) && is_known &&
	    kept->pidfd >= 0 && (kept->sock >= 0) == !record->hung_up &&
	    memchr(record->command, 0, sizeof record->command))
		return 0;
	return error_set(-EBADMSG, "the ledger's record of session %llu is of none that can be",
			 (unsigned long long)record->id);
}

/* The groups are those of the socket's peer; who has hung up asks for nothing any more. */
static int identify(struct session *session, const struct session_record *record)
{
	int error;

	session->who.uid = record->uid;
	session->who.gid = record->gid;
	session->pid = (pid_t)record->pid;
	if (session->fd < 0)
		return 0;
	error = identity_of_peer(session->fd, &session->pid, &session->who);
	if (!error && (session->pid != (pid_t)record->pid || session->who.uid != record->uid))
		error = error_set(-EBADMSG, "the socket that was kept for session %llu is another process's",
				  (unsigned long long)record->id);
	return error;
}

static void copy(struct session *session, const struct session_record *record)
{
	session->id = session->mappings.session = record->id;
	session->start = record->start;
	session->since = (time_t)record->since;
	session->leave_request = record->leave_request;
	session->own_pid = record->own_pid;
	session->rank = record->rank;
	session->revision = record->revision;
	session->state = (enum session_state)record->state;
	session->opened = record->opened;
	session->answers = record->answers;
	session->proof.mps = record->mps;
	session->hung_up = record->hung_up;
	session->inquired.answer = record->owes ? ANSWER_OWED : ANSWER_NONE;
	memcpy(session->command, record->command, sizeof session->command);
}

static int enter(struct session *session, event_callback_fn ready)
{
	struct broker *broker = session->broker;
	struct accounting *accounting = broker->accounting;
	int error = charge_restore(&session->charge, accounting, session->who.uid, RESOURCE_SESSIONS, 1);

	if (!error)
		error = charge_restore(&session->descriptors, accounting, session->who.uid, RESOURCE_DESCRIPTORS,
				       SESSION_DESCRIPTORS);
	if (!error)
		error = fair_join(broker->queue, &session->place, session->who.uid);
	if (!error)
		error = session_make_key(session);
	if (!error)
		error = session_watch(session, ready);
	if (error)
		return error;
	HASH_ADD(hh, broker->sessions->by_id, id, sizeof session->id, session);
	return table_added(session) ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

/* Undoes what enter() and identify() have done. The descriptors stay open. */
static void discard(struct session *session)
{
	struct accounting *accounting = session->broker->accounting;

	if (session->reading)
		event_free(session->reading);
	if (session->death)
		event_free(session->death);
	outbox_close(&session->outbox);
	sodium_free(session->key);
	fair_leave(&session->place);
	charge_release(&session->descriptors, accounting);
	charge_release(&session->charge, accounting);
	identity_clear(&session->who);
	free(session);
}

int session_restore(struct broker *broker, const struct session_record *record,
		    const struct session_descriptors *kept, event_callback_fn ready, struct session **result)
{
	struct session *session;
	int error = record_check(broker, record, kept);

	if (!error)
		error = tracking_reserve(broker->tracking, 1);
	if (error)
		return error;
	session = calloc(1, sizeof *session);
	if (!session)
		return error_set(-ENOMEM, "the broker is out of memory");
	session->broker = broker;
	session->fd = kept->sock;
	session->pidfd = kept->pidfd;
	session->reserved = -1;
	copy(session, record);
	error = identify(session, record);
	if (!error)
		error = enter(session, ready);
	if (error) {
		discard(session);
		return error;
	}
	tracked_begin(broker->tracking, &session->tracked, TRACKED_SESSION);
	session->before = true;
	broker->sessions->before++;
	*result = session;
	return 0;
}

/* ---- requests ---- */

/* Refuses a request of which the last broker has sent a part. No counter and no event tells of it. */
static void ask_again(struct session *session, uint64_t request)
{
	struct wire_message message;

	wire_refuse(&message, request, -EAGAIN, "the broker was replaced meanwhile: ask again");
	session_send(session, &message, -1);
}

static void handle_again(struct broker *broker, const struct pending *pending)
{
	struct session *session = session_find(broker, pending->session);
	struct wire_message message = pending->message;

	if (!session || session->state == SESSION_DISCONNECTED)
		return;
	pending_shorten(&message, pending->received_ms);
	session->awaited = pending->serial;
	if (message.type == WIRE_LEAVE)
		session->state = SESSION_OPEN;
	if (message.type == WIRE_LIST || message.type == WIRE_SNAPSHOT)
		ask_again(session, message.request);
	else if (broker->sessions->hooks->message(session, &message))
		session_disconnect(session, error_text());
	session->awaited = 0;
}

static int by_order(const void *one, const void *other)
{
	const struct pending *a = one, *b = other;

	return a->order < b->order ? -1 : a->order > b->order;
}

static size_t count_pending(const struct broker *broker)
{
	const struct session *session;
	size_t count = 0;

	for (session = broker->sessions->by_id; session; session = session->hh.next)
		count += HASH_COUNT(session->pending);
	return count;
}

static void copy_pending(const struct broker *broker, struct pending *copies)
{
	const struct session *session;
	const struct pending *pending;

	for (session = broker->sessions->by_id; session; session = session->hh.next)
		for (pending = session->pending; pending; pending = pending->hh.next)
			*copies++ = *pending;
}

/* Handles copies, because the handler of one request may end others. */
int sessions_resume_pending(struct broker *broker)
{
	size_t count = count_pending(broker);
	struct pending *copies = count ? calloc(count, sizeof *copies) : NULL;

	if (!count)
		return 0;
	if (!copies)
		return error_set(-ENOMEM, "the broker is out of memory");
	copy_pending(broker, copies);
	qsort(copies, count, sizeof *copies, by_order);
	for (size_t i = 0; i < count; i++)
		handle_again(broker, &copies[i]);
	free(copies);
	return 0;
}
