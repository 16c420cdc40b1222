/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - see request.h */
#include "request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"
#include "common/error.h"
#include "common/size.h"
#include "log.h"
#include "timeline.h"

#define KNOWN_FLAGS  (GPUB_EPHEMERAL | GPUB_TIMELINE)
#define KNOWN_RIGHTS (GPUB_READ | GPUB_WRITE)

static void answer_done(struct session *session, uint64_t request, int fd)
{
	struct wire_message message;

	wire_init(&message, WIRE_DONE, request);
	session_send(session, &message, fd);
}

/* ---- create ---- */

/* A create on its way through the device thread. A broker's own has no session but a done function. */
struct creation {
	struct broker *broker;
	struct buffer *buffer;
	uint64_t       session, request;
	int            timeout_ms;
	struct create_wait *wait; /* its place in line for memory; NULL: it stands in none */
	void (*done)(void *context, int error, const char *text);
	void          *context;
};

static void creation_answer(struct creation *creation, int error, const char *text)
{
	struct session *session = session_find(creation->broker, creation->session);

	if (creation->done)
		creation->done(creation->context, error, text);
	else if (session && error)
		session_refuse(session, creation->request, error, text);
	else if (session)
		answer_done(session, creation->request, -1);
	free(creation);
}

static void creation_fail(struct creation *creation, int error, const char *text)
{
	registry_abandon(&creation->broker->registry, creation->buffer);
	broker_changed(creation->broker);
	creation_answer(creation, error, text);
}

static void creation_expire(void *context)
{
	creation_fail(context, -ENOMEM, "the device has no memory for this buffer, and none came back in time: "
					"unlink buffers, return leases, or ask for less");
}

static void buffer_unlink(struct broker *broker, struct buffer *buffer)
{
	broker->counters.buffers_unlinked++;
	registry_unlink(&broker->registry, buffer);
	broker_changed(broker);
}

/* Its creator may be gone, or the broker be stopping, since the job was sent to the device. */
static bool creation_orphaned(const struct creation *creation)
{
	if (creation->broker->stopping)
		return true;
	return creation->buffer->flags & GPUB_EPHEMERAL && creation->session &&
	       !session_find(creation->broker, creation->session);
}

static void creation_succeed(struct creation *creation, const struct job *job)
{
	struct broker *broker = creation->broker;
	struct buffer *buffer = creation->buffer;
	bool orphaned = creation_orphaned(creation);

	registry_ready(&broker->registry, buffer, job->ptr, &job->handle);
	broker->counters.buffers_created++;
	broker->counters.allocations_made++;
	broker->counters.bytes_made += job->span;
	creation_answer(creation, 0, NULL);
	if (orphaned)
		buffer_unlink(broker, buffer);
	else
		waiting_wake_name(broker, buffer->name);
	broker_changed(broker);
}

static void creation_submit(struct creation *creation);

static void creation_retry(void *context)
{
	creation_submit(context);
}

/* True: it stands in line, and the line decides how it goes on. */
static bool creation_waits(struct creation *creation)
{
	static const struct create_hooks hooks = { creation_retry, creation_expire };

	if (creation->wait) {
		waiting_create_failed(creation->wait);
		return true;
	}
	return creation->timeout_ms && !creation->broker->stopping &&
	       !waiting_create(creation->broker, creation->buffer->allocation->device, creation->session,
			       creation->timeout_ms, &hooks, creation, &creation->wait);
}

static void creation_leave_line(struct creation *creation)
{
	if (creation->wait)
		waiting_create_over(creation->wait);
	creation->wait = NULL;
}

static void creation_done(struct job *job)
{
	struct creation *creation = job->context;

	if (job->error == -ENOMEM && creation_waits(creation))
		goto free_job;
	creation_leave_line(creation);
	if (job->error)
		creation_fail(creation, job->error, job->text);
	else
		creation_succeed(creation, job);
free_job:
	explicit_bzero(&job->handle, sizeof job->handle);
	free(job);
}

static void creation_submit(struct creation *creation)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		creation_leave_line(creation);
		creation_fail(creation, -ENOMEM, "the broker is out of memory");
		return;
	}
	job->kind = JOB_ALLOCATE;
	job->device = creation->buffer->allocation->device;
	job->span = creation->buffer->allocation->span;
	job->done = creation_done;
	job->context = creation;
	workers_submit(&creation->broker->workers, job);
}

/* Validates what can be known without the device; fills spec->span. */
static int spec_check(struct broker *broker, struct buffer_spec *spec, int timeout_ms)
{
	const struct board_header *board = broker->board.header;
	char text[SIZE_TEXT_MAX];

	if (broker->stopping)
		return error_set(-ECONNREFUSED, "the broker is stopping: no buffers are made any more");
	if (spec->flags & ~KNOWN_FLAGS || spec->mode & ~0777u)
		return error_set(-EINVAL, "unknown flags or mode bits: use GPUB_EPHEMERAL, GPUB_TIMELINE, and a "
					  "mode up to 0777");
	if (spec->device >= board->devices)
		return error_set(-ENODEV, "there is no device %u: the broker has %u", spec->device, board->devices);
	if (!spec->size)
		return error_set(-EINVAL, "a buffer has at least 1 byte");
	spec->span = size_round_up(spec->size, board->device[spec->device].granule);
	if (!timeout_ms && waiting_for_memory(broker, spec->device))
		return error_set(-ENOMEM, "others stand in line for memory of device %u: wait with a timeout",
				 spec->device);
	if (!spec->span || spec->span > board->device[spec->device].memory)
		return error_set(-ENOMEM, "the buffer is larger than the whole device, which has %s: ask for less",
				 size_format(board->device[spec->device].memory, text));
	return name_check(spec->name);
}

/* The caller has set all of *template but buffer and broker. Takes it over unless it refuses. */
static int creation_begin(struct broker *broker, struct buffer_spec *spec, const struct creation *template)
{
	struct creation *creation;
	struct buffer *buffer;
	int error = spec_check(broker, spec, template->timeout_ms);

	if (error)
		return error;
	creation = malloc(sizeof *creation);
	if (!creation)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = registry_reserve(&broker->registry, spec, &buffer);
	if (error)
		goto free_creation;
	if (spec->flags & GPUB_TIMELINE)
		error = timeline_create(&buffer->timeline);
	if (error)
		goto abandon;
	*creation = *template;
	creation->broker = broker;
	creation->buffer = buffer;
	if (!waiting_for_memory(broker, spec->device) || !creation_waits(creation))
		creation_submit(creation);
	return 0;
abandon:
	registry_abandon(&broker->registry, buffer);
free_creation:
	free(creation);
	return error;
}

static int handle_create(struct session *session, const struct wire_message *message)
{
	const struct wire_create *create = &message->create;
	struct creation creation = { .session = session->id,
				     .request = message->request,
				     .timeout_ms = create->timeout_ms };
	struct buffer_spec spec = { .name = create->name,
				    .size = create->size,
				    .device = create->device,
				    .owner = session->uid,
				    .group = session->gid,
				    .mode = create->mode,
				    .flags = create->flags,
				    .creator = session->id };

	return creation_begin(session->broker, &spec, &creation);
}

int broker_create(struct broker *broker, const char *name, uint64_t size, unsigned device, unsigned flags,
		  unsigned mode, void (*done)(void *context, int error, const char *text), void *context)
{
	struct creation creation = { .done = done, .context = context };
	struct buffer_spec spec = { .name = name,
				    .size = size,
				    .device = device,
				    .owner = geteuid(),
				    .group = getegid(),
				    .mode = mode,
				    .flags = flags };

	return creation_begin(broker, &spec, &creation);
}

/* ---- unlink, stat ---- */

static struct buffer *find_live(struct session *session, const char *name)
{
	struct buffer *buffer = registry_find(&session->broker->registry, name);

	if (buffer && buffer->state == BUFFER_LIVE)
		return buffer;
	error_set(-ENOENT, "there is no buffer '%s': create it, or wait for it with a timeout", name);
	return NULL;
}

static int handle_unlink(struct session *session, const struct wire_message *message)
{
	struct buffer *buffer;
	int error = name_check(message->name.name);

	if (error)
		return error;
	buffer = find_live(session, message->name.name);
	if (!buffer)
		return -ENOENT;
	if (session->uid && session->uid != buffer->owner)
		return error_set(-EACCES, "only its owner (uid %u) or root may unlink '%s'", buffer->owner,
				 buffer->name);
	buffer_unlink(session->broker, buffer);
	answer_done(session, message->request, -1);
	return 0;
}

static int handle_stat(struct session *session, const struct wire_message *message)
{
	const struct buffer *buffer;
	struct wire_message answer;
	int error = name_check(message->name.name);

	if (error)
		return error;
	buffer = find_live(session, message->name.name);
	if (!buffer)
		return -ENOENT;
	wire_init(&answer, WIRE_INFO, message->request);
	answer.info = (struct wire_info){ .size = buffer->size,
					  .generation = buffer->serial,
					  .device = buffer->allocation->device,
					  .mode = buffer->mode,
					  .owner = buffer->owner,
					  .state = GPUB_LIVE,
					  .grants = buffer->allocation->open,
					  .flags = buffer->flags };
	session_send(session, &answer, -1);
	return 0;
}

/* ---- acquire, closed ---- */

/* The ticket must stand in the board before the message that names it is sent. */
static void grant_publish(struct session *session, const struct grant *grant, const struct buffer *buffer)
{
	struct board *board = &session->broker->board.board;
	const struct board_device *device = &board->header->device[buffer->allocation->device];
	struct ticket_terms terms = { .session = session->id,
				      .grant = grant->id,
				      .serial = buffer->serial,
				      .size = buffer->size,
				      .offset = buffer->offset,
				      .rights = grant->rights,
				      .version = WIRE_VERSION };

	memcpy(terms.instance, board->header->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, device->uuid, sizeof terms.device_uuid);
	ticket_seal(&board->tickets[grant->ticket], &terms, &buffer->allocation->handle, session->key);
	atomic_thread_fence(memory_order_release);
}

static void grant_send(struct session *session, uint64_t request, const struct grant *grant,
		       const struct buffer *buffer)
{
	struct wire_message message;

	wire_init(&message, WIRE_GRANT, request);
	message.grant = (struct wire_grant){ .grant = grant->id,
					     .serial = buffer->serial,
					     .size = buffer->size,
					     .offset = buffer->offset,
					     .span = buffer->allocation->span,
					     .buffer = buffer->place,
					     .ticket = grant->ticket,
					     .rights = grant->rights,
					     .flags = buffer->flags,
					     .owner_device = buffer->allocation->device };
	session_send(session, &message, buffer->timeline ? buffer->timeline->readable : -1);
}

static int grant_make(struct session *session, const struct wire_acquire *acquire, struct buffer *buffer,
		      struct grant **grant)
{
	struct broker *broker = session->broker;
	unsigned rights = buffer_rights(buffer, session->uid, session->gid);

	if (acquire->rights & ~rights)
		return error_set(-EACCES, "the mode %04o of '%s' (owner uid %u) refuses these rights to uid %u",
				 buffer->mode, buffer->name, buffer->owner, session->uid);
	return registry_grant(&broker->registry, buffer, session, session->uid, &session->grants, acquire->device,
			      rights, grant);
}

void request_grant(struct session *session, uint64_t request, const struct wire_acquire *acquire)
{
	struct broker *broker = session->broker;
	struct buffer *buffer = find_live(session, acquire->name);
	struct grant *grant;
	int error = buffer ? grant_make(session, acquire, buffer, &grant) : -ENOENT;

	if (error) {
		session_refuse(session, request, error, error_text());
		return;
	}
	broker->counters.grants_opened++;
	grant_publish(session, grant, buffer);
	grant_send(session, request, grant, buffer);
	broker_changed(broker);
}

static int handle_acquire(struct session *session, const struct wire_message *message)
{
	const struct wire_acquire *acquire = &message->acquire;
	const struct buffer *buffer;
	int error = name_check(acquire->name);

	if (error)
		return error;
	if (!acquire->rights || acquire->rights & ~KNOWN_RIGHTS)
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	if (acquire->device >= session->broker->board.header->devices)
		return error_set(-ENODEV, "there is no device %u", acquire->device);
	buffer = registry_find(&session->broker->registry, acquire->name);
	if (acquire->timeout_ms && (!buffer || buffer->state != BUFFER_LIVE) && !session->broker->stopping)
		return waiting_acquire(session->broker, session->id, message->request, acquire);
	request_grant(session, message->request, acquire);
	return 0;
}

/* Counted and otherwise ignored if it is not this session's: another's grant cannot be ended (invariant 3). */
static int handle_closed(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	struct grant *grant = registry_find_grant(session->grants, message->grant_id.grant);

	if (grant) {
		broker->counters.grants_closed++;
		registry_grant_over(&broker->registry, &session->grants, grant);
	} else {
		broker->counters.closed_foreign++;
	}
	broker_changed(broker);
	return 0;
}

/* ---- timelines, leaving ---- */

static int handle_writer(struct session *session, const struct wire_message *message)
{
	const struct grant *grant = registry_find_grant(session->grants, message->grant_id.grant);
	const struct buffer *buffer = grant ? allocation_find(grant->allocation, message->grant_id.serial) : NULL;
	int error;

	if (!buffer || !buffer->timeline)
		return error_set(-EINVAL, "the buffer has no timeline: create it with GPUB_TIMELINE");
	if (!(grant->rights & GPUB_WRITE))
		return error_set(-EACCES, "writing a timeline needs GPUB_WRITE on its buffer");
	error = timeline_claim(buffer->timeline, session->id);
	if (!error)
		answer_done(session, message->request, buffer->timeline->writable);
	return error;
}

/*
 * Its own, and, when it died, those of buffers that it made and nobody has signalled on: whoever waits there
 * waits for the creator, as a rule, and must not hang. A creator that leaves may have made it for others.
 */
static bool timeline_ends(const struct buffer *buffer, const struct session *session, bool died)
{
	const struct timeline *timeline = buffer->timeline;

	if (!timeline || timeline->ended)
		return false;
	return timeline->writer == session->id || (died && !timeline->writer && buffer->creator == session->id);
}

static void end_timelines(struct session *session, bool died)
{
	struct broker *broker = session->broker;
	struct allocation *allocation;
	struct buffer *buffer;

	for (allocation = broker->registry.allocations; allocation; allocation = allocation->next)
		for (buffer = allocation->buffers; buffer; buffer = buffer->next) {
			if (!timeline_ends(buffer, session, died))
				continue;
			timeline_end(buffer->timeline, died);
			broker->counters.timelines_died += died;
		}
}

/* What it mapped is closed, and so all its device work is done: its timelines have their last value. */
static int handle_leave(struct session *session, const struct wire_message *message)
{
	struct wire_message answer;

	if (!session->grants)
		end_timelines(session, false);
	waiting_forget(session->broker, session->id);
	session->state = SESSION_LEAVING;
	wire_init(&answer, WIRE_LEFT, message->request);
	session_send(session, &answer, -1);
	return 0;
}

static void unlink_ephemeral(struct session *session)
{
	struct broker *broker = session->broker;
	struct buffer *buffer, *next;

	HASH_ITER(hh, broker->registry.names, buffer, next)
		if (buffer->state == BUFFER_LIVE && buffer->flags & GPUB_EPHEMERAL &&
		    buffer->creator == session->id)
			buffer_unlink(broker, buffer);
}

void request_session_end(struct session *session, bool died)
{
	waiting_forget(session->broker, session->id);
	end_timelines(session, died);
	unlink_ephemeral(session);
}

/* ---- the registry's hooks ---- */

void request_notice(void *context, struct grant *grant)
{
	struct broker *broker = context;
	struct wire_message message;

	wire_init(&message, WIRE_NOTICE, 0);
	message.grant_id.grant = grant->id;
	broker->counters.notices_sent++;
	session_send(grant->session, &message, -1);
}

static void release_done(struct job *job)
{
	struct broker *broker = job->context;
	struct allocation *allocation = job->subject;

	/* a device that fails to free keeps its memory for the broker's life; the books go on without it */
	if (job->error)
		log_line("device %u could not free %llu bytes: %s", job->device, (unsigned long long)job->span,
			 job->text);
	broker->counters.allocations_freed++;
	broker->counters.bytes_freed += job->span;
	registry_released(&broker->registry, allocation);
	waiting_wake_memory(broker, job->device);
	broker_changed(broker);
	free(job);
}

void request_release(void *context, struct allocation *allocation)
{
	struct broker *broker = context;
	struct job *job = calloc(1, sizeof *job);

	/* without memory for the job the allocation stays in the books, visibly: nothing is lost silently */
	if (!job) {
		log_line("out of memory: %llu bytes of device %u stay allocated",
			 (unsigned long long)allocation->span, allocation->device);
		return;
	}
	job->kind = JOB_RELEASE;
	job->device = allocation->device;
	job->span = allocation->span;
	job->ptr = allocation->ptr;
	job->done = release_done;
	job->context = broker;
	job->subject = allocation;
	workers_submit(&broker->workers, job);
}

/* ---- which message does what ---- */

typedef int handler(struct session *session, const struct wire_message *message);

int request_handle(struct session *session, const struct wire_message *message)
{
	static handler *const handlers[WIRE_TYPES] = {
		[WIRE_CREATE] = handle_create,   [WIRE_UNLINK] = handle_unlink, [WIRE_STAT] = handle_stat,
		[WIRE_ACQUIRE] = handle_acquire, [WIRE_CLOSED] = handle_closed, [WIRE_WRITER] = handle_writer,
		[WIRE_LEAVE] = handle_leave,
	};
	handler *handle = handlers[message->type];
	int error;

	if (!handle || (session->state == SESSION_LEAVING && message->type != WIRE_CLOSED))
		return error_set(-EPROTO, "it sent %s out of place", wire_type_name(message->type));
	error = handle(session, message);
	if (error)
		session_refuse(session, message->request, error, error_text());
	return 0;
}
