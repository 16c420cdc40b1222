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
#include "second-look.h"
#include "why.h"

static void print_line(void *context, const char *line)
{
	(void)context;
	puts(line);
}

/* Returns true if the broker runs in another pid namespace: the pids in its records are not valid here. */
static bool is_elsewhere(const struct shown *shown)
{
	return shown->state == SHOWN_RUNNING && process_start(shown->header.pid, NULL) != shown->header.start_time;
}

/*
 * Prints why the explanations may be incomplete or old. reason: why a running broker was not asked; "": it was asked.
 */
static void print_doubt(const struct shown *shown, const char *reason)
{
	unsigned long long age = shown_age(shown);

	if (shown->partial)
		printf("The broker '%s' shows this user its own objects, and who holds them: others' waits are not "
		       "among these.\n",
		       shown->instance);
	if (!shown->trusted)
		printf("The status file of '%s' may be anybody's word: its owner is uid %u.\n", shown->instance,
		       shown->owner);
	if (shown->state == SHOWN_DEAD)
		printf("The broker '%s' is dead. This is what it knew %llu s ago:\n", shown->instance, age);
	else if (shown->state == SHOWN_STOPPED)
		printf("The broker '%s' is stopped by a signal: kill -CONT %llu. This is what it knew %llu s ago:\n",
		       shown->instance, (unsigned long long)shown_process(shown), age);
	else if (is_elsewhere(shown))
		printf("The broker '%s' runs in another pid namespace, as in a container: it cannot be asked from "
		       "here, and the numbers of processes are those there. This is what it knew %llu s ago:\n",
		       shown->instance, age);
	else if (*reason)
		printf("The broker '%s' was not asked: %s. This is what it knew %llu s ago:\n", shown->instance, reason,
		       age);
}

/*
 * Has the broker ask its clients, if possible, and reads its status. Sets reason to the text that print_doubt() takes.
 */
static int read_fresh(struct shown *shown, const char *instance, char reason[ERROR_TEXT_MAX])
{
	int error = shown_read_or_ask(shown, instance);

	reason[0] = 0;
	if (error || shown->state != SHOWN_RUNNING || is_elsewhere(shown))
		return error;
	if (shown_refresh(shown)) {
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

static int explain(const struct shown *shown, const char *about, void (*say)(void *, const char *),
		   struct why_found *found)
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

/* ---- looking twice ---- */

static bool was_asked(const struct shown *shown, const char *reason)
{
	return shown->state == SHOWN_RUNNING && !is_elsewhere(shown) && !*reason;
}

/* Marks other users' sessions as partial if the broker left out records that this user may not see. */
static void doubt_others(const struct shown *shown)
{
	for (size_t i = 0; i < shown->count && shown->partial; i++)
		if (shown->records[i].type == TRACKED_SESSION && shown->records[i].session.uid != geteuid())
			shown->records[i].session.partial = 1;
}

/*
 * If the first look shows a deadlock, looks again after WHY_STILL_S, and marks the sessions that made progress. Marks
 * all sessions if the broker was not asked at both looks.
 */
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
		return looks_compare(shown->records, shown->count, NULL, 0);
	sleep(WHY_STILL_S);
	error = read_fresh(shown, instance, reason);
	if (error) {
		*shown = before;
		return error;
	}
	doubt_others(shown);
	if (!was_asked(shown, reason) || shown->header.start_time != before.header.start_time)
		error = looks_compare(shown->records, shown->count, NULL, 0);
	else
		error = looks_compare(shown->records, shown->count, before.records, before.count);
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

/*
 * Returns the exit status for two brokers together: that of a deadlock if one has a deadlock, else that of an
 * explanation if one has an explanation.
 */
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
