/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - see devices.h */
#include "devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/status/leftovers.h"
#include "broker/status/status.h"
#include "common/error.h"
#include "common/status-file.h"
#include "device/select.h"
#include "ended-memory.h"
#include "names.h"

/* No other owner is started when those that ended in a row have so many strikes. */
#define STRIKES       100
#define CRASHED       10   /* strikes for one that did not start or crashed */
#define KILLED        1    /* for one that was ended by SIGKILL, as by a kernel that is out of memory */
#define GOOD_SECONDS  10   /* an owner that serves so long clears the strikes of those before it */
#define PAUSE_MS      10   /* before the next one if there are CRASHED strikes; doubles with each CRASHED more */
#define START_SECONDS 60   /* that an owner may take for an answer while it starts */

/* ---- the first owner ---- */

int devices_open(struct broker *broker, const struct owner_place *place, struct line *line, bool runs)
{
	broker->devices->place = place;
	broker->devices->owner = (struct owner_link){ .line = line, .runs = runs, .sock = -1 };
	return place->open(&broker->devices->owner);
}

void devices_close(struct broker *broker)
{
	broker->devices->place->close(&broker->devices->owner);
}

/* Keeps how it ended only if it served: an owner that had ended was to be replaced. */
void devices_end(struct broker *broker)
{
	struct devices *devices = broker->devices;
	bool serves = devices->owner.sock >= 0 && !broker->jobs->lost;

	devices->place->end(&devices->owner);
	if (serves)
		devices->crashed = devices->owner.crashed;
}

int devices_start(struct broker *broker, const struct owner_setup *setup)
{
	struct devices *devices = broker->devices;
	int error;

	devices->setup = *setup;
	/* this broker has the lock of the status file, so other files of this instance belong to a dead broker */
	leftovers_clear_instance(setup->instance);
	error = devices->place->begin(&devices->owner);
	if (!error)
		error = owner_link_start(&devices->owner, setup, &devices->facts);
	if (error) {
		devices_end(broker);
		return error;
	}
	broker->device = device_find(devices->facts.kind);
	broker->owner_pid = devices->owner.pid;
	return 0;
}

/* ---- an owner that has served the broker before this one ---- */

/*
 * No job waits for what the last broker ordered: what it asked for is ordered anew, and memory that it had ordered and
 * not noted is in the list, too. Without memory for the list, the owner is replaced as if it had ended.
 */
static void on_listed(void *context, unsigned lane, const struct listed *listed)
{
	struct broker *broker = context;
	struct devices *devices = broker->devices;

	if (listed->outcome.descriptor >= 0)
		close(listed->outcome.descriptor);
	if (lane >= devices->facts.count)
		return; /* of the questions */
	if (listed->kind == LISTED_MEMORY && !owner_lists_add(&devices->lists, lane, listed)) {
		log_say("the broker is out of memory: the owner of the device memory is replaced");
		devices->unlisted = true;
		event_active(devices->ends, EV_READ, 0);
	}
	if (listed->kind == LISTED_END && !devices->unlisted)
		owner_lists_end(&devices->lists, broker, lane);
}

int devices_join(struct broker *broker, int sock, uint64_t number, const struct owner_setup *setup)
{
	struct devices *devices = broker->devices;
	int error;

	devices->setup = *setup;
	error = owner_link_join(&devices->owner, sock, number, &devices->facts);
	if (error) {
		owner_link_drop(&devices->owner);
		return error;
	}
	devices->joined = true;
	devices->unlisted = false;
	broker->device = device_find(devices->facts.kind);
	broker->owner_pid = devices->owner.pid;
	return 0;
}

int devices_start_empty(struct broker *broker, uint64_t number, const struct owner_setup *setup)
{
	int error = devices_start(broker, setup);

	if (error)
		return error;
	/* from here on without an owner after a failure, as devices_join() leaves it */
	owner_link_close_lanes(&broker->devices->owner);
	return devices_join(broker, broker->devices->owner.sock, number, setup);
}

/* ---- the next owner ---- */

static void devices_fail(struct broker *broker)
{
	struct devices *devices = broker->devices;

	devices->failed = true;
	status_owner_failed(broker);
	jobs_fail(broker->jobs);
	if (devices->when_failed)
		devices->when_failed(devices->context);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void event_drop(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}

static void start_later(struct broker *broker)
{
	struct devices *devices = broker->devices;
	unsigned crashes = devices->strikes / CRASHED;
	unsigned ms = crashes ? PAUSE_MS << (crashes - 1) : 0;
	struct timeval pause = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	if (devices->strikes >= STRIKES || event_add(devices->again, &pause))
		devices_fail(broker);
}

/* Whether the owner, which has served, clears the strikes of those before it. */
static bool served_well(const struct broker *broker, bool killed)
{
	const struct devices *devices = broker->devices;

	return seconds_now() - devices->since >= GOOD_SECONDS ||
	       (killed && broker->jobs->answered != devices->answered);
}

static void count_end(struct broker *broker)
{
	struct devices *devices = broker->devices;
	bool killed = devices->owner.killed && !devices->refused;

	if (devices->serving) {
		jobs_blame(broker->jobs, killed ? JOBS_KILL : JOBS_CRASH);
		if (served_well(broker, killed))
			devices->strikes = 0;
	}
	devices->strikes += killed ? KILLED : CRASHED;
	devices->serving = devices->refused = false;
}

/* The owner's process has ended, so none of its device work is left. Or the keeper has. */
static void on_gone(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	struct devices *devices = broker->devices;

	(void)fd;
	(void)what;
	event_drop(&devices->gone);
	devices->place->end(&devices->owner);
	count_end(broker);
	start_later(broker);
}

/* Ends the owner, if it has not ended yet, and starts another one when it is gone. The loop does not wait for that. */
static void replace(struct broker *broker)
{
	struct devices *devices = broker->devices;

	if (devices->owner.sock < 0) { /* none has begun */
		devices->strikes += CRASHED;
		start_later(broker);
		return;
	}
	devices->place->kill(&devices->owner);
	devices->gone = event_new(broker->base, devices->owner.ended, EV_READ, on_gone, broker);
	if (!devices->gone || event_add(devices->gone, NULL))
		devices_fail(broker);
}

static void not_started(struct broker *broker, int error)
{
	/* one that has ended by itself says how when it is gone */
	broker->devices->refused = error != -ECONNRESET;
	log_say("the next owner of the device memory did not start: %s", error_text());
	status_owner_not_started(broker);
	replace(broker);
}

static bool has_same_devices(const struct owner_facts *facts, const struct owner_facts *other)
{
	bool same = facts->kind == other->kind && facts->count == other->count;

	for (unsigned i = 0; same && i < facts->count; i++)
		same = !memcmp(facts->device[i].uuid, other->device[i].uuid, sizeof facts->device[i].uuid);
	return same;
}

static void on_end(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;

	(void)fd;
	(void)what;
	jobs_lose(broker->jobs);
}

/*
 * Notices the end of an owner that serves from now on. The kernel closes this socket of a dead process before it ends
 * its work on GPUs, and the lanes after that.
 */
static int watch(struct broker *broker)
{
	struct devices *devices = broker->devices;

	devices->ends = event_new(broker->base, devices->owner.sock, EV_READ, on_end, broker);
	if (!devices->ends || event_add(devices->ends, NULL))
		return error_set(-ENOMEM, "the broker is out of memory");
	devices->answered = broker->jobs->answered;
	devices->since = seconds_now();
	return 0;
}

static void serve_again(struct broker *broker)
{
	struct devices *devices = broker->devices;
	char text[EVENT_TEXT_MAX];
	int error;

	broker->owner_pid = devices->owner.pid;
	error = watch(broker);
	if (!error) {
		ended_memory_adopt_all(broker);
		error = jobs_resume(broker->jobs, devices->owner.lane);
	}
	if (error) {
		event_drop(&devices->ends);
		not_started(broker, error);
		return;
	}
	devices->serving = true;
	snprintf(text, sizeof text, "process %d owns the device memory now", (int)broker->owner_pid);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_OWNER_STARTED, .text = text });
	status_owner_serves(broker);
	names_again(devices->names); /* the directory of names is another one, and not watched yet */
	broker_changed(broker);
}

static void on_begun(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	struct devices *devices = broker->devices;
	struct owner_facts facts = { 0 };
	int error = what & EV_TIMEOUT ? error_set(-ETIMEDOUT, "it did not answer within %d seconds", START_SECONDS) :
					owner_link_answer(&devices->owner, &facts);

	(void)fd;
	if (facts.count)
		devices->next = facts;
	if (error == -EAGAIN)
		return;
	event_drop(&devices->begun);
	if (!error && !has_same_devices(&devices->facts, &devices->next))
		error = error_set(-ENODEV, "the machine has other devices than the broker started with");
	if (error)
		not_started(broker, error);
	else
		serve_again(broker);
}

static int begin_next(struct broker *broker)
{
	static const struct timeval patience = { .tv_sec = START_SECONDS };
	struct devices *devices = broker->devices;
	int error = devices->place->begin(&devices->owner);

	if (!error)
		error = owner_link_setup(&devices->owner, &devices->setup);
	if (!error)
		error = owner_link_lanes(&devices->owner, broker->jobs->lanes);
	if (error)
		return error;
	devices->begun = event_new(broker->base, devices->owner.sock, EV_READ | EV_PERSIST, on_begun, broker);
	if (devices->begun && !event_add(devices->begun, &patience))
		return 0;
	return error_set(-ENOMEM, "the broker is out of memory");
}

static void on_again(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	int error;

	(void)fd;
	(void)what;
	/* the lock of the directory of names ended with the owner, and the handles of its memory shall open nothing */
	leftovers_remove_instance(broker->devices->setup.instance);
	error = begin_next(broker);
	if (!error)
		return;
	event_drop(&broker->devices->begun);
	if (error == -ECONNRESET && broker->devices->owner.sock < 0)
		broker->devices->strikes = STRIKES; /* the keeper has ended */
	not_started(broker, error);
}

static void on_lost(void *context)
{
	struct broker *broker = context;
	struct devices *devices = broker->devices;
	unsigned lost;

	ended_memory_retire(broker);
	ended_memory_mark_all(broker);
	lost = ended_memory_unlink(broker);
	owner_lists_forget(&devices->lists);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_OWNER_DIED,
						       .other.pid = (uint32_t)broker->owner_pid,
						       .detail = lost });
	status_owner_died(broker, lost);
	event_drop(&devices->ends);
	replace(broker); /* a lane may have ended alone, after a send that failed */
}

static void events_drop(struct devices *devices)
{
	event_drop(&devices->ends);
	event_drop(&devices->gone);
	event_drop(&devices->begun);
	event_drop(&devices->again);
}

int devices_serve(struct broker *broker)
{
	struct devices *devices = broker->devices;
	int error;

	devices->again = evtimer_new(broker->base, on_again, broker);
	if (!devices->again)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = jobs_start(broker->jobs, broker->base, devices->owner.lane, devices->owner.lanes, on_lost, broker);
	broker->jobs->tracking = broker->tracking;
	broker->jobs->defers = true;
	if (!error && devices->joined)
		jobs_join(broker->jobs, on_listed);
	if (!error && (error = watch(broker)))
		jobs_stop(broker->jobs);
	if (error)
		events_drop(devices);
	devices->serving = !error;
	return error;
}

/* Gives pooled memory back before it stops sending, because the owner frees the memory. */
void devices_serve_end(struct broker *broker)
{
	struct devices *devices = broker->devices;

	usages_limit(&broker->memory->usages, 0);
	/* one that has ended, or starts, has nothing to carry out, and may hang in that */
	if (broker->jobs->lost && devices->owner.sock >= 0)
		devices->place->kill(&devices->owner);
	jobs_stop(broker->jobs);
	events_drop(devices);
	owner_lists_forget(&devices->lists);
}

/* ---- the names of the host device's memory, which the owner has ---- */

static void on_memory_names(struct job *job)
{
	struct broker *broker = job->context;
	struct devices *devices = broker->devices;

	devices->memory_names.asked = false;
	if (job->outcome.renamed)
		ended_memory_retire(broker);
	/* that names were lost stands until devices_look_at_names() has told so */
	if (devices->memory_names.result <= 0)
		devices->memory_names.result = job->outcome.error ? job->outcome.error : job->outcome.renamed;
	memcpy(devices->memory_names.text, job->outcome.text, sizeof devices->memory_names.text);
	free(job);
	if (devices->memory_names.result || devices->memory_names.again)
		names_again(devices->names);
	devices->memory_names.again = false;
	broker_changed(broker); /* a stopping broker waited for the answer */
}

static void ask_for_memory_names(struct broker *broker)
{
	struct devices *devices = broker->devices;
	struct job *job = devices->memory_names.asked ? NULL : calloc(1, sizeof *job);

	devices->memory_names.again |= devices->memory_names.asked;
	if (!job)
		return; /* without memory, the next check asks */
	job->order.kind = ORDER_NAMES;
	job->done = on_memory_names;
	job->context = broker;
	devices->memory_names.asked = true;
	jobs_submit(broker->jobs, job);
}

int devices_look_at_names(void *context, char text[EVENT_TEXT_MAX])
{
	struct broker *broker = context;
	struct devices *devices = broker->devices;
	int result = devices->memory_names.result;

	ask_for_memory_names(broker);
	if (result < 0)
		return error_set(result, "%s", devices->memory_names.text);
	if (!result)
		return 0;
	devices->memory_names.result = 0;
	snprintf(text, EVENT_TEXT_MAX, SHM_DIR STATUS_PREFIX "%s.mem (create its buffers anew)",
		 devices->setup.instance);
	return 1;
}
