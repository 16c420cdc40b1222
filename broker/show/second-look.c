/* SPDX-License-Identifier: Apache-2.0 */
/* second-look.c - see second-look.h */
#include "second-look.h"

#include <errno.h>
#include <stdbool.h>

#include "common/error.h"
#include "views.h"

static uint64_t waiter_of(const union status_record *record)
{
	return record->type == TRACKED_WAIT ? record->wait.session : record->request.session;
}

static bool same_request(const struct status_request *one, const struct status_request *other)
{
	return one->kind == other->kind && one->since == other->since && one->generation == other->generation;
}

/*
 * Returns true if a wait or request made no progress: both looks have its record, and its timeline has the same value.
 */
static bool is_in_both(const struct views *views, const struct views *others, const union status_record *wait)
{
	bool stream = wait->type == TRACKED_WAIT;
	const struct view *view = &others->view[stream ? WAITS : REQUESTS];
	const union status_record *one, *other;

	if (stream) {
		one = view_one(&views->view[TIMELINES], wait->wait.generation);
		other = view_one(&others->view[TIMELINES], wait->wait.generation);
		if (!one || !other || one->timeline.value != other->timeline.value)
			return false;
	}
	for (size_t i = view_find(view, waiter_of(wait)); view_has(view, i, waiter_of(wait)); i++)
		if (stream ? view->at[i]->wait.generation == wait->wait.generation &&
				     view->at[i]->wait.value == wait->wait.value :
			     same_request(&view->at[i]->request, &wait->request))
			return true;
	return false;
}

/* Marks a session as partial, because the process's present waits are not known. */
static void doubt(const struct views *views, uint64_t session)
{
	union status_record *record = (union status_record *)view_one(&views->view[SESSIONS], session);

	if (record)
		record->session.partial = 1;
}

static void doubt_who_moved(const struct views *views, const struct views *others, const struct views *now,
			    size_t which)
{
	const struct view *view = &views->view[which];

	for (size_t i = 0; i < view->count; i++)
		if (!is_in_both(views, others, view->at[i]))
			doubt(now, waiter_of(view->at[i]));
}

/* Marks the sessions that have signalled a timeline between the looks. */
static void doubt_writers(const struct views *now, const struct views *before)
{
	const struct view *timelines = &now->view[TIMELINES];
	const union status_record *then;

	for (size_t i = 0; i < timelines->count; i++) {
		then = view_one(&before->view[TIMELINES], timelines->at[i]->timeline.generation);
		if (timelines->at[i]->timeline.value != (then ? then->timeline.value : 0))
			doubt(now, timelines->at[i]->timeline.writer);
	}
}

static void doubt_all(const struct views *views)
{
	for (size_t i = 0; i < views->view[SESSIONS].count; i++)
		doubt(views, views->view[SESSIONS].at[i]->session.id);
}

/* Drops waits whose timeline has advanced between the looks, because they make progress. */
static void leave_out_what_moves(union status_record *records, size_t count, const struct views *now,
				 const struct views *before)
{
	const union status_record *one, *other;

	for (size_t i = 0; i < count; i++) {
		if (records[i].type != TRACKED_WAIT)
			continue;
		one = view_one(&now->view[TIMELINES], records[i].wait.generation);
		other = view_one(&before->view[TIMELINES], records[i].wait.generation);
		if (one && other && one->timeline.value != other->timeline.value)
			records[i].type = TRACKED_NONE;
	}
}

int looks_compare(union status_record *records, size_t count, const union status_record *before, size_t before_count)
{
	struct views now, then;
	bool made = views_make(&now, records, count);

	made = views_make(&then, before, before_count) && made;
	if (made && before) {
		for (size_t which = WAITS; which <= REQUESTS; which++) {
			doubt_who_moved(&now, &then, &now, which);
			doubt_who_moved(&then, &now, &now, which);
		}
		doubt_writers(&now, &then);
		leave_out_what_moves(records, count, &now, &then);
	} else if (made) {
		doubt_all(&now);
	}
	views_free(&now);
	views_free(&then);
	return made ? 0 : error_set(-ENOMEM, "out of memory");
}
