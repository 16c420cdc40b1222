/* SPDX-License-Identifier: Apache-2.0 */
/* broker.c - see broker.h */
#include "broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/memory/workers.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/marks.h"
#include "broker/registry/notices.h"
#include "broker/registry/registry.h"
#include "broker/request/acquire.h"
#include "broker/request/create-queue.h"
#include "broker/request/delegation.h"
#include "broker/request/dispatch.h"
#include "broker/request/ending.h"
#include "broker/request/inquiry.h"
#include "broker/request/manage.h"
#include "broker/request/reclaim.h"
#include "broker/request/waiting.h"
#include "broker/request/waking.h"
#include "broker/session/connections.h"
#include "broker/session/discard.h"
#include "broker/session/fair-queue.h"
#include "broker/session/serve.h"
#include "broker/session/session-end.h"
#include "broker/session/session.h"
#include "broker/status/leftovers.h"
#include "broker/status/snapshot.h"
#include "broker/status/status.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/error.h"
#include "common/exports.h"
#include "common/now.h"
#include "device/host.h"
#include "device/select.h"

/* Sessions and timelines need descriptors: as many as the hard limit allows. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void on_connection(evutil_socket_t fd, short what, void *argument)
{
	(void)what;
	connections_accept(argument, fd);
}

/* The event of a listening socket; NULL with the error message. */
static struct event *listener_event(struct broker *broker, int listener)
{
	struct event *event;

	/* the loop takes connections until there are none: it must not wait for the next */
	if (fcntl(listener, F_SETFL, O_NONBLOCK)) {
		error_set(-errno, "the listening socket cannot be made non-blocking: %m");
		return NULL;
	}
	event = event_new(broker->base, listener, EV_READ | EV_PERSIST, on_connection, broker);
	if (event && !event_add(event, NULL))
		return event;
	if (event)
		event_free(event);
	error_set(-ENOMEM, "the broker is out of memory");
	return NULL;
}

int broker_listen(struct broker *broker, int listener, int former)
{
	struct pollfd waiting = { .fd = former, .events = POLLIN };
	struct event *event = listener_event(broker, listener);

	if (!event)
		return -ENOMEM; /* the event of the former socket goes on */
	event_free(broker->connections->listener);
	broker->connections->listener = event;
	for (int i = 0; i < SOMAXCONN && poll(&waiting, 1, 0) == 1; i++) /* those who connected before */
		connections_accept(broker, former);
	close(former);
	return 1;
}

static int listener_start(struct broker *broker, int listener)
{
	int error = discard_start(broker->discard, broker->base, broker->accounting, listener);

	if (error)
		return error;
	broker->connections->listener = listener_event(broker, listener);
	if (!broker->connections->listener)
		return -ENOMEM;
	error = connections_init(broker);
	if (!error)
		error = fair_queue_init(broker->queue, broker->base, broker->accounting);
	return error;
}

static int device_start(struct broker *broker)
{
	char prefix[sizeof(STATUS_PREFIX) + INSTANCE_SIZE + 4];
	int error;

	/* the status file is locked, so other files of this instance are of a broker that died */
	leftovers_remove_instance(broker->config->instance);
	snprintf(prefix, sizeof prefix, STATUS_PREFIX "%s.mem", broker->config->instance);
	host_set_prefix(prefix);
	host_share_memory(broker->config->several_users);
	host_survive_violations();
	error = device_select(broker->config->device, true, &broker->device);
	return !error && broker->device->names_keep ? broker->device->names_keep() : error;
}

static int look_at_status(void *context, char text[EVENT_TEXT_MAX])
{
	struct broker *broker = context;

	snprintf(text, EVENT_TEXT_MAX, SHM_DIR "%s", broker->status->name);
	return status_restore(broker);
}

/* Memory whose name is gone serves who maps it already. No new buffer may get such memory. */
static int look_at_memory(void *context, char text[EVENT_TEXT_MAX])
{
	struct broker *broker = context;
	uint64_t kept = broker->memory->usages.limit;
	int result = broker->device->names_restore ? broker->device->names_restore() : 0;

	if (result <= 0)
		return result;
	usages_limit(&broker->memory->usages, 0);
	memory_close_named(broker->memory);
	usages_limit(&broker->memory->usages, kept);
	broker_changed(broker);
	snprintf(text, EVENT_TEXT_MAX, SHM_DIR STATUS_PREFIX "%s.mem (create its buffers anew)",
		 broker->config->instance);
	return 1;
}

void broker_config_init(struct broker_config *config)
{
	memset(config, 0, sizeof *config);
	strcpy(config->device, "auto");
	config->buffers = BROKER_BUFFERS;
	config->handles = BROKER_HANDLES;
	quota_init(&config->quotas.fallback);
}

#define RESERVE 128 /* descriptors beside those that are open: for accept(2), reads of /proc, the driver */

static unsigned descriptors_open(void)
{
	DIR *fds = opendir("/proc/self/fd");
	unsigned count = 0;

	while (fds && readdir(fds))
		count++;
	if (fds)
		closedir(fds);
	return count;
}

/* The pool is charged to nobody; each allocation in it may keep descriptors. */
static unsigned pool_descriptors(const struct broker *broker)
{
	return (broker->memory->descriptors + export_descriptors_max()) * POOL_OBJECTS;
}

/* Those for all users together, once the broker has its own. Never 0: with a small limit half of all. */
static uint64_t descriptors_for_users(const struct broker *broker)
{
	uint64_t reserve = descriptors_open() + RESERVE + discard_uncharged(broker->discard) + pool_descriptors(broker);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	return limit.rlim_cur / 2 > reserve ? limit.rlim_cur - reserve : limit.rlim_cur / 2;
}

/* Where several users are served, none may take all: shares limit each by what the others hold. */
static void shares_begin(struct broker *broker)
{
	if (!broker->config->several_users)
		return;
	accounting_set_capacity(broker->accounting, RESOURCE_BUFFERS, broker->config->buffers);
	accounting_set_capacity(broker->accounting, RESOURCE_MAPPINGS, broker->config->handles);
	accounting_set_capacity(broker->accounting, RESOURCE_DESCRIPTORS, descriptors_for_users(broker));
}

void broker_join(struct broker *broker, struct core *core)
{
	*broker = (struct broker){ .config = &core->config,
				   .core = core,
				   .creators = &core->config.creators,
				   .board = &core->board,
				   .accounting = &core->accounting,
				   .memory = &core->memory,
				   .registry = &core->registry,
				   .marks = &core->marks,
				   .workers = &core->workers,
				   .pool = &core->pool,
				   .discard = &core->discard,
				   .connections = &core->connections,
				   .queue = &core->queue,
				   .sessions = &core->sessions,
				   .delegation = &core->delegation,
				   .waiting = &core->waiting,
				   .creates = &core->creates,
				   .inquiry = &core->inquiry,
				   .status = &core->status,
				   .events = &core->events,
				   .tracking = &core->status.tracking };
}

static void tell_of_predecessor(struct broker *broker)
{
	uint64_t pid = broker->status->ring.predecessor;

	if (pid)
		event_happened(broker, &(struct broker_event){ .kind = EVENT_PREDECESSOR, .other.pid = (uint32_t)pid });
}

int broker_init(struct broker *broker, struct core *core, const struct broker_config *config, struct event_base *base,
		int listener)
{
	static const struct registry_hooks hooks = { acquire_notice, delegation_forget };
	const struct memory_orders orders = { reclaim_clean, reclaim_release, broker };
	static const struct session_hooks session_hooks = { dispatch_message, ending_expire, ending_silence,
							    ending_end };
	char names[EXPORT_NAMES_SIZE];
	int error;

	if (sodium_init() < 0)
		return error_set(-ENOSYS, "libsodium does not start: no source of random numbers");
	if (config->exported >= export_count)
		return error_set(-EINVAL, "GPUBROKER_EXPORT names no kind of export: write %s, or unset it",
				 export_names(names));
	error = identity_check_system();
	if (error)
		return error;
	memset(core, 0, sizeof *core);
	broker_join(broker, core);
	core->config = *config;
	broker->several_users = config->several_users;
	broker->base = base;
	broker->publish = status_write;
	broker->snapshot = snapshot_begin;
	broker->sessions->hooks = &session_hooks;
	raise_descriptor_limit();
	tables_init();
	accounting_init(broker->accounting);
	accounting_set_quotas(broker->accounting, &config->quotas);
	error = delegation_init(broker->delegation);
	if (error)
		goto deinit_accounting;
	error = status_open(broker->status, broker->config->instance);
	if (error)
		goto deinit_delegation;
	if (config->keeps_events)
		status_keep_events(broker->status);
	status_set_job(broker->status, config->launcher, config->job_id);
	broker->accounting->tracking = broker->tracking;
	broker->events->record = status_record;
	broker->events->broker = broker;
	error = device_start(broker);
	if (error)
		goto close_status;
	error = board_create(broker->board, broker->config->instance, broker->device, config->buffers,
			     config->handles);
	if (error)
		goto close_status;
	memory_init(broker->memory, broker->accounting, &orders);
	error = addresses_init(&broker->memory->addresses, randombytes_random());
	if (error)
		goto destroy_board;
	error = registry_init(broker->registry, broker->memory, broker->board->board.words, config->buffers,
			      config->handles, &hooks, broker);
	if (error)
		goto deinit_memory;
	broker->registry->tracking = broker->tracking;
	broker->registry->trust = config->trust;
	broker->memory->exported = config->exported;
	broker->memory->descriptors = broker->device->descriptors;
	pool_init(broker,
		  &(struct pool_limits){ config->pool,
					 memory_descriptors(broker->memory, config->exported) ? POOL_OBJECTS : 0 },
		  &broker->memory->usages);
	broker->pool->came = create_wake;
	error = workers_start(broker->workers, base, broker->device, broker->board->header->devices);
	if (error)
		goto deinit_registry;
	error = marks_init(broker);
	if (error)
		goto stop_workers;
	error = inquiry_init(broker);
	if (!error)
		error = listener_start(broker, listener);
	if (error)
		goto deinit_marks;
	shares_begin(broker);
	status_start(broker);
	names_watch(&core->names, look_at_status, broker);
	names_watch(&core->names, look_at_memory, broker);
	error = names_begin(&core->names, broker);
	if (!error)
		error = events_begin(broker->events, broker, base);
	if (!error)
		error = histograms_begin(&broker->histograms, broker->tracking, base);
	if (!error) {
		tell_of_predecessor(broker);
		return 0;
	}
	error_set(error, "the broker is out of memory");
deinit_marks:
	names_end(&core->names);
	fair_queue_deinit(broker->queue);
	discard_stop(broker->discard);
	connections_deinit(broker);
	inquiry_deinit(broker);
	if (broker->connections->listener)
		event_free(broker->connections->listener);
	marks_deinit(broker->marks);
stop_workers:
	workers_stop(broker->workers);
deinit_registry:
	registry_deinit(broker->registry);
deinit_memory:
	memory_deinit(broker->memory);
destroy_board:
	board_destroy(broker->board);
close_status:
	events_end(broker->events);
	host_leave_directory();
	status_close(broker->status);
deinit_delegation:
	delegation_deinit(broker->delegation);
deinit_accounting:
	accounting_deinit(broker->accounting);
	return error;
}

void broker_deinit(struct broker *broker)
{
	event_free(broker->connections->listener);
	names_end(&broker->core->names);
	histograms_deinit(&broker->histograms);
	waiting_deinit(broker);
	inquiry_deinit(broker);
	connections_deinit(broker);
	sessions_deinit(broker);
	fair_queue_deinit(broker->queue);
	discard_stop(broker->discard);
	usages_limit(&broker->memory->usages, 0); /* the pool is freed while the devices' threads still run */
	workers_stop(broker->workers);
	marks_deinit(broker->marks);
	pool_forget(broker);
	registry_deinit(broker->registry);
	memory_deinit(broker->memory);
	board_destroy(broker->board);
	events_end(broker->events);
	host_leave_directory();
	status_close(broker->status);
	accounting_deinit(broker->accounting);
	delegation_deinit(broker->delegation);
}

static void look_whether_idle(struct broker *broker)
{
	const struct core *core = broker->core;

	if (broker->stopping && core->drained && registry_empty(broker->registry) && !broker->workers->pending)
		core->drained(core->drained_context);
}

/* The work that is done once a pass, however often something changed. */
static void follow_changes(struct broker *broker)
{
	broker_publish(broker);
	if (!broker->changed)
		return;
	broker->changed = false;
	look_whether_idle(broker);
}

void broker_pass(struct broker *broker, bool wait)
{
	bool more = sessions_serve(broker);

	more |= notices_more(broker->registry);
	more |= waking_more(broker);
	more |= inquiry_more(broker);
	follow_changes(broker);
	if (broker->core->over) /* without this, a pending event would start more work */
		return;
	event_base_loop(broker->base, EVLOOP_ONCE | (more || !wait ? EVLOOP_NONBLOCK : 0));
}

/* A session that sent a message is likely to send another, and a wake-up costs several times the work itself. */
static bool is_busy(const struct broker *broker)
{
	return broker->config->poll_us && now_ns(CLOCK_MONOTONIC) - broker->received < broker->config->poll_us * UINT64_C(1000);
}

void broker_quit(void *broker)
{
	((struct broker *)broker)->core->over = true;
}

void broker_loop(struct broker *broker)
{
	log_serving(true);
	while (!broker->core->over)
		broker_pass(broker, !is_busy(broker));
	log_serving(false);
}

void broker_configure(struct broker *broker, const struct quotas *quotas, const struct access_list *creators)
{
	broker->config->quotas = *quotas;
	broker->config->creators = *creators;
	accounting_set_quotas(broker->accounting, quotas);
	broker_changed(broker);
	broker_publish(broker);
}

/* Sessions that map idle memory are asked to close it; that takes its time. */
void broker_keep(struct broker *broker, uint64_t bytes)
{
	usages_limit(&broker->memory->usages, bytes);
	broker_changed(broker);
	broker_publish(broker);
}

uint64_t broker_buffers_ended(const struct broker *broker)
{
	const struct buffer *buffer;
	uint64_t there = 0;

	for (buffer = broker->registry->serials; buffer; buffer = buffer->by_serial.next)
		there += buffer->state != BUFFER_CREATING;
	return broker->counters.buffers_created - there;
}

bool broker_balanced(const struct broker *broker)
{
	const struct counters *c = &broker->counters;

	return registry_empty(broker->registry) && c->allocations_made == c->allocations_freed &&
	       c->bytes_made == c->bytes_freed && c->grants_opened == c->grants_closed + c->grants_died;
}

void broker_stop(struct broker *broker, void (*drained)(void *context), void *context)
{
	struct buffer *buffer, *next;

	broker->stopping = true;
	broker->core->drained = drained;
	broker->core->drained_context = context;
	waiting_forget_all(broker);
	HASH_ITER(hh, broker->registry->names, buffer, next)
		if (buffer->state == BUFFER_LIVE)
			manage_unlink(broker, buffer);
	broker_keep(broker, 0);
}
