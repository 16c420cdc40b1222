/* SPDX-License-Identifier: Apache-2.0 */
/* ending.c - see ending.h */
#include "ending.h"

#include <time.h>

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

static void end_timeline(struct broker *broker, struct timeline *timeline, bool died)
{
	if (timeline->mark)
		return;
	CRASH_POINT(timeline_ends);
	timeline_end(timeline, died);
	timeline->shown.ended_ms = (uint64_t)time(NULL) * 1000;
	tracked_changed(broker->tracking, &timeline->shown.tracked);
	marks_add(broker->marks, timeline);
	CRASH_POINT(timeline_ended);
	broker->counters.timelines_died += died;
}

/* The broker's processor time for a piece of a session's end, in messages, as measured. */
#define COST_TIMELINE_END 2
#define COST_UNLINK       2 /* of a buffer that ends with its creator */

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
 * Ends one of the timelines that the session writes. If the session died, also one of a buffer that the session made
 * and that nobody has signalled: whoever waits there waits for the creator, as a rule, and must not hang. A creator
 * that leaves in order may have made the buffer for others. False: no timeline is left.
 */
static bool end_a_timeline(struct session *session, bool died)
{
	struct timelines *timelines = &session->timelines;
	struct timeline *timeline = timelines->written;

	if (timeline) {
		end_timeline(session->broker, timeline, died);
		timeline_writer_leave(timeline);
		return true;
	}
	timeline = died ? timelines->made : NULL;
	if (!timeline)
		return false;
	if (!timeline->writer)
		end_timeline(session->broker, timeline, died);
	timeline_creator_leave(timeline);
	return true;
}

/*
 * Unlinks one of the buffers that end with the session. A buffer that is still being made goes when it is made:
 * creation.c looks whether its creator has ended. False: none is left.
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

/* Frees nothing: the task is a member of its session. */
static void leave_drop(struct session_task *task)
{
	(void)task;
}

/*
 * Begins the end of a session whose client has closed all mappings and says that all its signals have landed, so that
 * its timelines have their last value. marks.c looks for a signal that lands all the same, on a stream that no close
 * waits for.
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
