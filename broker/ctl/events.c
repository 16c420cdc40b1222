/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h */
#include "events.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access.h"
#include "broker/base/log.h"
#include "broker/show/read.h"
#include "broker/show/trail.h"
#include "broker/status/leftovers.h"
#include "client/connect.h"
#include "common/error.h"
#include "common/now.h"
#include "common/socket.h"
#include "gpubroker.h"

#define FOLLOW_MS 250 /* milliseconds from one reading of the file to the next, with --follow */
/* number of attempts to read a file that is still being made; after these it is an error, but for follow() */
#define TRIES     50

/* ---- which events are wanted ---- */

static bool has_user(const struct status_event *event, uint32_t user)
{
	return (event->session && event->uid == user) ||
	       ((event->other_session || event->kind == EVENT_CHOWN) && event->other_uid == user);
}

static bool is_wanted(const struct events_wanted *wanted, const struct status_event *event)
{
	if (wanted->since_ms && event->time_ms + wanted->since_ms < now_ms(CLOCK_REALTIME))
		return false;
	if (wanted->buffer &&
	    (event_rows[event->kind].subject != SUBJECT_NAME || fnmatch(wanted->buffer, event->text, 0)))
		return false;
	if (wanted->pid && event->pid != wanted->pid && event->other_pid != wanted->pid)
		return false;
	if (wanted->user != GPUB_ANY_USER && !has_user(event, wanted->user))
		return false;
	return !wanted->kind || !strcmp(wanted->kind, event_rows[event->kind].name);
}

/* ---- printing ---- */

static void print_line(const struct status_event *event)
{
	time_t seconds = (time_t)(event->time_ms / 1000);
	char when[40] = "?", text[EVENT_TEXT_MAX];
	struct tm local;

	if (localtime_r(&seconds, &local))
		strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
	printf("%s.%03u %-18s %s\n", when, (unsigned)(event->time_ms % 1000), event_rows[event->kind].name,
	       trail_text(event, text));
}

static int print_json(const struct status_event *event)
{
	json_t *object = trail_json(event);
	int error = json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);

	json_decref(object);
	putchar('\n');
	return error ? error_set(-ENOMEM, "out of memory") : 0;
}

/* Prints the wanted events whose number is greater than *last. Sets *last to the number of the newest event. */
static int print_new(const struct events_wanted *wanted, const struct trail *trail, uint64_t *last)
{
	int error = 0;

	for (size_t i = 0; i < trail->count && !error; i++) {
		const struct status_event *event = &trail->events[i];

		if (event->seal.sequence <= *last || !is_wanted(wanted, event))
			continue;
		if (wanted->json)
			error = print_json(event);
		else
			print_line(event);
	}
	*last = trail->count ? trail->events[trail->count - 1].seal.sequence : 0;
	if (!error && (fflush(stdout) || ferror(stdout)))
		error = error_set(-EIO, "standard output cannot be written");
	return error;
}

/* ---- which broker ---- */

static bool listens_at(const char *instance, const char *address)
{
	const char *listens;
	struct shown shown;
	bool found;

	if (shown_read(&shown, instance))
		return false;
	listens = shown_address(&shown);
	found = listens && !strcmp(listens, address);
	shown_free(&shown);
	return found;
}

/* Chooses the only broker whose status file has the address. Any user can make a file that claims an address. */
static int choose_by_address(const struct events_wanted *wanted, const struct instances *instances,
			     char chosen[INSTANCE_SIZE])
{
	char address[SOCKET_ADDRESS_SIZE];
	unsigned found = 0;

	for (size_t i = 0; i < instances->count && !client_address(wanted->address, address); i++)
		if (listens_at(instances->names[i], address) && !found++)
			strcpy(chosen, instances->names[i]);
	return found == 1 ? 0 :
			    error_set(-EINVAL, "there are %zu brokers: say whose events, as in broker-ctl events %s",
				      instances->count, instances->names[0]);
}

/* Sets instance to the broker that was named; else to the only broker; else to the one of several at the address. */
static int choose(const struct events_wanted *wanted, char instance[INSTANCE_SIZE])
{
	struct instances instances;
	int error;

	if (wanted->instance) {
		snprintf(instance, INSTANCE_SIZE, "%s", wanted->instance);
		return instance_check(wanted->instance);
	}
	error = instances_find(&instances);
	if (error)
		return error;
	if (!instances.count)
		error = error_set(-ENOENT, "no broker runs on this machine, and none left anything");
	else if (instances.count > 1)
		error = choose_by_address(wanted, &instances, instance);
	else
		strcpy(instance, instances.names[0]);
	instances_free(&instances);
	return error;
}

/* If the status file is closed to this user, makes the error message say how to get access. Returns error. */
static int explain(int error, const char *instance)
{
	char path[sizeof SHM_DIR + sizeof STATUS_PREFIX + INSTANCE_SIZE], text[ACCESS_TEXT_MAX];
	struct stat st;

	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", instance);
	if (error != -EACCES || stat(path, &st))
		return error;
	return error_set(error, "the events of the broker '%s' are not for you: %s", instance,
			 access_remedy(path, &st, 4, text));
}

static int read_once(const char *instance, struct trail *trail)
{
	int error, fd = shown_open(instance);
	static bool warned;

	if (fd < 0)
		return explain(fd, instance);
	error = trail_read(trail, instance, fd);
	if (!error && !warned && !shown_file_is_trusted(fd)) {
		log_say("the status file of '%s' may be another user's forgery: what follows is that user's claim",
			instance);
		warned = true;
	}
	close(fd);
	return error;
}

/*
 * Reads the status file, and again while it has no header yet. Prints the wanted events whose number is greater than
 * *last.
 */
static int look(const struct events_wanted *wanted, const char *instance, struct trail *trail, uint64_t *last)
{
	static const struct timespec nap = { .tv_nsec = 20000000 };
	int error = read_once(instance, trail);

	for (int tries = 1; error == -EAGAIN && tries < TRIES; tries++) {
		nanosleep(&nap, NULL);
		error = read_once(instance, trail);
	}
	if (error)
		return error;
	/* a broker that ends regularly removes its events, so the next broker of the name numbers its events from 1 */
	if (trail->count && trail->events[trail->count - 1].seal.sequence < *last)
		*last = 0;
	return print_new(wanted, trail, last);
}

/* Prints new events until a failure. A missing or incomplete status file is no failure: the broker may start again. */
static int follow(const struct events_wanted *wanted, const char *instance, struct trail *trail, uint64_t *last)
{
	static const struct timespec pause = { .tv_nsec = FOLLOW_MS * 1000000 };
	int error = 0;

	while (!error || error == -ENOENT || error == -EAGAIN) {
		nanosleep(&pause, NULL);
		error = look(wanted, instance, trail, last);
	}
	return error;
}

int ctl_events(const struct events_wanted *wanted)
{
	char instance[INSTANCE_SIZE];
	struct trail *trail;
	uint64_t last = 0;
	int error;

	if (wanted->kind && event_find(wanted->kind) < 0)
		return error_set(-EINVAL, "'%.40s' is no kind of event: see broker-ctl(1)", wanted->kind);
	error = choose(wanted, instance);
	if (error)
		return error;
	trail = malloc(sizeof *trail);
	if (!trail)
		return error_set(-ENOMEM, "out of memory");
	error = look(wanted, instance, trail, &last);
	if (!error && wanted->follow)
		error = follow(wanted, instance, trail, &last);
	free(trail);
	return error;
}
