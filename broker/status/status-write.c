/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-write.c - writes the header and the records of changed objects to the status file (status.h).
 *
 * Fills a record from its object when it writes the record, so that an object that changed ten times is written once.
 */
#include "status.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/memory/allocation.h"
#include "broker/memory/memory.h"
#include "broker/memory/usage.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/request/inquiry.h"
#include "broker/request/waiting.h"
#include "broker/session/connections.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/now.h"
#include "common/timeline-page.h"

#define RETRY_MS 100

#define OBJECT(pointer, type) ((const type *)((const char *)(pointer) - offsetof(type, tracked)))

/* ---- what a record says of its object ---- */

static void fill_device(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	unsigned index = (unsigned)(tracked - broker->status->device);
	const struct board_device *device = &broker->board->header->device[index];

	to->device = (struct status_device){ .index = index,
					     .bytes = device->memory,
					     .idle = broker->status->spare[index][SPARE_IDLE],
					     .pooled = broker->status->spare[index][SPARE_POOLED] };
	memcpy(to->device.uuid, device->uuid, sizeof to->device.uuid);
	memcpy(to->device.name, device->name, sizeof to->device.name);
}

static void fill_user(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct account *account = OBJECT(tracked, struct account);
	const struct quota *quota = accounting_quota(broker->accounting, account->uid);

	to->user = (struct status_user){ .uid = account->uid, .requests = quota->requests };
	memcpy(to->user.used, account->used, sizeof to->user.used);
	memcpy(to->user.limit, quota->limit, sizeof to->user.limit);
}

static enum status_session_state session_state(const struct session *session)
{
	if (session->proof.state == PROOF_ASKING)
		return STATUS_DYING;
	if (session->proof.state == PROOF_IMPOSSIBLE)
		return STATUS_UNPROVEN;
	if (session->fd < 0)
		return STATUS_LOST;
	if (session->place.dead)
		return STATUS_ORPHANED;
	return session->state == SESSION_OPEN	 ? STATUS_OPEN :
	       session->state == SESSION_LEAVING ? STATUS_LEAVING :
						   STATUS_CUT;
}

static void fill_session(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct session *session = OBJECT(tracked, struct session);

	(void)broker;
	_Static_assert((int)STATUS_CANNOT_ANSWER == (int)ANSWER_UNKNOWN, "answers are numbered alike");
	to->session = (struct status_session){ .state = session_state(session),
					       .id = session->id,
					       .pid = (uint64_t)session->pid,
					       .uid = session->who.uid,
					       .since = (uint64_t)session->since,
					       .rank = session->rank + 1,
					       .answered = session->inquired.answered_ms,
					       .answer = session->inquired.answer,
					       .partial = session->inquired.partial,
					       .start = session->start };
	memcpy(to->session.command, session->command, sizeof to->session.command);
}

static enum status_buffer_state buffer_state(const struct buffer *buffer)
{
	switch (buffer->state) {
	case BUFFER_CREATING:
		return STATUS_CREATING;
	case BUFFER_LIVE:
		return STATUS_LIVE;
	default:
		return buffer->allocation->state == ALLOCATION_FREEING ? STATUS_FREEING : STATUS_DRAINING;
	}
}

static void fill_buffer(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct buffer *buffer = OBJECT(tracked, struct buffer);
	const struct allocation *allocation = buffer->allocation;

	uint64_t taken = buffer->reserve ? allocation->size : allocation->slab.kind.range;

	(void)broker;
	to->buffer =
		(struct status_buffer){ .state = buffer_state(buffer),
					.generation = buffer->serial,
					.allocation = allocation->serial,
					.bytes = buffer->size,
					.allocated = allocation_is_made(allocation) ? taken : 0,
					.device = allocation->device,
					.owner = buffer->owner,
					.group = buffer->group,
					.mode = buffer->mode,
					.flags = buffer->flags | (allocation->ended ? STATUS_ENDED : 0),
					.exported = allocation->slab.kind.exported,
					.created = (uint64_t)buffer->created,
					.layout = buffer_layout(buffer) };
	memcpy(to->buffer.name, buffer->name, sizeof to->buffer.name);
}

static void fill_mapping(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct mapping *mapping = OBJECT(tracked, struct mapping);

	(void)broker;
	to->mapping = (struct status_mapping){ .orphaned = mapping->orphaned,
					       .id = mapping->id,
					       .session = mapping->session->id,
					       .allocation = mapping->allocation->serial,
					       .bytes = mapping->bytes,
					       .device = mapping->device };
}

static void fill_grant(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct grant *grant = OBJECT(tracked, struct grant);

	(void)broker;
	to->grant = (struct status_grant){ .mapping = grant->mapping->id, .generation = grant->buffer->serial };
}

static void fill_timeline(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct timeline *timeline =
		(const struct timeline *)((const char *)tracked - offsetof(struct timeline, shown.tracked));

	(void)broker;
	to->timeline = (struct status_timeline){ .ended = !timeline->mark		     ? STATUS_RUNS :
							  timeline->mark == TIMELINE_LEFT ? STATUS_LEFT :
											    STATUS_DIED,
						 .generation = timeline->serial,
						 .value = timeline_value(timeline),
						 .writer = timeline->writer,
						 .read = now_ms(CLOCK_REALTIME),
						 .ended_at = timeline->shown.ended_ms,
						 .pid = timeline->shown.pid,
						 .rank = timeline->writer ? timeline->shown.rank + 1 : 0 };
}

static void fill_wait(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct reported_wait *wait = OBJECT(tracked, struct reported_wait);

	(void)broker;
	to->wait = (struct status_wait){ .session = wait->session,
					 .generation = wait->serial,
					 .value = wait->value,
					 .device = wait->device,
					 .since = wait->since_ms };
}

static void fill_request(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	static const enum status_request_kind kinds[] = { [WAIT_ACQUIRE] = STATUS_ACQUIRE,
							  [WAIT_DRAIN] = STATUS_DRAIN,
							  [WAIT_CREATE] = STATUS_CREATE,
							  [WAIT_NEWER] = STATUS_NEWER };
	const struct wait *wait = OBJECT(tracked, struct wait);
	struct wait_shown shown;

	(void)broker;
	wait->kind->show(wait, &shown);
	to->request = (struct status_request){ .kind = kinds[shown.what],
					       .session = wait_session(wait),
					       .generation = shown.generation,
					       .bytes = shown.bytes,
					       .device = shown.device,
					       .since = wait->since_ms,
					       .timed = wait->expires.ms != 0 };
	snprintf(to->request.name, sizeof to->request.name, "%s", shown.name);
}

static void fill_address(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	struct sockaddr_un name = { 0 };
	socklen_t size = sizeof name - 1;

	(void)tracked;
	to->address = (struct status_address){ .address = "" };
	if (!getsockname(event_get_fd(broker->connections->listener), (struct sockaddr *)&name, &size) &&
	    name.sun_path[0])
		snprintf(to->address.address, sizeof to->address.address, "unix:%s", name.sun_path);
}

static void fill_histogram(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct histogram *histogram = OBJECT(tracked, struct histogram);

	to->histogram = (struct status_histogram){ .id = (uint64_t)(histogram - broker->histograms.of),
						   .nanoseconds = histogram->nanoseconds };
	memcpy(to->histogram.buckets, histogram->buckets, sizeof to->histogram.buckets);
}

static void fill_job(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	(void)tracked;
	to->job = (struct status_job){ .launcher = "" };
	memcpy(to->job.launcher, broker->status->launcher, sizeof to->job.launcher);
	memcpy(to->job.id, broker->status->job_id, sizeof to->job.id);
}

/* Puts the owner behind the address. */
static size_t add_owner(const struct status *status, union status_record *to)
{
	to->first.owner = status->owner_now;
	to->first.owner.type = TRACKED_OWNER;
	status_seal(&to->first.owner.seal, sizeof to->first.owner, status->sequence);
	return sizeof to->first;
}

/* Puts the broker's process behind the first device, and its program behind that. */
static size_t add_broker(const struct status *status, union status_record *to)
{
	to->second.broker = status->broker_now;
	to->second.broker.type = TRACKED_BROKER;
	status_seal(&to->second.broker.seal, sizeof to->second.broker, status->sequence);
	to->second.program = (struct status_program){ .type = TRACKED_PROGRAM, .version = PACKAGE_VERSION };
	status_seal(&to->second.program.seal, sizeof to->second.program, status->sequence);
	return sizeof to->second;
}

static bool has_broker_behind(const struct status *status, const struct tracked *tracked)
{
	return tracked == &status->device[0] && status->broker_now.pid;
}

size_t status_fill(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	static void (*const fills[])(const struct broker *, const struct tracked *, union status_record *) = {
		[TRACKED_DEVICE] = fill_device, [TRACKED_USER] = fill_user,   [TRACKED_SESSION] = fill_session,
		[TRACKED_BUFFER] = fill_buffer, [TRACKED_MAPPING] = fill_mapping, [TRACKED_GRANT] = fill_grant,
		[TRACKED_TIMELINE] = fill_timeline, [TRACKED_WAIT] = fill_wait, [TRACKED_REQUEST] = fill_request,
		[TRACKED_ADDRESS] = fill_address,
		[TRACKED_HISTOGRAM] = fill_histogram,
		[TRACKED_JOB] = fill_job,
	};
	size_t size = status_size(tracked->type);

	fills[tracked->type](broker, tracked, to);
	to->type = tracked->type;
	status_seal(&to->seal, size, broker->status->sequence);
	if (has_broker_behind(broker->status, tracked))
		return add_broker(broker->status, to);
	return tracked->type == TRACKED_ADDRESS ? add_owner(broker->status, to) : size;
}

/* ---- writing ---- */

/*
 * Writes bytes to the file's copy and then to their place, so that the copy or the place is whole at any time
 * (format.h).
 */
static void put(struct status *status, uint64_t offset, const void *bytes, size_t size)
{
	struct status_copy *copy = (struct status_copy *)(status->file.bytes + STATUS_COPY);

	__atomic_store_n(&copy->offset, STATUS_COPY, __ATOMIC_RELAXED); /* says that copy->bytes is being changed */
	atomic_thread_fence(memory_order_release);
	memcpy(copy->bytes, bytes, size);
	__atomic_store_n(&copy->offset, offset, __ATOMIC_RELEASE);
	atomic_thread_fence(memory_order_release);
	memcpy(status->file.bytes + offset, bytes, size);
	atomic_thread_fence(memory_order_release);
}

static const union status_record free_slot;

static bool is_shown(const struct tracked *tracked)
{
	return tracked && status_size(tracked->type);
}

static void write_record(struct broker *broker, uint32_t slot)
{
	const struct tracked *tracked = broker->status->tracking.at[slot];
	union status_record record;

	if (is_shown(tracked))
		put(broker->status, STATUS_OFFSET(slot), &record, status_fill(broker, tracked, &record));
	else
		put(broker->status, STATUS_OFFSET(slot), &free_slot, sizeof free_slot);
}

/*
 * Frees the slots that have a record and no shown object, in what is newly mapped of the file: such a record is of the
 * broker before this one, or of before the file was cut.
 */
static void clear_others(struct status *status)
{
	const struct tracking *tracking = &status->tracking;
	uint32_t slot = status->cleared;

	for (; STATUS_OFFSET(slot + 1) <= status->file.size; slot++) {
		const union status_record *there = (const void *)(status->file.bytes + STATUS_OFFSET(slot));

		if (there->type && (slot >= tracking->slots || !is_shown(tracking->at[slot])))
			put(status, STATUS_OFFSET(slot), &free_slot, sizeof free_slot);
	}
	status->cleared = slot;
}

/*
 * Writes the records of all changed slots that the file has. Also of those after the last used one, which readers do
 * not read: an object that the file does not show may be next in such a slot.
 */
static int write_records(struct broker *broker)
{
	struct status *status = broker->status;
	int error = mapped_file_reserve(&status->file, STATUS_OFFSET(status->tracking.slots));
	uint32_t slot;

	if (!error)
		clear_others(status);
	while (!error && status->tracking.changes[SINK_STATUS].count) {
		slot = tracking_take(&status->tracking, SINK_STATUS);
		if (STATUS_OFFSET(slot + 1) <= status->file.size)
			write_record(broker, slot);
	}
	return error;
}

void status_fill_header(const struct broker *broker, struct status_header *header)
{
	*header = broker->status->header;
	header->stopping = broker->stopping;
	header->waiting = broker->waiting->count;
	header->records = broker->status->tracking.slots;
	header->counters = broker->counters;
}

static void write_header(struct broker *broker)
{
	struct status_header *last = &broker->status->header, header;

	status_fill_header(broker, &header);
	if (last->seal.checksum && !memcmp(&header, last, sizeof header))
		return;
	header.updated = (uint64_t)time(NULL);
	status_seal(&header.seal, STATUS_HEADER_SEALED, broker->status->sequence);
	put(broker->status, 0, &header, sizeof header);
	*last = header;
}

void status_record(struct broker *broker, const struct broker_event *event)
{
	ring_put(&broker->status->ring, &broker->status->file, event);
}

static int write_changed(struct broker *broker)
{
	int error = write_records(broker);

	if (!error)
		write_header(broker);
	return error;
}

/*
 * Unmaps the file, and marks the header and all slots as changed, because the bytes written so far may be in no file.
 */
static void forget_written(struct status *status)
{
	mapped_file_reset(&status->file);
	status->header.seal.checksum = 0;
	status->cleared = 0;
	for (uint32_t slot = 0; slot < status->tracking.slots; slot++)
		tracking_put(&status->tracking, SINK_STATUS, slot);
}

/*
 * Marks the records of devices whose spare memory has changed. Compares the figures, because spare memory has no record
 * of its own.
 */
static void mark_devices(struct broker *broker)
{
	struct status *status = broker->status;

	for (uint32_t i = 0; i < broker->board->header->devices; i++) {
		const uint64_t *spare = broker->memory->usages.bytes[i];

		if (!memcmp(status->spare[i], spare, sizeof status->spare[i]))
			continue;
		memcpy(status->spare[i], spare, sizeof status->spare[i]);
		tracked_changed(&status->tracking, &status->device[i]);
	}
}

/*
 * Returns true if there is nothing to write. Compares the counters with those last written, so that code that counts
 * need not mark a change.
 */
static bool is_current(const struct broker *broker)
{
	const struct status *status = broker->status;

	return !broker->unpublished && !status->tracking.changes[SINK_STATUS].count &&
	       !memcmp(&status->header.counters, &broker->counters, sizeof broker->counters);
}

/* Writes the whole file anew after it was truncated, with an empty ring. */
static int write_anew(struct broker *broker)
{
	int error;

	forget_written(broker->status);
	error = write_changed(broker);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_STATUS_CUT });
	return error;
}

static bool must_grow(const struct status *status)
{
	return STATUS_OFFSET(status->tracking.slots) > status->file.size;
}

/*
 * Returns true during the pause after a failed attempt to grow the file. A failed attempt first allocates all pages
 * that are left, which takes too long to repeat it before each answer.
 */
static bool is_pausing(const struct status *status)
{
	return status->retry && evtimer_pending(status->retry, NULL);
}

static void on_retry(evutil_socket_t fd, short what, void *broker)
{
	(void)fd;
	(void)what;
	status_write(broker);
}

/* Writes all changes. Not inlined into status_write(), because most calls find nothing to write. */
__attribute__((noinline)) static void write_now(struct broker *broker)
{
	static const struct timeval pause = { .tv_usec = RETRY_MS * 1000 };
	struct status *status = broker->status;
	int error;

	CRASH_POINT(status_begin);
	status->sequence++;
	mark_devices(broker);
	error = write_changed(broker);
	if (mapped_file_is_lost(&status->file))
		error = write_anew(broker);
	CRASH_POINT(status_written);
	broker->unpublished = error != 0;
	if (error && status->retry)
		evtimer_add(status->retry, &pause);
	if (error && !status->complained)
		log_line("the status file is not up to date: %s; make room in /dev/shm", strerror(-error));
	status->complained = error != 0;
}

void status_write(struct broker *broker)
{
	const struct status *status = broker->status;

	if (status->started && !is_current(broker) && !(must_grow(status) && is_pausing(status)))
		write_now(broker);
}

int status_restore(struct broker *broker)
{
	struct status *status = broker->status;
	int before, error;

	if (status_is_named(status))
		return 0;
	before = status_open_again(status);
	if (before < 0)
		return before;
	forget_written(status);
	if (!mapped_file_reserve(&status->file, STATUS_HEADER_SIZE))
		ring_copy(&status->file, before);
	close(before);
	broker->unpublished = true;
	status_write(broker);
	error = status_name_again(status);
	return error ? error : 1;
}

/* ---- the owner of the device memory ---- */

static void owner_is(struct broker *broker, enum status_owner_state state, uint64_t pid)
{
	struct status_owner *owner = &broker->status->owner_now;

	owner->state = state;
	owner->pid = pid;
	tracked_changed(broker->tracking, &broker->status->address);
	broker_changed(broker);
}

void status_owner_died(struct broker *broker, unsigned lost)
{
	struct status_owner *owner = &broker->status->owner_now;

	owner->died++;
	owner->died_pid = (uint64_t)broker->owner_pid;
	owner->died_at = owner->since = (uint64_t)now_ms(CLOCK_REALTIME);
	owner->lost = lost;
	owner->lost_all += lost;
	owner->tries = 0;
	owner_is(broker, STATUS_OWNER_STARTS, 0);
}

void status_owner_not_started(struct broker *broker)
{
	broker->status->owner_now.tries++;
	owner_is(broker, STATUS_OWNER_STARTS, 0);
}

void status_owner_serves(struct broker *broker)
{
	broker->status->owner_now.since = (uint64_t)now_ms(CLOCK_REALTIME);
	owner_is(broker, STATUS_OWNER_RUNS, (uint64_t)broker->owner_pid);
}

void status_owner_failed(struct broker *broker)
{
	owner_is(broker, STATUS_OWNER_FAILED, 0);
	broker_publish(broker); /* the loop ends now */
}

/* ---- the broker's process ---- */

void status_set_broker(struct broker *broker, const struct status_broker *process)
{
	struct status *status = broker->status;

	status->broker_now = *process;
	tracked_changed(broker->tracking, &status->device[0]);
	broker_changed(broker);
}

/* ---- the beginning ---- */

void status_start(struct broker *broker)
{
	struct status *status = broker->status;
	struct status_header *header = &status->header;

	snprintf(header->instance, sizeof header->instance, "%s", broker->board->header->instance);
	snprintf(header->device_kind, sizeof header->device_kind, "%s", broker->device->name);
	/* the first object, so that its slot is STATUS_ADDRESS_SLOT */
	tracked_begin(&status->tracking, &status->address, TRACKED_ADDRESS);
	for (uint32_t i = 0; i < broker->board->header->devices; i++)
		tracked_begin(&status->tracking, &status->device[i], TRACKED_DEVICE);
	if (status->job_id[0])
		tracked_begin(&status->tracking, &status->job, TRACKED_JOB);
	/* an owner that has served the broker before this one, too, serves since then */
	if (!status->owner_now.since || status->owner_now.state != STATUS_OWNER_RUNS ||
	    status->owner_now.pid != (uint64_t)broker->owner_pid)
		status_owner_serves(broker);
	status->retry = evtimer_new(broker->base, on_retry, broker);
	status->started = true;
	status_write(broker);
}
