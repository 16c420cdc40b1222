/* SPDX-License-Identifier: Apache-2.0 */
/* ending.c - see ending.h */
#include "ending.h"

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/registry/marks.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/fair-queue.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "create-queue.h"
#include "inquiry.h"
#include "manage.h"
#include "waiting.h"

/* Costs of work, like those of enum fair_cost: the broker's processor time as measured, in units of one message. */
#define COST_TIMELINE_END 2
#define COST_UNLINK       2 /* the unlink of an ephemeral buffer */

unsigned ending_expire(struct session *session)
{
	return waiting_expire(session->broker, session->id) ? COST_MESSAGE : 0;
}

unsigned ending_silence(struct session *session)
{
	if (waiting_forget(session->broker, session->id))
		return COST_MESSAGE;
	inquiry_forget(session);
	create_wake_forgotten(session->broker);
	return 0;
}

/*
 * Ends one timeline of the session, and returns false if none is left to end. Ends the timelines that the session
 * writes. If the session died, also ends timelines without a writer of buffers that the session created, because
 * clients that wait for these usually wait for the creator, and must not hang. If the session left in order, timelines
 * without a writer do not end, because another session may be meant to write them.
 */
static bool end_a_timeline(struct session *session, bool died)
{
	struct timelines *timelines = &session->timelines;
	struct timeline *timeline = timelines->written;

	if (timeline) {
		marks_end_timeline(session->broker->marks, timeline, died);
		timeline_writer_leave(timeline);
		return true;
	}
	timeline = died ? timelines->made : NULL;
	if (!timeline)
		return false;
	if (!timeline->writer)
		marks_end_timeline(session->broker->marks, timeline, died);
	timeline_creator_leave(timeline);
	return true;
}

/*
 * Unlinks one ephemeral buffer of the session. Returns false if none is left. A buffer that is still being made is only
 * taken off the session's list: creation.c unlinks it when it is made, because its creator has ended.
 */
static bool unlink_an_ephemeral(struct session *session)
{
	struct buffer *buffer = session->ephemerals;

	if (!buffer)
		return false;
	if (buffer->state == BUFFER_LIVE) {
		event_happened(session->broker, &(struct broker_event){ .kind = EVENT_UNLINK_ENDED,
									.actor = SESSION_PARTY(session),
									.name = buffer->name });
		manage_unlink(session->broker, buffer);
	} else {
		registry_disown(buffer);
	}
	return true;
}

unsigned ending_end(struct session *session)
{
	if (end_a_timeline(session, session->died))
		return COST_TIMELINE_END;
	return unlink_an_ephemeral(session) ? COST_UNLINK : 0;
}

/* ---- leave ---- */

static unsigned leave_piece(struct session *session)
{
	unsigned cost = ending_silence(session);

	if (!cost && !session_maps(session) && end_a_timeline(session, false))
		cost = COST_TIMELINE_END;
	return cost;
}

static bool leave_step(struct session *session)
{
	struct wire_message answer;

	while (fair_allows(&session->place)) {
		unsigned cost = leave_piece(session);

		fair_count_work(&session->place, cost);
		if (cost)
			continue;
		wire_init(&answer, WIRE_LEFT, session->leave_request);
		session_send(session, &answer, -1);
		CRASH_POINT(leave_sent);
		return true;
	}
	return false;
}

/* The task's drop(). Frees nothing, because the task is a member of the session. */
static void leave_drop(struct session_task *task)
{
	(void)task;
}

/*
 * Begins the end of a session by LEAVE. With LEAVE the client says that all its mappings are closed and all its signals
 * are complete, so that its timelines have their last value. A late signal, on a stream that no close waits for, is
 * still possible; marks.c corrects the timeline's page then.
 */
int ending_leave(struct session *session, const struct wire_message *message)
{
	CRASH_POINT(leave_received);
	session_drop_task(session);
	session->state = SESSION_LEAVING;
	tracked_changed(session->broker->tracking, &session->tracked);
	session->leave_request = message->request;
	session->leave = (struct session_task){ .step = leave_step, .drop = leave_drop };
	session->task = &session->leave;
	return 0;
}
