/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h */
#include "process.h"

#include <errno.h>
#include <signal.h>

#include "broker/base/process-start.h"
#include "look.h"
#include "views.h"

static const char *state_name(const struct process_seen *seen)
{
	switch (seen->state) {
	case 'T':
	case 't':
		return "stopped";
	case 'Z':
	case 'X':
		return seen->headless ? "no main thread" : "zombie";
	default:
		return "running";
	}
}

/* Returns true if no process has the pid. Asks kill(2), because /proc may hide other users' processes. */
static bool is_nobody(uint64_t pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/*
 * Adds the state of the session's process to the session. start: start time of the process as the broker knows it; 0:
 * the broker could not read the time.
 */
static void process_add(json_t *session, uint64_t start)
{
	uint64_t pid = (uint64_t)json_integer_value(json_object_get(session, "pid"));
	struct process_seen seen;

	if (!pid || pid > INT32_MAX)
		return;
	process_look(pid, &seen);
	if (seen.start ? start && seen.start != start : is_nobody(pid)) {
		json_object_set_new(session, "process", json_string("gone"));
	} else if (start && seen.start) {
		json_object_set_new(session, "process", json_string(state_name(&seen)));
		json_object_set_new(session, "container", json_boolean(seen.contained));
		if (*seen.cpus)
			json_object_set_new(session, "cpus", json_string(seen.cpus));
	}
}

/*
 * Returns true if the broker's pids are valid in this pid namespace. Also returns true for a dead broker, of which this
 * is not known; then only the start times are compared.
 */
static bool broker_is_near(const struct shown *shown)
{
	return shown->state == SHOWN_DEAD || process_start(shown->header.pid, NULL) == shown->header.start_time;
}

static uint64_t start_of(const struct views *views, const json_t *session)
{
	const union status_record *record =
		view_one(&views->view[SESSIONS], (uint64_t)json_integer_value(json_object_get(session, "session")));

	return record ? record->session.start : 0;
}

void processes_add(struct shown *shown)
{
	struct views views;
	json_t *session;
	size_t i;

	if (shown->state == SHOWN_UNREADABLE || !broker_is_near(shown))
		return;
	if (views_make(&views, shown->records, shown->count))
		json_array_foreach(json_object_get(shown->text, "sessions"), i, session)
			if (i < PROCESSES_MAX)
				process_add(session, start_of(&views, session));
	views_free(&views);
}
