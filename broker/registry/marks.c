/* SPDX-License-Identifier: Apache-2.0 */
/* marks.c - see marks.h */
#include "marks.h"

#include <errno.h>
#include <time.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "timeline.h"

/* Without memory for the timer, on_timer() is called in the next pass of the loop. */
static void look_later(struct marks *marks, unsigned ms)
{
	struct timeval pause = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	bool set = !event_add(marks->timer, &pause);

	marks->soon = set && ms == MARKS_FIRST_MS;
	if (!set && !evtimer_pending(marks->timer, NULL))
		event_active(marks->timer, EV_TIMEOUT, 0);
}

static void look(struct broker *broker)
{
	struct marks *marks = broker->marks;
	struct timeline *timeline = marks->ended;

	DL_DELETE2(marks->ended, timeline, marks_prev, marks_next);
	DL_APPEND2(marks->ended, timeline, marks_prev, marks_next);
	/* the end of one that is due is not noted yet: a next broker would take the mark for the last value */
	if (timeline->due || !timeline_mark(timeline))
		return;
	broker->counters.timelines_marked++;
	broker_changed(broker);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	struct marks *marks = broker->marks;

	(void)fd;
	(void)what;
	for (int i = 0; i < MARKS_SCANS && marks->left; i++, marks->left--)
		look(broker);
	if (marks->left) {
		look_later(marks, MARKS_FIRST_MS);
	} else if (marks->count) {
		marks->left = marks->count;
		marks->pause_ms = 2 * marks->pause_ms < MARKS_LAST_MS ? 2 * marks->pause_ms : MARKS_LAST_MS;
		look_later(marks, marks->pause_ms);
	}
}

int marks_init(struct broker *broker)
{
	broker->marks->broker = broker;
	broker->marks->timer = event_new(broker->base, -1, EV_PERSIST, on_timer, broker);
	return broker->marks->timer ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void marks_deinit(struct marks *marks)
{
	while (marks->ended)
		marks_remove(marks->ended);
	if (marks->timer)
		event_free(marks->timer);
	marks->timer = NULL;
}

/*
 * Adds an ended timeline to the list, and begins a new round. Does not set the timer again if it was set to
 * MARKS_FIRST_MS, so that a stream of new ends does not postpone it.
 */
static void add(struct marks *marks, struct timeline *timeline)
{
	timeline->marks = marks;
	DL_APPEND2(marks->ended, timeline, marks_prev, marks_next);
	marks->pause_ms = MARKS_FIRST_MS;
	if (!marks->count || !marks->soon)
		look_later(marks, MARKS_FIRST_MS);
	marks->left = ++marks->count;
}

static void due_leave(struct marks *marks, struct timeline *timeline)
{
	if (timeline->due)
		DL_DELETE2(marks->due, timeline, due_prev, due_next);
	timeline->due = false;
}

void marks_publish_later(struct marks *marks, struct timeline *timeline)
{
	if (!marks->defers) {
		timeline_publish(timeline);
	} else if (!timeline->due) {
		timeline->due = true;
		DL_APPEND2(marks->due, timeline, due_prev, due_next);
	}
}

void marks_publish(struct marks *marks)
{
	while (marks->due) {
		struct timeline *timeline = marks->due;

		due_leave(marks, timeline);
		timeline_publish(timeline);
	}
}

void marks_end_timeline(struct marks *marks, struct timeline *timeline, bool died)
{
	if (timeline->mark)
		return;
	CRASH_POINT(timeline_ends);
	timeline_end(timeline, died);
	timeline->shown.ended_ms = (uint64_t)time(NULL) * 1000;
	tracked_changed(marks->broker->tracking, &timeline->shown.tracked);
	add(marks, timeline);
	marks_publish_later(marks, timeline);
	CRASH_POINT(timeline_ended);
	marks->broker->counters.timelines_died += died;
}

void marks_restore(struct marks *marks, struct timeline *timeline)
{
	if (!timeline->mark)
		return;
	add(marks, timeline);
	marks_publish_later(marks, timeline);
}

void marks_remove(struct timeline *timeline)
{
	struct marks *marks = timeline ? timeline->marks : NULL;

	if (!marks)
		return;
	timeline->marks = NULL;
	due_leave(marks, timeline);
	DL_DELETE2(marks->ended, timeline, marks_prev, marks_next);
	marks->count--;
	marks->left -= marks->left > marks->count;
	if (!marks->count)
		evtimer_del(marks->timer);
}
