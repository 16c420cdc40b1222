/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - see explain.h */
#include "explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "broker/base/log.h"
#include "broker/base/process-start.h"
#include "common/now.h"
#include "look.h"
#include "refresh.h"
#include "views.h"
#include "why.h"

static void print_line(void *context, const char *line)
{
	(void)context;
	puts(line);
}

/* The numbers of its processes are others here, and it serves none of this namespace. */
static bool is_elsewhere(const struct shown *shown)
{
	return shown->state == SHOWN_RUNNING && process_start(shown->header.pid, NULL) != shown->header.start_time;
}

/* Why what follows may not be true any more. reason: why a broker that runs was not asked; empty: it was. */
static void print_doubt(const struct shown *shown, const char *reason)
{
	unsigned long long pid = shown->header.pid, now = (unsigned long long)time(NULL);
	unsigned long long age = now > shown->header.updated ? now - shown->header.updated : 0; /* the clock may have gone back */

	if (shown->partial)
		printf("The broker '%s' shows this user its own objects, and who holds them: others' waits are not among these.\n",
		       shown->instance);
	if (!shown->trusted)
		printf("The status file of '%s' may be anybody's word: its owner is uid %u.\n", shown->instance, shown->owner);
	if (shown->state == SHOWN_DEAD)
		printf("The broker '%s' is dead. This is what it knew %llu s ago:\n", shown->instance, age);
	else if (shown->state == SHOWN_STOPPED)
		printf("The broker '%s' is stopped by a signal: kill -CONT %llu. This is what it knew %llu s ago:\n",
		       shown->instance, pid, age);
	else if (is_elsewhere(shown))
		printf("The broker '%s' runs in another pid namespace, as in a container: it cannot be asked from here, and the "
		       "numbers of processes are those there. This is what it knew %llu s ago:\n",
		       shown->instance, age);
	else if (*reason)
		printf("The broker '%s' was not asked: %s. This is what it knew %llu s ago:\n", shown->instance, reason, age);
}

/* The status of a broker that has just asked its clients. reason: see print_doubt(). */
static int read_fresh(struct shown *shown, const char *instance, char reason[ERROR_TEXT_MAX])
{
	int error = shown_read_or_ask(shown, instance);

	reason[0] = 0;
	if (error || shown->state != SHOWN_RUNNING || is_elsewhere(shown))
		return error;
	if (refresh(shown)) {
		snprintf(reason, ERROR_TEXT_MAX, "%s", error_text());
		return 0;
	}
	shown_free(shown);
	return shown_read_or_ask(shown, instance);
}

static void print_nothing(void *context, const char *line)
{
	(void)context;
	(void)line;
}

static int explain(const struct shown *shown, const char *about, void (*say)(void *, const char *), struct why_found *found)
{
	struct why why = { .records = shown->records,
			   .count = shown->count,
			   .about = about,
			   .live = shown->state != SHOWN_DEAD,
			   .look = is_elsewhere(shown) ? NULL : process_look,
			   .say = say,
			   .now_ms = now_ms(CLOCK_REALTIME) };

	return why_explain(&why, found);
}

/* ---- a second look: programs that queue work far ahead look like a deadlock in every single one ---- */

static uint64_t waiter_of(const union status_record *record)
{
	return record->type == TRACKED_WAIT ? record->wait.session : record->request.session;
}

static bool same_request(const struct status_request *one, const struct status_request *other)
{
	return one->kind == other->kind && one->since == other->since && one->generation == other->generation;
}

/* Nothing of it has moved: the same session has the same wait in both, and the timeline has the same value. */
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
		if (stream ? view->at[i]->wait.generation == wait->wait.generation && view->at[i]->wait.value == wait->wait.value :
			     same_request(&view->at[i]->request, &wait->request))
			return true;
	return false;
}

/* Nothing says what it waits for. */
static void doubt(const struct views *views, uint64_t session)
{
	union status_record *record = (union status_record *)view_one(&views->view[SESSIONS], session);

	if (record)
		record->session.partial = 1;
}

static void doubt_who_moved(const struct views *views, const struct views *others, const struct views *now, size_t which)
{
	const struct view *view = &views->view[which];

	for (size_t i = 0; i < view->count; i++)
		if (!is_in_both(views, others, view->at[i]))
			doubt(now, waiter_of(view->at[i]));
}

/* Who has signalled. */
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

/* Nothing keeps these: they are no records any more. */
static void leave_out_what_moves(struct shown *shown, const struct views *now, const struct views *before)
{
	const union status_record *one, *other;

	for (size_t i = 0; i < shown->count; i++) {
		if (shown->records[i].type != TRACKED_WAIT)
			continue;
		one = view_one(&now->view[TIMELINES], shown->records[i].wait.generation);
		other = view_one(&before->view[TIMELINES], shown->records[i].wait.generation);
		if (one && other && one->timeline.value != other->timeline.value)
			shown->records[i].type = TRACKED_NONE;
	}
}

static bool was_asked(const struct shown *shown, const char *reason)
{
	return shown->state == SHOWN_RUNNING && !is_elsewhere(shown) && !*reason;
}

/* Where one of them was not asked, nothing shows that a circle stands. */
static int compare_looks(struct shown *shown, const struct shown *before, bool both_asked)
{
	struct views now, then;
	bool made = views_make(&now, shown->records, shown->count);

	made = views_make(&then, before->records, before->count) && made;
	if (made && both_asked && shown->header.start_time == before->header.start_time) {
		for (size_t which = WAITS; which <= REQUESTS; which++) {
			doubt_who_moved(&now, &then, &now, which);
			doubt_who_moved(&then, &now, &now, which);
		}
		doubt_writers(&now, &then);
		leave_out_what_moves(shown, &now, &then);
	} else if (made) {
		doubt_all(&now);
	}
	views_free(&now);
	views_free(&then);
	return made ? 0 : error_set(-ENOMEM, "out of memory");
}

/* What a user is shown leaves out what other users' processes wait for beside that. */
static void doubt_others(const struct shown *shown)
{
	for (size_t i = 0; i < shown->count && shown->partial; i++)
		if (shown->records[i].type == TRACKED_SESSION && shown->records[i].session.uid != geteuid())
			shown->records[i].session.partial = 1;
}

/* Where the first look shows what may be a deadlock. */
static int look_again(struct shown *shown, const char *instance, const char *about, char reason[ERROR_TEXT_MAX])
{
	struct why_found found = { 0 };
	struct shown before = *shown;
	int error;

	doubt_others(shown);
	error = explain(shown, about, print_nothing, &found);
	if (error || !found.deadlocks)
		return error;
	if (!was_asked(shown, reason))
		return compare_looks(shown, shown, false);
	sleep(WHY_STILL_S);
	error = read_fresh(shown, instance, reason);
	if (error) {
		*shown = before;
		return error;
	}
	doubt_others(shown);
	error = compare_looks(shown, &before, was_asked(shown, reason));
	shown_free(&before);
	return error;
}

enum explain_exit explain_one(const char *instance, const char *about)
{
	struct why_found found = { 0 };
	char reason[ERROR_TEXT_MAX];
	struct shown shown;
	int error = read_fresh(&shown, instance, reason);

	if (!error) {
		error = look_again(&shown, instance, about, reason);
		if (!error)
			print_doubt(&shown, reason);
		if (!error)
			error = explain(&shown, about, print_line, &found);
		shown_free(&shown);
	}
	if (error) {
		log_say("%s", error_text());
		return EXPLAIN_NONE;
	}
	return found.deadlocks ? EXPLAIN_DEADLOCK : EXPLAIN_DONE;
}

/* A deadlock counts more than an answer, and an answer more than none. */
static enum explain_exit more_of(enum explain_exit a, enum explain_exit b)
{
	if (a == EXPLAIN_DEADLOCK || b == EXPLAIN_DEADLOCK)
		return EXPLAIN_DEADLOCK;
	return a == EXPLAIN_DONE || b == EXPLAIN_DONE ? EXPLAIN_DONE : EXPLAIN_NONE;
}

enum explain_exit explain_all(const struct instances *instances, const char *about)
{
	enum explain_exit code = EXPLAIN_NONE;

	if (!instances->count)
		log_say("no broker runs on this machine, and none left anything: broker-run starts one");
	for (size_t i = 0; i < instances->count; i++) {
		if (instances->count > 1)
			printf("%sbroker %s:\n", i ? "\n" : "", instances->names[i]);
		code = more_of(code, explain_one(instances->names[i], about));
	}
	return code;
}
