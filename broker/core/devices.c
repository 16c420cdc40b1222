/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - see devices.h */
#include "devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/registry/registry.h"
#include "broker/request/manage.h"
#include "broker/status/leftovers.h"
#include "common/error.h"
#include "common/status-file.h"
#include "device/select.h"
#include "names.h"

#define TRIES         10   /* owners in a row that may not start, or crash before they have carried out an order */
#define PAUSE_MS      10   /* before the second of them; doubles with each */
#define PAUSE_MAX_MS  5000
#define START_SECONDS 60   /* that an owner may take for an answer while it starts */

/* ---- the first owner ---- */

int devices_open(struct broker *broker, const struct owner_place *place)
{
	broker->devices->place = place;
	return place->open(&broker->devices->owner);
}

void devices_close(struct broker *broker)
{
	broker->devices->place->close(&broker->devices->owner);
}

void devices_end(struct broker *broker)
{
	broker->devices->place->end(&broker->devices->owner);
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

/* ---- memory of an owner that has ended ---- */

/*
 * Memory without a descriptor that its owner keeps for processes: it serves no new buffers. Spare memory is given back,
 * and memory_close_named() closes the other allocations.
 */
static void retire_named(struct broker *broker)
{
	uint64_t kept = broker->memory->usages.limit;

	usages_limit(&broker->memory->usages, 0);
	memory_close_named(broker->memory);
	usages_limit(&broker->memory->usages, kept);
}

static bool ends_with_owner(const struct buffer *buffer)
{
	return !export_of(buffer->allocation->slab.kind.exported)->by_descriptor;
}

/* Takes the names of the buffers away whose memory has ended. Returns how many. */
static unsigned orphans_unlink(struct broker *broker)
{
	struct buffer *buffer, *next;
	unsigned count = 0;

	HASH_ITER(hh, broker->registry->names, buffer, next) {
		if (buffer->state != BUFFER_LIVE || !ends_with_owner(buffer))
			continue;
		event_happened(broker, &(struct broker_event){ .kind = EVENT_UNLINK_ORPHAN, .name = buffer->name });
		manage_unlink(broker, buffer);
		count++;
	}
	return count;
}

/* Has no buffer made any more in memory that the owner could not take over. Clients can still open its descriptor. */
static void retire(struct broker *broker, uint64_t number)
{
	struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->memory == number)
			memory_make_private(broker->memory, allocation);
}

static void on_adopted(struct job *job)
{
	if (job->outcome.error) {
		pool_device_failed(job->context, job, "take over", ", which are used no more");
		retire(job->context, job->order.memory);
	}
	broker_changed(job->context); /* a stopping broker waited for the answer */
	free(job);
}

static void adopt(struct broker *broker, const struct allocation *allocation)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		log_say("the broker is out of memory: %llu bytes of device %u are used no more",
			(unsigned long long)allocation->span, allocation->device);
		retire(broker, allocation->memory);
		return;
	}
	job->order = (struct order){ .kind = ORDER_ADOPT,
				     .device = allocation->device,
				     .memory = allocation->memory,
				     .size = allocation->span,
				     .exported = allocation->slab.kind.exported,
				     .handle = allocation->handle };
	job->done = on_adopted;
	job->context = broker;
	jobs_adopt(broker->jobs, job, allocation->descriptor);
}

static void adopt_all(struct broker *broker)
{
	const struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->descriptor >= 0)
			adopt(broker, allocation);
}

/* ---- the next owner ---- */

static void devices_fail(struct broker *broker)
{
	struct devices *devices = broker->devices;

	devices->failed = true;
	jobs_fail(broker->jobs);
	if (devices->when_failed)
		devices->when_failed(devices->context);
}

static void event_drop(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}

/* Starts another owner: at once, or after a pause that grows if the last ones did not start or crashed at once. */
static void start_later(struct broker *broker)
{
	struct devices *devices = broker->devices;
	unsigned doubled = devices->tries ? devices->tries - 1 : 0;
	uint64_t ms = doubled < 10 ? (uint64_t)PAUSE_MS << doubled : PAUSE_MAX_MS;
	struct timeval pause = { 0 };

	if (ms > PAUSE_MAX_MS)
		ms = PAUSE_MAX_MS;
	if (devices->tries)
		pause = (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	if (devices->tries >= TRIES || event_add(devices->again, &pause))
		devices_fail(broker);
}

/* An owner that had served has ended by itself. */
static void count_crash(struct broker *broker)
{
	struct devices *devices = broker->devices;

	devices->tries = broker->jobs->answered == devices->answered ? devices->tries + 1 : 0;
	jobs_blame(broker->jobs);
}

/* No device work of the owner is left: its process has ended, and nobody else has its descriptors. */
static void on_gone(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	struct devices *devices = broker->devices;

	(void)fd;
	(void)what;
	event_drop(&devices->gone);
	devices->place->end(&devices->owner);
	if (devices->lost && !devices->owner.killed)
		count_crash(broker);
	devices->lost = false;
	start_later(broker);
}

/* Ends the owner, if it has not ended yet, and starts another one when it is gone. The loop does not wait for that. */
static void replace(struct broker *broker)
{
	struct devices *devices = broker->devices;

	if (devices->owner.sock < 0) { /* none has begun */
		start_later(broker);
		return;
	}
	devices->place->kill(&devices->owner);
	devices->gone = event_new(broker->base, devices->owner.ended, EV_READ, on_gone, broker);
	if (!devices->gone || event_add(devices->gone, NULL))
		devices_fail(broker);
}

static void not_started(struct broker *broker)
{
	log_say("the next owner of the device memory did not start: %s", error_text());
	broker->devices->tries++;
	replace(broker);
}

static bool has_same_devices(const struct owner_facts *facts, const struct owner_facts *other)
{
	bool same = facts->kind == other->kind && facts->count == other->count;

	for (unsigned i = 0; same && i < facts->count; i++)
		same = !memcmp(facts->device[i].uuid, other->device[i].uuid, sizeof facts->device[i].uuid);
	return same;
}

static void serve_again(struct broker *broker)
{
	struct devices *devices = broker->devices;
	char text[EVENT_TEXT_MAX];

	broker->owner_pid = devices->owner.pid;
	adopt_all(broker);
	if (jobs_resume(broker->jobs, devices->owner.lane)) {
		not_started(broker);
		return;
	}
	devices->answered = broker->jobs->answered;
	snprintf(text, sizeof text, "process %d owns the device memory now", (int)broker->owner_pid);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_OWNER_STARTED, .text = text });
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
		not_started(broker);
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

	(void)fd;
	(void)what;
	/* the lock of the directory of names ended with the owner, and the handles of its memory shall open nothing */
	leftovers_remove_instance(broker->devices->setup.instance);
	if (!begin_next(broker))
		return;
	event_drop(&broker->devices->begun);
	not_started(broker);
}

static void on_lost(void *context)
{
	struct broker *broker = context;
	struct devices *devices = broker->devices;

	retire_named(broker);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_OWNER_DIED,
						       .other.pid = (uint32_t)broker->owner_pid,
						       .detail = orphans_unlink(broker) });
	broker_changed(broker);
	devices->lost = true;
	replace(broker); /* a lane may have ended alone, after a send that failed */
}

int devices_serve(struct broker *broker)
{
	struct devices *devices = broker->devices;
	int error;

	devices->again = evtimer_new(broker->base, on_again, broker);
	if (!devices->again)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = jobs_start(broker->jobs, broker->base, devices->owner.lane, devices->owner.lanes, on_lost, broker);
	if (error)
		event_drop(&devices->again);
	return error;
}

/* Gives pooled memory back before it stops sending, because the owner frees the memory. */
void devices_serve_end(struct broker *broker)
{
	struct devices *devices = broker->devices;

	usages_limit(&broker->memory->usages, 0);
	jobs_stop(broker->jobs);
	event_drop(&devices->gone);
	event_drop(&devices->begun);
	event_drop(&devices->again);
}

/* ---- the names of the host device's memory, which the owner has ---- */

static void on_memory_names(struct job *job)
{
	struct broker *broker = job->context;
	struct devices *devices = broker->devices;

	devices->memory_names.asked = false;
	if (job->outcome.renamed)
		retire_named(broker);
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
