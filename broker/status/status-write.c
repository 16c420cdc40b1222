/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-write.c - writes the header and the records of what has changed (status.h).
 *
 * Fills a record from its object when it is written, so that an object that changes ten times is written once. Records whose
 * slots lie side by side, and the header in front of the first ones, go into one pwrite.
 */
#include "status.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/memory/allocation.h"
#include "broker/memory/memory.h"
#include "broker/memory/usage.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/request/waiting.h"
#include "broker/session/session.h"
#include "common/crash-point.h"

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
	return session->state == SESSION_OPEN ? STATUS_OPEN : session->state == SESSION_LEAVING ? STATUS_LEAVING : STATUS_CUT;
}

static void fill_session(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct session *session = OBJECT(tracked, struct session);

	(void)broker;
	to->session = (struct status_session){ .state = session_state(session),
					       .id = session->id,
					       .pid = (uint64_t)session->pid,
					       .uid = session->who.uid };
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

	(void)broker;
	to->buffer = (struct status_buffer){ .state = buffer_state(buffer),
					     .generation = buffer->serial,
					     .allocation = allocation->serial,
					     .bytes = buffer->size,
					     .allocated = allocation->slab.kind.range,
					     .device = allocation->device,
					     .owner = buffer->owner,
					     .group = buffer->group,
					     .mode = buffer->mode,
					     .ephemeral = !!(buffer->flags & GPUB_EPHEMERAL),
					     .timeline = buffer->timeline != NULL,
					     .alone = !!(buffer->flags & GPUB_ALONE) };
	memcpy(to->buffer.name, buffer->name, sizeof to->buffer.name);
}

static void fill_grant(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct grant *grant = OBJECT(tracked, struct grant);

	(void)broker;
	to->grant = (struct status_grant){ .orphaned = grant->orphaned,
					   .id = grant->id,
					   .session = grant->session->id,
					   .allocation = grant->allocation->serial,
					   .bytes = grant->allocation->span,
					   .device = grant->device };
}

static void fill_use(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	const struct use *use = OBJECT(tracked, struct use);

	(void)broker;
	to->use = (struct status_use){ .grant = use->grant->id, .generation = use->buffer->serial };
}

static void fill(const struct broker *broker, const struct tracked *tracked, union status_record *to)
{
	static void (*const fills[])(const struct broker *, const struct tracked *, union status_record *) = {
		[TRACKED_DEVICE] = fill_device, [TRACKED_USER] = fill_user,   [TRACKED_SESSION] = fill_session,
		[TRACKED_BUFFER] = fill_buffer, [TRACKED_GRANT] = fill_grant, [TRACKED_USE] = fill_use,
	};

	fills[tracked->type](broker, tracked, to);
	to->type = tracked->type;
	status_seal(&to->seal, status_size(tracked->type), broker->status->sequence);
}

/* ---- writing ---- */

/* All of it: where a file or the machine is full, part of it may be written, and only the next call says why. */
static int run_write(struct status *status)
{
	struct status_run *run = &status->run;
	size_t done = 0;

	while (done < run->length) {
		ssize_t wrote = pwrite(status->fd, run->bytes + done, run->length - done, (off_t)(run->offset + done));

		if (wrote <= 0)
			return wrote ? -errno : -ENOSPC;
		done += (size_t)wrote;
	}
	run->length = 0;
	return 0;
}

/* Room for so much at that offset, behind what is gathered, which is written first where it ends elsewhere. */
static int run_extend(struct status *status, uint64_t offset, size_t size, void **room)
{
	struct status_run *run = &status->run;
	int error = 0;

	if (run->length && run->offset + run->length != offset)
		error = run_write(status);
	if (!run->length)
		run->offset = offset;
	*room = run->bytes + run->length;
	run->length += size;
	return error;
}

static int compare_slots(const void *a, const void *b)
{
	const uint32_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

/* In their order in the file. */
static unsigned slots_take(struct tracking *tracking, uint32_t slots[STATUS_BATCH])
{
	unsigned count = 0;

	while (count < STATUS_BATCH && tracking->changed_count)
		slots[count++] = tracking_take(tracking);
	if (count > 1)
		qsort(slots, count, sizeof *slots, compare_slots);
	return count;
}

static int slots_gather(struct broker *broker, const uint32_t *slots, unsigned count)
{
	struct status *status = broker->status;
	const struct tracked *tracked;
	void *room;
	int error = 0;

	for (unsigned i = 0; i < count && !error; i++) {
		error = run_extend(status, STATUS_OFFSET(slots[i]), STATUS_RECORD_SIZE, &room);
		memset(room, 0, STATUS_RECORD_SIZE);
		tracked = status->tracking.at[slots[i]];
		if (tracked)
			fill(broker, tracked, room);
	}
	return error;
}

static bool header_make(const struct broker *broker, struct status_header *header)
{
	const struct status_header *last = &broker->status->header;

	*header = *last;
	header->stopping = broker->stopping;
	header->waiting = broker->waiting->count;
	header->records = broker->status->tracking.slots;
	header->counters = broker->counters;
	if (last->seal.checksum && !memcmp(header, last, sizeof *header))
		return false;
	header->updated = (uint64_t)time(NULL);
	status_seal(&header->seal, STATUS_HEADER_SEALED, broker->status->sequence);
	return true;
}

static int header_gather(struct status *status, const struct status_header *header)
{
	void *room;
	int error = run_extend(status, 0, STATUS_HEADER_SIZE, &room);

	memcpy(room, header, sizeof *header);
	memset((char *)room + sizeof *header, 0, STATUS_HEADER_SIZE - sizeof *header);
	return error;
}

/* The header is in front of the first records: it goes with the first batch. */
static int write_batch(struct broker *broker, bool with_header)
{
	struct status *status = broker->status;
	uint32_t slots[STATUS_BATCH];
	struct status_header header;
	unsigned count = slots_take(&status->tracking, slots);
	int error = 0;

	status->run.length = 0;
	with_header = with_header && header_make(broker, &header);
	if (with_header)
		error = header_gather(status, &header);
	if (!error)
		error = slots_gather(broker, slots, count);
	if (!error)
		error = run_write(status);
	if (!error && with_header)
		status->header = header;
	while (error && count)
		tracking_put(&status->tracking, slots[--count]);
	return error;
}

/* What is kept on each device changes with memory that is in no record: there are few devices. */
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

/* Counters are compared, so that nobody has to mark them. */
static bool is_current(const struct broker *broker)
{
	const struct status *status = broker->status;

	return !broker->unpublished && !status->tracking.changed_count &&
	       !memcmp(&status->header.counters, &broker->counters, sizeof broker->counters);
}

void status_write(struct broker *broker)
{
	struct status *status = broker->status;
	int error;

	if (!status->started || is_current(broker))
		return;
	CRASH_POINT(status_begin);
	broker->unpublished = false;
	status->sequence++;
	mark_devices(broker);
	error = write_batch(broker, true);
	while (!error && status->tracking.changed_count)
		error = write_batch(broker, false);
	CRASH_POINT(status_written);
	if (error && !status->complained)
		log_line("the status file is not up to date: %s; make room in /dev/shm", strerror(-error));
	status->complained = error != 0;
}

void status_start(struct broker *broker)
{
	struct status *status = broker->status;
	struct status_header *header = &status->header;
	struct tracked first = { 0 };

	snprintf(header->instance, sizeof header->instance, "%s", broker->board->header->instance);
	snprintf(header->device_kind, sizeof header->device_kind, "%s", broker->device->name);
	/* the slot behind the header is for the first user, whose record changes with the header: one pwrite has both */
	tracked_begin(&status->tracking, &first, TRACKED_USER);
	for (uint32_t i = 0; i < broker->board->header->devices; i++)
		tracked_begin(&status->tracking, &status->device[i], TRACKED_DEVICE);
	tracked_end(&status->tracking, &first);
	status->started = true;
	status_write(broker);
}
