/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - see devices.h */
#include "devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
#include "broker/status/status.h"
#include "common/error.h"
#include "common/status-file.h"
#include "common/tables.h"
#include "device/select.h"
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

/* ---- memory of an owner that has ended ---- */

/*
 * Has memory whose handle opens nothing any more serve no new buffers: gives all spare memory back, and closes the
 * other allocations without a descriptor.
 */
static void retire_named(struct broker *broker)
{
	uint64_t kept = broker->memory->usages.limit;

	usages_limit(&broker->memory->usages, 0);
	memory_close_named(broker->memory);
	usages_limit(&broker->memory->usages, kept);
}

static bool ends_with_owner(const struct allocation *allocation)
{
	return allocation_is_made(allocation) && !export_of(allocation->slab.kind.exported)->by_descriptor;
}

/* Notes for the status file that the allocation's memory has ended, and so the buffers in it. */
static void mark_ended(struct broker *broker, struct allocation *allocation)
{
	allocation->ended = true;
	registry_freeing(broker->registry, allocation);
}

static void mark_all_ended(struct broker *broker)
{
	struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (ends_with_owner(allocation))
			mark_ended(broker, allocation);
}

static bool any_ended(const struct broker *broker)
{
	const struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->ended)
			return true;
	return false;
}

/* Takes the names of the buffers away whose memory has ended. Returns how many. */
static unsigned orphans_unlink(struct broker *broker)
{
	struct buffer *buffer, *next;
	unsigned count = 0;

	if (!any_ended(broker))
		return 0;
	HASH_ITER(hh, broker->registry->names, buffer, next) {
		if (buffer->state != BUFFER_LIVE || !buffer->allocation->ended)
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

/* ---- an owner that has served the broker before this one ---- */

/* Memory that the owner has, by its number. */
struct listed_memory {
	uint64_t       number, size;
	UT_hash_handle hh;
};

static void list_remove(struct listed_memory **list, struct listed_memory *memory)
{
	HASH_DELETE(hh, *list, memory);
	free(memory);
}

static void list_forget(struct listed_memory **list)
{
	struct listed_memory *memory, *next;

	HASH_ITER(hh, *list, memory, next)
		list_remove(list, memory);
}

static void lists_forget(struct devices *devices)
{
	for (unsigned device = 0; device < DEVICE_MAX; device++)
		list_forget(&devices->listed[device]);
}

static bool list_add(struct listed_memory **list, const struct listed *listed)
{
	struct listed_memory *memory = calloc(1, sizeof *memory);

	if (!memory)
		return false;
	memory->number = listed->memory;
	memory->size = listed->size;
	HASH_ADD(hh, *list, number, sizeof memory->number, memory);
	if (table_added(memory))
		return true;
	free(memory);
	return false;
}

/* Takes the memory with the number out of the list. Returns false if the list has no such memory. */
static bool list_take(struct listed_memory **list, uint64_t number)
{
	struct listed_memory *memory;

	HASH_FIND(hh, *list, &number, sizeof number, memory);
	if (!memory)
		return false;
	list_remove(list, memory);
	return true;
}

/* Compares the pooled memory of a device with the owner's list. */
struct pool_check {
	struct listed_memory **list;
	bool                   lacks; /* the owner lacks some of the memory */
};

static void check_pooled(void *context, struct allocation *allocation)
{
	struct pool_check *check = context;

	if (!list_take(check->list, allocation->memory))
		check->lacks = true;
}

/*
 * Takes what the pool has of the device out of the list. Gives all spare memory back if the owner lacks some of it, as
 * after the end of an owner: the release of memory that an owner lacks succeeds.
 */
static void compare_pool(struct broker *broker, unsigned device)
{
	struct pool_check check = { .list = &broker->devices->listed[device] };
	uint64_t kept = broker->memory->usages.limit;
	struct allocation *allocation;

	DL_FOREACH(broker->pool->leaving, allocation)
		if (allocation->device == device)
			list_take(check.list, allocation->memory);
	pool_each(broker, device, check_pooled, &check);
	if (!check.lacks)
		return;
	usages_limit(&broker->memory->usages, 0);
	usages_limit(&broker->memory->usages, kept);
}

/* The owner lacks the memory of an allocation that is not being freed. */
static void missing(struct broker *broker, struct allocation *allocation)
{
	if (allocation->descriptor >= 0) {
		adopt(broker, allocation);
	} else if (ends_with_owner(allocation) && !allocation->ended) {
		memory_make_private(broker->memory, allocation);
		mark_ended(broker, allocation);
	}
}

static void compare_allocations(struct broker *broker, unsigned device)
{
	struct listed_memory **list = &broker->devices->listed[device];
	struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->device == device && !list_take(list, allocation->memory) &&
		    allocation_is_made(allocation) && allocation->state != ALLOCATION_FREEING)
			missing(broker, allocation);
}

static void on_unknown_released(struct job *job)
{
	struct broker *broker = job->context;

	if (job->outcome.error)
		pool_device_failed(broker, job, "free", "");
	pool_wake(broker, job->order.device);
	broker_changed(broker); /* a stopping broker waited for the answer */
	free(job);
}

/* Releases memory that the last broker ordered, and of which the ledger has nothing. */
static void release_unknown(struct broker *broker, unsigned device, const struct listed_memory *memory)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		log_say("the broker is out of memory: %llu bytes of device %u are used no more",
			(unsigned long long)memory->size, device);
		return;
	}
	job->order = (struct order){
		.kind = ORDER_RELEASE, .device = device, .memory = memory->number, .size = memory->size
	};
	job->descriptor = -1;
	job->done = on_unknown_released;
	job->context = broker;
	jobs_submit_first(broker->jobs, job);
}

static void list_ends(struct broker *broker, unsigned device)
{
	struct listed_memory **list = &broker->devices->listed[device], *memory;

	compare_pool(broker, device);
	compare_allocations(broker, device);
	for (memory = *list; memory; memory = memory->hh.next)
		release_unknown(broker, device, memory);
	list_forget(list);
	orphans_unlink(broker);
	broker_changed(broker);
}

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
	if (listed->kind == LISTED_MEMORY && !list_add(&devices->listed[lane], listed)) {
		log_say("the broker is out of memory: the owner of the device memory is replaced");
		devices->unlisted = true;
		event_active(devices->ends, EV_READ, 0);
	}
	if (listed->kind == LISTED_END && !devices->unlisted)
		list_ends(broker, lane);
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

/* The owner's process has ended, so none of its device work is left. Or its parent has: then no other one begins. */
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
		adopt_all(broker);
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
		broker->devices->strikes = STRIKES; /* the parent of owners has ended */
	not_started(broker, error);
}

static void on_lost(void *context)
{
	struct broker *broker = context;
	struct devices *devices = broker->devices;
	unsigned lost;

	retire_named(broker);
	mark_all_ended(broker);
	lost = orphans_unlink(broker);
	lists_forget(devices);
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
	lists_forget(devices);
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
