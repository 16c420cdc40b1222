/* SPDX-License-Identifier: Apache-2.0 */
/* inquiry.c - see inquiry.h */
#include "inquiry.h"

#include <errno.h>
#include <stdlib.h>

#include <event2/event.h>
#include <utlist.h>

#include "broker/base/context.h"
#include "broker/registry/mappings.h"
#include "broker/registry/timeline.h"
#include "broker/session/session.h"
#include "common/error.h"
#include "common/now.h"

/* largest number, in a pass of the loop, of sessions asked, of timelines read, and of REFRESHes answered */
#define ASKED_MAX 16

/* ---- rounds ---- */

static void timer_start(struct inquiry *inquiry, uint64_t ms)
{
	struct timeval after = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	evtimer_add(inquiry->timer, &after);
}

/*
 * Begins a round. Its end answers each REFRESH received so far, because all sessions are asked after these REFRESHes.
 */
static void round_begin(struct inquiry *inquiry)
{
	struct session *session;

	inquiry->state = INQUIRY_ASKING;
	inquiry->round++;
	inquiry->awaited = 0;
	inquiry->began_ms = now_ms(CLOCK_MONOTONIC);
	inquiry->served = inquiry->next;
	inquiry->next = NULL;
	DL_FOREACH2(inquiry->served, session, inquired.asking_next)
		session->inquired.asking = &inquiry->served;
	timer_start(inquiry, INQUIRY_MS);
}

static void round_begin_if_wanted(struct inquiry *inquiry)
{
	if (inquiry->state == INQUIRY_IDLE && inquiry->next)
		round_begin(inquiry);
}

static void round_end(struct inquiry *inquiry)
{
	uint64_t took = now_ms(CLOCK_MONOTONIC) - inquiry->began_ms;

	evtimer_del(inquiry->timer);
	inquiry->state = took < INQUIRY_PAUSE_MS ? INQUIRY_PAUSED : INQUIRY_IDLE;
	if (inquiry->state == INQUIRY_PAUSED)
		timer_start(inquiry, INQUIRY_PAUSE_MS - took);
	/* there is no pause, or no memory for the timer that would end the pause */
	if (!evtimer_pending(inquiry->timer, NULL))
		inquiry->state = INQUIRY_IDLE;
	round_begin_if_wanted(inquiry);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
	struct inquiry *inquiry = argument;

	(void)fd;
	(void)what;
	if (inquiry->state == INQUIRY_ASKING || inquiry->state == INQUIRY_AWAITING)
		inquiry->state = INQUIRY_ANSWERING;
	else if (inquiry->state == INQUIRY_PAUSED)
		inquiry->state = INQUIRY_IDLE;
	round_begin_if_wanted(inquiry);
}

/* ---- asking ---- */

/*
 * Sends an INQUIRE, unless the session has an unanswered one or its library does not know INQUIRE. The answer to the
 * unanswered INQUIRE will tell what the process waits for at the time of the answer.
 */
static void session_ask(struct inquiry *inquiry, struct session *session)
{
	struct inquired *inquired = &session->inquired;
	struct wire_message message;

	inquired->round = inquiry->round;
	inquired->counted = session->answers;
	inquiry->awaited += session->answers;
	tracked_changed(session->broker->tracking, &session->tracked);
	if (session->answers && inquired->answer != ANSWER_OWED) {
		inquired->answer = ANSWER_OWED;
		wire_init(&message, WIRE_INQUIRE, 0);
		session_send(session, &message, -1);
	} else if (!session->answers) {
		inquired->answer = ANSWER_UNKNOWN;
	}
}

/* Asks a few sessions. Returns true if all sessions have been asked in this round. */
static bool ask_some(struct inquiry *inquiry)
{
	struct session *session;

	for (int i = 0; i < ASKED_MAX; i++) {
		session = inquiry->sessions;
		if (!session || session->inquired.round == inquiry->round)
			return true;
		DL_DELETE2(inquiry->sessions, session, inquired.prev, inquired.next);
		DL_APPEND2(inquiry->sessions, session, inquired.prev, inquired.next);
		session_ask(inquiry, session);
	}
	return false;
}

/*
 * Marks a few timelines as changed, so that the status file gets the value that each has when its record is written.
 * Returns true if all timelines have been marked in this round.
 */
static bool read_some(struct broker *broker)
{
	struct inquiry *inquiry = broker->inquiry;
	struct timeline *timeline;

	for (int i = 0; i < ASKED_MAX; i++) {
		timeline = inquiry->timelines;
		if (!timeline || timeline->shown.round == inquiry->round)
			return true;
		DL_DELETE2(inquiry->timelines, timeline, shown.prev, shown.next);
		DL_APPEND2(inquiry->timelines, timeline, shown.prev, shown.next);
		timeline->shown.round = inquiry->round;
		tracked_changed(broker->tracking, &timeline->shown.tracked);
	}
	return false;
}

static void answer_some(struct inquiry *inquiry)
{
	struct session *session;

	for (int i = 0; i < ASKED_MAX && inquiry->served; i++) {
		session = inquiry->served;
		DL_DELETE2(inquiry->served, session, inquired.asking_prev, inquired.asking_next);
		session->inquired.asking = NULL;
		session_done(session, session->inquired.request, -1);
	}
}

bool inquiry_more(struct broker *broker)
{
	struct inquiry *inquiry = broker->inquiry;
	bool asked, read;

	if (inquiry->state == INQUIRY_ASKING) {
		asked = ask_some(inquiry);
		read = read_some(broker);
		if (asked && read)
			inquiry->state = inquiry->awaited && evtimer_pending(inquiry->timer, NULL) ? INQUIRY_AWAITING :
												     INQUIRY_ANSWERING;
	} else if (inquiry->state == INQUIRY_ANSWERING) {
		answer_some(inquiry);
		if (!inquiry->served)
			round_end(inquiry);
	}
	return inquiry->state == INQUIRY_ASKING || inquiry->state == INQUIRY_ANSWERING;
}

int inquiry_refresh(struct session *session, const struct wire_message *message)
{
	struct inquiry *inquiry = session->broker->inquiry;
	struct inquired *inquired = &session->inquired;

	if (inquired->asking)
		return error_set(-EBUSY, "this session has asked for a refresh already: wait for its answer");
	inquired->asking = &inquiry->next;
	inquired->request = message->request;
	DL_APPEND2(inquiry->next, session, inquired.asking_prev, inquired.asking_next);
	round_begin_if_wanted(inquiry);
	return 0;
}

/* ---- answers ---- */

static void waits_drop(struct session *session)
{
	struct reported_wait *wait, *next;

	DL_FOREACH_SAFE(session->inquired.waits, wait, next) {
		DL_DELETE(session->inquired.waits, wait);
		tracked_end(session->broker->tracking, &wait->tracked);
		free(wait);
	}
}

/* Returns the beginning of a wait that has lasted age_ms, in milliseconds since 1970. An impossible age counts as 0. */
static uint64_t since_of(uint64_t age_ms)
{
	uint64_t now = now_ms(CLOCK_REALTIME);

	return age_ms < now ? now - age_ms : now;
}

/*
 * Records a wait that the process claims. Ignores a claim for a buffer that the session has no grant of, or that has no
 * timeline. Returns false if there is no memory.
 */
static bool wait_take(struct session *session, const struct wire_wait *claim)
{
	const struct mapping *mapping = mappings_find(&session->mappings, claim->mapping);
	const struct grant *grant = mapping ? mapping_find_grant(mapping, claim->serial) : NULL;
	struct reported_wait *wait;

	if (!grant || !grant->buffer->timeline)
		return true;
	wait = calloc(1, sizeof *wait);
	if (!wait)
		return false;
	*wait = (struct reported_wait){ .session = session->id,
					.serial = grant->buffer->serial,
					.value = claim->value,
					.since_ms = since_of(claim->age_ms),
					.device = mapping->device };
	DL_APPEND(session->inquired.waits, wait);
	tracked_begin(session->broker->tracking, &wait->tracked, TRACKED_WAIT);
	return true;
}

static void uncount(struct session *session)
{
	struct inquiry *inquiry = session->broker->inquiry;
	struct inquired *inquired = &session->inquired;

	if (inquired->counted && inquired->round == inquiry->round &&
	    (inquiry->state == INQUIRY_ASKING || inquiry->state == INQUIRY_AWAITING)) {
		inquiry->awaited--;
		if (inquiry->state == INQUIRY_AWAITING && !inquiry->awaited)
			inquiry->state = INQUIRY_ANSWERING;
	}
	inquired->counted = false;
}

int inquiry_take(struct session *session, const struct wire_message *message)
{
	struct inquired *inquired = &session->inquired;
	const struct wire_waits *waits = &message->waits;

	if (!inquired->messages++) {
		waits_drop(session);
		inquired->partial = false;
	}
	for (unsigned i = 0; i < waits->count && inquired->listed; i++)
		inquired->partial |= !wait_take(session, &waits->wait[i]);
	if (waits->more && inquired->messages < WIRE_WAITS_ANSWER)
		return 0;
	inquired->partial |= waits->more;
	inquired->messages = 0;
	inquired->answer = ANSWER_GIVEN;
	inquired->answered_ms = now_ms(CLOCK_REALTIME);
	tracked_changed(session->broker->tracking, &session->tracked);
	uncount(session);
	return 0;
}

/* ---- who is asked, what is shown ---- */

void inquiry_join(struct session *session)
{
	if (session->inquired.listed)
		return;
	session->inquired.listed = true;
	DL_APPEND2(session->broker->inquiry->sessions, session, inquired.prev, inquired.next);
}

void inquiry_forget(struct session *session)
{
	struct inquired *inquired = &session->inquired;

	waits_drop(session);
	uncount(session);
	if (inquired->listed)
		DL_DELETE2(session->broker->inquiry->sessions, session, inquired.prev, inquired.next);
	inquired->listed = false;
	if (inquired->asking)
		DL_DELETE2(*inquired->asking, session, inquired.asking_prev, inquired.asking_next);
	inquired->asking = NULL;
}

void inquiry_watch(struct broker *broker, struct timeline *timeline)
{
	timeline->shown.among = &broker->inquiry->timelines;
	DL_PREPEND2(broker->inquiry->timelines, timeline, shown.prev, shown.next);
	tracked_begin(broker->tracking, &timeline->shown.tracked, TRACKED_TIMELINE);
}

int inquiry_init(struct broker *broker)
{
	broker->inquiry->timer = evtimer_new(broker->base, on_timer, broker->inquiry);
	return broker->inquiry->timer ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void inquiry_deinit(struct broker *broker)
{
	struct inquiry *inquiry = broker->inquiry;

	while (inquiry->sessions)
		inquiry_forget(inquiry->sessions);
	while (inquiry->next)
		inquiry_forget(inquiry->next);
	while (inquiry->served)
		inquiry_forget(inquiry->served);
	if (inquiry->timer)
		event_free(inquiry->timer);
	inquiry->timer = NULL;
}
