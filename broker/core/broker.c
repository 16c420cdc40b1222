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
#include "broker/keeper/keeper.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
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
#include "common/error.h"
#include "common/exports.h"
#include "common/now.h"
#include "owner-of-keeper.h"

static void on_connection(evutil_socket_t fd, short what, void *argument)
{
	(void)what;
	connections_accept(argument, fd);
}

/* Makes the socket non-blocking, and returns an event that accepts its connections; NULL with the error message set. */
static struct event *listener_event(struct broker *broker, int listener)
{
	struct event *event;

	/* connections_accept() accepts several connections a call, and must not wait if fewer are pending */
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
	struct event *event;

	/* the connections that wait in the former socket would end with it */
	for (int i = 0; i < SOMAXCONN && poll(&waiting, 1, 0) == 1 && connections_accept(broker, former); i++)
		continue;
	if (poll(&waiting, 1, 0) == 1)
		return error_set(-EAGAIN, "the socket was removed, and is made again when the connections that wait "
					  "in it can be accepted");
	event = listener_event(broker, listener);
	if (!event)
		return -ENOMEM; /* the event of the former socket stays */
	event_free(broker->connections->listener);
	broker->connections->listener = event;
	close(former);
	return 1;
}

static int look_at_status(void *context, char text[EVENT_TEXT_MAX])
{
	struct broker *broker = context;
	int result = status_restore(broker);

	snprintf(text, EVENT_TEXT_MAX, SHM_DIR "%s", broker->status->name);
	if (result > 0)
		takeover_put(broker, KEPT_STATUS, broker->status->file.fd);
	return result;
}

void broker_config_init(struct broker_config *config)
{
	memset(config, 0, sizeof *config);
	strcpy(config->device, "auto");
	config->buffers = BROKER_BUFFERS;
	config->handles = BROKER_HANDLES;
	quota_init(&config->quotas.fallback);
}

#define RESERVE 128 /* number of descriptors that are kept free for accept(2), reads of /proc and the driver */

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

/* Returns the largest number of descriptors that pooled allocations may keep open; nobody is charged for these. */
static unsigned pool_descriptors(const struct broker *broker)
{
	return (broker->memory->descriptors + export_descriptors_max()) * POOL_OBJECTS;
}

/*
 * Returns how many descriptors all users together may have: the limit of open files minus what the broker needs, or
 * half of the limit if that is more. 0: there is no limit. Called when the broker's own descriptors are open.
 */
static uint64_t descriptors_for_users(const struct broker *broker)
{
	uint64_t reserve = descriptors_open() + RESERVE + discard_uncharged(broker->discard) + pool_descriptors(broker);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	return limit.rlim_cur / 2 > reserve ? limit.rlim_cur - reserve : limit.rlim_cur / 2;
}

/* Sets the capacities for shares, if several users are served, so that no user takes a whole resource. */
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
				   .devices = &core->devices,
				   .takeover = &core->takeover,
				   .board = &core->board,
				   .accounting = &core->accounting,
				   .memory = &core->memory,
				   .registry = &core->registry,
				   .marks = &core->marks,
				   .jobs = &core->jobs,
				   .pool = &core->pool,
				   .discard = &core->discard,
				   .connections = &core->connections,
				   .queue = &core->queue,
				   .sessions = &core->sessions,
				   .master = &core->master,
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

/* ---- the parts, in the order in which they begin ---- */

static int keeper_begin(struct broker *broker)
{
	return takeover_begin(broker, broker->config->keeper);
}

/* Begins first: owners are forked from a process that has no keys, clients or threads. */
static int place_begin(struct broker *broker)
{
	broker->devices->names = &broker->core->names;
	struct takeover *takeover = broker->takeover;

	return takeover->from ? devices_open(broker, &owner_of_keeper, &takeover->line, takeover->from->owner.pid) :
				devices_open(broker, broker->config->owner, NULL, false);
}

static int device_start(struct broker *broker)
{
	struct owner_setup setup = { .several_users = broker->config->several_users };

	strcpy(setup.device, broker->config->device);
	strcpy(setup.instance, broker->config->instance);
	return takeover_devices(broker, &setup);
}

static int accounting_begin(struct broker *broker)
{
	accounting_init(broker->accounting);
	accounting_set_quotas(broker->accounting, &broker->config->quotas);
	return 0;
}

static void accounting_end(struct broker *broker)
{
	accounting_deinit(broker->accounting);
}

/* Has the next broker derive the same keys. */
static int master_put(struct broker *broker)
{
	int fd = master_key_share(&broker->core->master);

	if (fd < 0)
		return fd;
	takeover_put(broker, KEPT_MASTER, fd);
	close(fd);
	return 0;
}

static int master_begin(struct broker *broker)
{
	struct master_key *master = &broker->core->master;
	int fd = takeover_take(broker, KEPT_MASTER), error = master_key_init(master, fd);

	if (fd >= 0)
		close(fd);
	else if (!error && broker->config->keeper)
		error = master_put(broker);
	return error;
}

static void master_end(struct broker *broker)
{
	master_key_deinit(&broker->core->master);
}

static int tickets_begin(struct broker *broker)
{
	return delegation_init(broker->delegation, broker->master);
}

static void tickets_end(struct broker *broker)
{
	delegation_deinit(broker->delegation);
}

#define LOCK_TRIES 10000 /* of 1 ms each: until processes that end have let go of the lock of a status file */

/*
 * Makes the status file. If another user's file has the name, status_open() changes the broker's name. Brokers of the
 * same keeper that have left nothing else may have left a file, which is locked until their processes are gone.
 */
static int status_make(struct broker *broker)
{
	const struct keeper_end *keeper = broker->config->keeper;
	unsigned tries = keeper && keeper->number > 1 ? LOCK_TRIES : 0;
	int error;

	while ((error = status_open(broker->status, broker->core->config.instance)) == -EEXIST && tries--) {
		poll(NULL, 0, 1);
		leftovers_remove(broker->core->config.instance);
	}
	if (!error)
		takeover_put(broker, KEPT_STATUS, broker->status->file.fd);
	return error;
}

/* Takes over the status file of the broker before this one, or makes one. */
static int status_get(struct broker *broker)
{
	const struct board_header *header = broker->config->board.shared;
	int fd = takeover_take(broker, KEPT_STATUS), error;
	char *instance = broker->core->config.instance;

	if (fd < 0)
		return status_make(broker);
	snprintf(instance, INSTANCE_SIZE, "%.*s", INSTANCE_SIZE - 1, header->instance);
	error = instance_check(instance);
	if (!error)
		error = status_reopen(broker->status, fd, instance);
	if (error < 0)
		close(fd);
	return error < 0 ? error : 0;
}

static int status_begin(struct broker *broker)
{
	int error = status_get(broker);

	if (error)
		return error;
	if (broker->config->keeper)
		status_set_process(broker->status, getppid());
	if (broker->config->keeps_events)
		status_keep_events(broker->status);
	status_set_job(broker->status, broker->config->launcher, broker->config->job_id);
	broker->accounting->tracking = broker->tracking;
	broker->events->record = status_record;
	broker->events->broker = broker;
	return 0;
}

static void status_end(struct broker *broker)
{
	events_end(broker->events);
	status_close(broker->status);
}

static int board_begin(struct broker *broker)
{
	const struct broker_config *config = broker->config;
	const struct owner_facts *facts = &broker->devices->facts;

	if (!config->keeper)
		return board_create(broker->board, config->instance, facts, config->buffers, config->handles);
	*broker->board = config->board;
	return broker->takeover->goes_on ?
		       board_restore(broker->board, config->instance, facts, config->buffers, config->handles) :
		       board_fill(broker->board, config->instance, facts, config->buffers, config->handles);
}

static void board_end(struct broker *broker)
{
	board_destroy(broker->board);
}

static int memory_begin(struct broker *broker)
{
	const struct memory_orders orders = { reclaim_clean, reclaim_release, broker };

	memory_init(broker->memory, broker->accounting, &orders);
	broker->memory->exported = broker->config->exported;
	broker->memory->descriptors = broker->device->descriptors;
	broker->memory->tracking = broker->tracking;
	return addresses_init(&broker->memory->addresses, randombytes_random());
}

static void memory_end(struct broker *broker)
{
	memory_deinit(broker->memory);
}

static int registry_begin(struct broker *broker)
{
	static const struct registry_hooks hooks = { acquire_notice, delegation_forget };
	int error = registry_init(broker->registry, broker->memory, broker->board->board.words, broker->config->buffers,
				  broker->config->handles, &hooks, broker);

	if (error)
		return error;
	broker->registry->tracking = broker->tracking;
	broker->registry->marks = broker->marks;
	broker->registry->trust = broker->config->trust;
	broker->registry->defers = true;
	return 0;
}

static void registry_end(struct broker *broker)
{
	registry_deinit(broker->registry);
}

static int pool_begin(struct broker *broker)
{
	unsigned objects = memory_descriptors(broker->memory, broker->config->exported) ? POOL_OBJECTS : 0;

	pool_init(broker, &(struct pool_limits){ broker->config->pool, objects }, &broker->memory->usages);
	broker->pool->wake = create_wake;
	return 0;
}

static int marks_begin(struct broker *broker)
{
	broker->marks->defers = true;
	return marks_init(broker);
}

static void marks_end(struct broker *broker)
{
	marks_deinit(broker->marks);
}

static int discard_begin(struct broker *broker)
{
	return discard_start(broker->discard, broker->base, broker->accounting, broker->core->listener);
}

static void discard_end(struct broker *broker)
{
	discard_stop(broker->discard);
}

static int queue_begin(struct broker *broker)
{
	return fair_queue_init(broker->queue, broker->base, broker->accounting);
}

static void queue_end(struct broker *broker)
{
	fair_queue_deinit(broker->queue);
}

static int sessions_begin(struct broker *broker)
{
	static const struct session_hooks hooks = { dispatch_message, ending_expire, ending_silence, ending_end };
	int error;

	broker->sessions->hooks = &hooks;
	broker->sessions->hand = &broker->sessions->own_hand;
	error = outboxes_init(&broker->sessions->outboxes);
	if (error)
		sessions_deinit(broker);
	return error;
}

static int listener_begin(struct broker *broker)
{
	broker->connections->listener = listener_event(broker, broker->core->listener);
	return broker->connections->listener ? 0 : -ENOMEM;
}

static void listener_end(struct broker *broker)
{
	event_free(broker->connections->listener);
}

/* Begins the shares of users, the writing of the status file, and the checks of the broker's names. */
static int names_watched(struct broker *broker)
{
	struct names *names = &broker->core->names;
	int error;

	shares_begin(broker);
	status_start(broker);
	names_watch(names, look_at_status, broker);
	names_path(names, SHM_DIR "%s", broker->status->name);
	if (owner_has_names(broker->device->kind)) {
		names_watch(names, devices_look_at_names, broker);
		names_path(names, SHM_DIR "%s.mem", broker->status->name);
	}
	error = names_begin(names, broker);
	if (error)
		names_end(names);
	return error;
}

static void names_unwatched(struct broker *broker)
{
	names_end(&broker->core->names);
}

static int timers_begin(struct broker *broker)
{
	int error = events_begin(broker->events, broker, broker->base);

	if (!error)
		error = histograms_begin(&broker->histograms, broker->tracking, broker->base);
	return error ? error_set(error, "the broker is out of memory") : 0;
}

static void timers_end(struct broker *broker)
{
	histograms_deinit(&broker->histograms);
}

static const struct part {
	int (*begin)(struct broker *broker); /* returns 0 or a negative errno with the error message set */
	void (*end)(struct broker *broker);
} parts[] = { /* in the order in which begin() is called; end() is called in reverse order; NULL: nothing to do */
	{ keeper_begin, takeover_end },
	{ place_begin, devices_close },
	{ accounting_begin, accounting_end },
	{ master_begin, master_end },
	{ tickets_begin, tickets_end },
	{ status_begin, status_end },
	/* ends before the status file's part, which removes the names of the memory */
	{ device_start, devices_end },
	{ board_begin, board_end },
	{ memory_begin, memory_end },
	{ registry_begin, registry_end },
	{ pool_begin, pool_forget },
	{ marks_begin, marks_end },
	{ devices_serve, devices_serve_end },
	{ discard_begin, discard_end },
	{ queue_begin, queue_end },
	{ sessions_begin, sessions_deinit },
	{ connections_init, connections_deinit },
	{ inquiry_init, inquiry_deinit },
	{ NULL, waiting_deinit },
	{ listener_begin, listener_end },
	{ names_watched, names_unwatched },
	{ timers_begin, timers_end },
	{ takeover_go_on, takeover_stop },
};

#define PARTS (sizeof parts / sizeof *parts)

static void parts_end(struct broker *broker, size_t count)
{
	while (count--)
		if (parts[count].end)
			parts[count].end(broker);
}

static int config_check(const struct broker_config *config)
{
	char names[EXPORT_NAMES_SIZE];

	if (sodium_init() < 0)
		return error_set(-ENOSYS, "libsodium does not start: no source of random numbers");
	if (config->exported >= export_count)
		return error_set(-EINVAL, "GPUBROKER_EXPORT names no kind of export: write %s, or unset it",
				 export_names(names));
	return 0;
}

/*
 * Makes all changes visible: first in the status file, then to the next broker in the ledger, then to clients in the
 * board and in the pages of timelines, and to the owner by orders. So nothing leaves this process before the broker has
 * noted why.
 */
static void publish(struct broker *broker)
{
	status_write(broker);
	takeover_note(broker);
	marks_publish(broker->marks);
	registry_store_words(broker->registry);
	jobs_send(broker->jobs);
}

/* Begins all parts up to the first one that fails, and stores how many have begun. */
static int parts_begin(struct broker *broker, size_t *begun)
{
	int error = 0;

	for (*begun = 0; *begun < PARTS && !error; *begun += !error)
		error = parts[*begun].begin ? parts[*begun].begin(broker) : 0;
	return error;
}

/*
 * Begins a broker that is not the first one. A failure is a crash, because an exit would be the program's, and an end
 * of the parts that of the owner: the keeper tries again, and in the end with nothing.
 */
static int next_begin(struct broker *broker)
{
	size_t begun;

	if (!parts_begin(broker, &begun))
		return 0;
	log_say("the next broker does not start: %s", error_text());
	abort();
}

int broker_init(struct broker *broker, struct core *core, const struct broker_config *config, struct event_base *base,
		int listener)
{
	int error = config_check(config);
	size_t begun;

	if (error)
		return error;
	memset(core, 0, sizeof *core);
	broker_join(broker, core);
	core->config = *config;
	core->listener = listener;
	broker->several_users = config->several_users;
	broker->base = base;
	broker->publish = publish;
	broker->commit = takeover_note;
	broker->snapshot = snapshot_begin;
	tables_init();
	if (config->keeper && config->keeper->number > 1)
		return next_begin(broker);
	error = parts_begin(broker, &begun);
	if (error)
		parts_end(broker, begun);
	else
		tell_of_predecessor(broker);
	return error;
}

int broker_deinit(struct broker *broker)
{
	parts_end(broker, PARTS);
	if (!broker->devices->crashed)
		return 0;
	return error_set(-EIO, "the process that owned the device memory did not end as it should: a line above may "
			       "say why");
}

static void look_whether_idle(struct broker *broker)
{
	const struct core *core = broker->core;

	if (broker->stopping && core->drained && registry_empty(broker->registry) && !broker->jobs->pending)
		core->drained(core->drained_context);
}

/* Does the work of a change once in a pass: writes the status file, and checks whether a stopping broker is done. */
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
	bool more;

	takeover_mark(broker);
	more = sessions_serve(broker);
	more |= notices_more(broker->registry);
	more |= waking_more(broker);
	more |= inquiry_more(broker);
	sessions_send(broker);
	follow_changes(broker);
	if (broker->core->over) /* the loop is to end, and handling an event would start more work */
		return;
	event_base_loop(broker->base, EVLOOP_ONCE | (more || !wait ? EVLOOP_NONBLOCK : 0));
	sessions_send(broker);
}

/*
 * Returns true if the last message came less than poll_us ago: the loop then polls instead of sleeping. A session that
 * sent a message is likely to send another, and a wake-up costs several times as much as handling a message.
 */
static bool is_busy(const struct broker *broker)
{
	return broker->config->poll_us &&
	       now_ns(CLOCK_MONOTONIC) - broker->received < broker->config->poll_us * UINT64_C(1000);
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

/* Idle memory above the limit comes back later, because the sessions that map it are asked to close it. */
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
	       c->bytes_made == c->bytes_freed && c->mappings_opened == c->mappings_closed + c->mappings_died;
}

void broker_when_no_owner(struct broker *broker, void (*none)(void *context), void *context)
{
	broker->devices->when_failed = none;
	broker->devices->context = context;
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
