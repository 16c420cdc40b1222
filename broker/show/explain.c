/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - see explain.h */
#include "explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "broker/base/log.h"
#include "refresh.h"
#include "why.h"

static void print_line(void *context, const char *line)
{
	(void)context;
	puts(line);
}

/* The numbers of its processes are others here, and it serves none of this namespace. */
static bool is_elsewhere(const struct shown *shown)
{
	return shown->state == SHOWN_RUNNING && status_process_start(shown->header.pid, NULL) != shown->header.start_time;
}

/* Why what follows may not be true any more. reason: why a broker that runs was not asked; empty: it was. */
static void print_doubt(const struct shown *shown, const char *reason)
{
	unsigned long long pid = shown->header.pid, age = (unsigned long long)time(NULL) - shown->header.updated;

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
	int error = shown_read(shown, instance);

	reason[0] = 0;
	if (error || shown->state != SHOWN_RUNNING || is_elsewhere(shown))
		return error;
	if (refresh(shown)) {
		snprintf(reason, ERROR_TEXT_MAX, "%s", error_text());
		return 0;
	}
	shown_free(shown);
	return shown_read(shown, instance);
}

static int explain(const struct shown *shown, const char *about, struct why_found *found)
{
	struct why why = { .records = shown->records,
			   .count = shown->count,
			   .about = about,
			   .live = shown->state != SHOWN_DEAD,
			   .look = is_elsewhere(shown) ? NULL : why_look,
			   .say = print_line };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	why.now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	return why_explain(&why, found);
}

enum explain_exit explain_one(const char *instance, const char *about)
{
	struct why_found found = { 0 };
	char reason[ERROR_TEXT_MAX];
	struct shown shown;
	int error = read_fresh(&shown, instance, reason);

	if (!error) {
		print_doubt(&shown, reason);
		error = explain(&shown, about, &found);
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
