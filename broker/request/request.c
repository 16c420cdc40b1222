/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - see request.h */
#include "request.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/grants.h"
#include "broker/registry/marks.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/fair-queue.h"
#include "broker/session/session.h"
#include "broker/users/access.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "create-queue.h"
#include "creation.h"
#include "delegation.h"
#include "inquiry.h"
#include "manage.h"
#include "refusal.h"
#include "resize.h"
#include "waiting.h"

#define KNOWN_RIGHTS (GPUB_READ | GPUB_WRITE)

/* ---- create, unlink, stat ---- */

static int handle_create(struct session *session, const struct wire_message *message)
{
	const struct wire_create *create = &message->create;
	struct creation_order order = { .session = session->id,
					.request = message->request,
					.timeout_ms = create->timeout_ms };
	struct buffer_spec spec = { .name = create->name,
				    .size = create->size,
				    .device = create->device,
				    .owner = session->who.uid,
				    .group = session->who.gid,
				    .mode = create->mode,
				    .flags = create->flags,
				    .reserve = create->reserve,
				    .layout = create->layout };

	if (!access_may_create(session->broker->creators, &session->who))
		return error_set(-EACCES, "uid %u may not create buffers here: the broker's configuration names who may",
				 session->who.uid);
	return creation_begin(session->broker, &spec, &order);
}

static void tell_of_unlink(struct session *session, enum event_kind kind, const struct buffer *buffer)
{
	event_happened(session->broker,
		       &(struct broker_event){ .kind = kind, .actor = SESSION_PARTY(session), .name = buffer->name });
}

static int handle_unlink(struct session *session, const struct wire_message *message)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, message->name.name, &buffer);

	if (!error)
		error = manage_check(session, buffer, "unlink");
	if (error)
		return error;
	tell_of_unlink(session, EVENT_UNLINK, buffer);
	manage_unlink(session->broker, buffer);
	CRASH_POINT(unlinked);
	session_done(session, message->request, -1);
	return 0;
}

static void info_send(struct session *session, uint64_t request, const struct buffer *buffer)
{
	struct wire_message answer;

	wire_init(&answer, WIRE_INFO, request);
	answer.info = (struct wire_info){ .size = buffer->size,
					  .generation = buffer->serial,
					  .device = buffer->allocation->device,
					  .mode = buffer->mode,
					  .owner = buffer->owner,
					  .group = buffer->group,
					  .state = GPUB_LIVE,
					  .grants = buffer->used - buffer->orphaned,
					  .orphaned = buffer->orphaned,
					  .flags = buffer->flags,
					  .layout = buffer_layout(buffer),
					  .reserve = buffer->reserve };
	session_send(session, &answer, -1);
}

static int handle_stat(struct session *session, const struct wire_message *message)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, message->name.name, &buffer);

	if (!error)
		info_send(session, message->request, buffer);
	return error;
}

/* A generation that no buffer has had yet is not refused: that would tell how many buffers there have been, also to who may see none. */
static int handle_newer(struct session *session, const struct wire_message *message)
{
	const struct wire_newer *newer = &message->newer;
	struct buffer *buffer;
	int error = name_check(newer->name);

	if (error)
		return error;
	error = registry_find_live(session->broker->registry, newer->name, &buffer);
	if (!error && buffer->serial > newer->generation) {
		info_send(session, message->request, buffer);
		return 0;
	}
	if (!newer->timeout_ms || session->broker->stopping)
		return error ? error :
			       error_set(-ETIMEDOUT, "'%s' has generation %llu and no newer one", buffer->name,
					 (unsigned long long)buffer->serial);
	return waiting_newer(session->broker, session->id, message->request, newer);
}

void request_tell_newer(struct session *session, uint64_t request, const struct wire_newer *newer)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, newer->name, &buffer);

	if (error)
		session_refuse(session, request, error, error_text());
	else
		info_send(session, request, buffer);
}

/* ---- acquire, closed ---- */

/* What every handle of the grant is sealed with. */
static struct seal_terms terms_of(const struct session *session, const struct grant *grant)
{
	const struct allocation *allocation = grant->allocation;
	const struct board_header *board = session->broker->board->header;
	struct seal_terms terms = { .session = session->id,
				    .grant = grant->id,
				    .address = allocation->address,
				    .version = WIRE_VERSION,
				    .exported = allocation->slab.kind.exported };

	memcpy(terms.instance, board->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, board->device[allocation->device].uuid, sizeof terms.device_uuid);
	return terms;
}

/* The sealed handle must be in the board before the message that names it is sent. */
static void sealed_publish(struct session *session, const struct use *use)
{
	const struct buffer *buffer = use->buffer;
	struct board *board = &session->broker->board->board;
	struct seal_terms terms = terms_of(session, use->grant);

	terms.serial = buffer->serial;
	terms.size = buffer->size;
	terms.offset = buffer->offset;
	terms.rights = use->rights;
	handle_seal(&board->handles[use->grant->place], &terms, &buffer->allocation->handle, session->key);
	atomic_thread_fence(memory_order_release);
}

/* A copy of the descriptor, which the client closes when it has mapped the memory. */
static void chunk_send(struct session *session, const struct grant *grant, const struct allocation *chunk, uint64_t offset)
{
	struct seal_terms terms = terms_of(session, grant);
	struct sealed_handle sealed = { { 0 }, { 0 }, { 0 } };
	struct wire_message message;

	terms.size = chunk->span;
	terms.offset = offset;
	if (offset)
		handle_seal(&sealed, &terms, &chunk->handle, session->key);
	wire_init(&message, WIRE_MEMORY, 0);
	message.memory.grant = grant->id;
	message.memory.offset = offset;
	message.memory.span = chunk->span;
	memcpy(message.memory.sealed, &sealed, sizeof message.memory.sealed);
	session_send(session, &message, chunk->descriptor);
}

/* What the session does not have of the allocation, behind the bytes that it has. */
static void memory_send(struct session *session, const struct grant *grant, uint64_t bytes)
{
	const struct allocation *allocation = grant->allocation, *chunk;
	uint64_t offset = allocation->span;

	if (!bytes && allocation->descriptor >= 0)
		chunk_send(session, grant, allocation, 0);
	DL_FOREACH2(allocation->chunks, chunk, chunk_next) {
		if (offset >= bytes) {
			chunk_send(session, grant, chunk, offset);
			fair_count(&session->place, COST_MESSAGE);
		}
		offset += chunk->span;
	}
}

static void use_send(struct session *session, uint64_t request, const struct use *use, bool fresh)
{
	const struct buffer *buffer = use->buffer;
	struct wire_message message;

	wire_init(&message, WIRE_GRANT, request);
	message.grant = (struct wire_grant){ .grant = use->grant->id,
					     .serial = buffer->serial,
					     .size = buffer->size,
					     .offset = buffer->offset,
					     .span = buffer->allocation->size,
					     .buffer = buffer->place,
					     .place = fresh ? use->grant->place : WIRE_NO_HANDLE,
					     .rights = use->rights,
					     .flags = buffer->flags,
					     .owner_device = buffer->allocation->device,
					     .owner = buffer->owner,
					     .room = buffer->reserve ? buffer->size : buffer->allocation->slab.kind.range,
					     .layout = buffer_layout(buffer),
					     .exported = buffer->allocation->slab.kind.exported,
					     .address = buffer->allocation->address,
					     .reserve = buffer->allocation->reserved };
	session_send(session, &message, buffer->timeline ? buffer->timeline->readable : -1);
}

/* ticket: what it is redeemed for, with a grant of its own, which nothing else of the session can end; NULL: none. */
static int grant_give(struct session *session, uint64_t request, struct buffer *buffer, unsigned device,
		      unsigned rights, const struct ticket *ticket, uint64_t waited_since)
{
	struct broker *broker = session->broker;
	struct grant_order order = { .session = session,
				     .uid = session->who.uid,
				     .grants = &session->grants,
				     .device = device,
				     .rights = rights,
				     .own = ticket != NULL };
	struct use *use;
	uint64_t bytes;
	bool fresh;
	int error = session_check_descriptors(session, grant_missing(buffer, &order) + (buffer->timeline != NULL));

	if (!error)
		error = grant_open(broker->registry, buffer, &order, &use, &fresh);
	if (error)
		return error;
	broker->counters.uses_opened++;
	broker->counters.grants_opened += fresh;
	if (ticket)
		delegation_spend(session, ticket, buffer);
	CRASH_POINT(grant_accounted);
	if (buffer->timeline)
		inquiry_join(session);
	if (fresh)
		sealed_publish(session, use);
	CRASH_POINT(handle_sealed);
	histograms_count(&broker->histograms, waited_since ? HISTOGRAM_ACQUIRE_WAIT : HISTOGRAM_ACQUIRE,
			 waited_since ? waited_since : broker->received);
	broker_changed(broker);
	bytes = grant_extend(broker->registry, use->grant);
	memory_send(session, use->grant, fresh ? 0 : bytes);
	CRASH_POINT(memory_sent);
	use_send(session, request, use, fresh);
	CRASH_POINT(grant_sent);
	return 0;
}

/* Who demands an owner does not wait where another user made the name: the refusal says which. */
static int check_owner(const struct session *session, const struct wire_acquire *acquire, const struct buffer *buffer)
{
	if (acquire->expects && acquire->owner != buffer->owner)
		return error_set(-EPERM, "'%s' belongs to uid %u, and uid %u is expected: it is not the buffer that is meant",
				 buffer->name, buffer->owner, acquire->owner);
	if (acquire->rights & GPUB_MINE && buffer->owner != session->who.uid && buffer->owner && buffer->owner != geteuid())
		return error_set(-EPERM, "'%s' belongs to uid %u, neither uid %u nor root nor the broker's user: GPUB_MINE refuses it",
				 buffer->name, buffer->owner, session->who.uid);
	return 0;
}

static int check_rights(const struct session *session, unsigned rights, const struct buffer *buffer)
{
	if (!(rights & ~buffer_rights(buffer, &session->who)))
		return 0;
	if (rights & GPUB_WRITE && buffer->flags & GPUB_SEALED)
		return error_set(-EROFS, "'%s' is sealed: nobody may write it any more. Create another buffer", buffer->name);
	return error_set(-EACCES, "the mode %04o of '%s' (owner uid %u) refuses these rights to uid %u", buffer->mode,
			 buffer->name, buffer->owner, session->who.uid);
}

void request_grant(struct session *session, uint64_t request, const struct wire_acquire *acquire, uint64_t waited_since)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, acquire->name, &buffer);

	if (error == -ENOENT)
		error_set(error, "there is no buffer '%s': create it, or wait for it with a timeout", acquire->name);
	if (!error)
		error = check_owner(session, acquire, buffer);
	if (!error)
		error = check_rights(session, acquire->rights & KNOWN_RIGHTS, buffer);
	if (!error)
		error = grant_give(session, request, buffer, acquire->device, acquire->rights & KNOWN_RIGHTS, NULL, waited_since);
	if (error) {
		refusal_of_acquire(session, acquire, error, error_text());
		session_refuse(session, request, error, error_text());
	}
}

static int handle_redeem(struct session *session, const struct wire_message *message)
{
	const struct wire_redeem *redeem = &message->redeem;
	unsigned rights = redeem->ticket.rights;
	struct buffer *buffer;
	int error = creation_check_device(session->broker, redeem->device);

	if (!error)
		error = delegation_check(session, &redeem->ticket, &buffer);
	if (error)
		return error;
	if (buffer->flags & GPUB_SEALED)
		rights &= ~GPUB_WRITE;
	if (!rights)
		return error_set(-EROFS, "the ticket is for writing, and '%s' is sealed: ask for one to read", buffer->name);
	/* a ticket that is good once must not be lost with a CLOSED that crosses the answer */
	return grant_give(session, message->request, buffer, redeem->device, rights, &redeem->ticket, 0);
}

/* A process that maps a buffer to read it wants to write it, too, or the reverse. */
static int handle_rights(struct session *session, const struct wire_message *message)
{
	const struct wire_rights *rights = &message->rights;
	const struct grant *grant = grant_find(&session->grants, rights->grant);
	struct use *use = grant ? grant_find_use(grant, rights->serial) : NULL;
	int error;

	if (!rights->rights || rights->rights & ~KNOWN_RIGHTS)
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	if (!use || use->buffer->state != BUFFER_LIVE || use->key.serial != use->buffer->serial)
		return error_set(-ESTALE, "the buffer was unlinked, renamed or resized: acquire its name again");
	error = check_rights(session, rights->rights, use->buffer);
	if (error)
		return error;
	use_add_rights(use, rights->rights);
	CRASH_POINT(rights_added);
	session_done(session, message->request, -1);
	return 0;
}

static int handle_acquire(struct session *session, const struct wire_message *message)
{
	const struct wire_acquire *acquire = &message->acquire;
	const struct buffer *buffer;
	int error = name_check(acquire->name);

	if (error)
		return error;
	if (!(acquire->rights & KNOWN_RIGHTS) || acquire->rights & ~(KNOWN_RIGHTS | GPUB_MINE))
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	error = creation_check_device(session->broker, acquire->device);
	if (error)
		return error;
	buffer = registry_find(session->broker->registry, acquire->name);
	if (acquire->timeout_ms && (!buffer || buffer->state != BUFFER_LIVE) && !session->broker->stopping)
		return waiting_acquire(session->broker, session->id, message->request, acquire);
	request_grant(session, message->request, acquire, 0);
	return 0;
}

/* Counted and otherwise ignored if it is not this session's: another's grant cannot be ended (invariant 3). */
static int handle_closed(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	struct grant *grant = grant_find(&session->grants, message->grant_id.grant);

	CRASH_POINT(closed_received);
	if (!grant)
		broker->counters.closed_foreign++;
	else if (grant_closed(broker->registry, grant))
		broker->counters.grants_closed++;
	else
		broker->counters.grants_held++;
	CRASH_POINT(closed_accounted);
	broker_changed(broker);
	return 0;
}

/* It does not end the mapping, so it frees nothing: it decides what may serve the owner's next buffer. */
static int handle_idle(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	const struct wire_grant_id *id = &message->grant_id;
	const struct grant *grant = grant_find(&session->grants, id->grant);
	struct use *use = grant ? grant_find_use(grant, id->serial) : NULL;

	CRASH_POINT(quiesced_received);
	if (use && use_quiesced(broker->registry, use))
		broker->counters.uses_idle++;
	else
		broker->counters.idle_foreign++;
	CRASH_POINT(idle_accounted);
	broker_changed(broker);
	return 0;
}

/* ---- timelines, leaving ---- */

static void writer_show(const struct session *session, struct timeline *timeline)
{
	timeline->shown.pid = (uint32_t)session->pid;
	timeline->shown.rank = session->rank;
	timeline->shown.uid = session->who.uid;
	tracked_changed(session->broker->tracking, &timeline->shown.tracked);
}

static int handle_writer(struct session *session, const struct wire_message *message)
{
	const struct grant *grant = grant_find(&session->grants, message->grant_id.grant);
	const struct use *use = grant ? grant_find_use(grant, message->grant_id.serial) : NULL;
	const struct buffer *buffer = use ? use->buffer : NULL;
	int page, error;

	if (!buffer)
		return error_set(-EINVAL, "this session does not use the buffer of that timeline: acquire it");
	if (!buffer->timeline)
		return error_set(-EINVAL, "'%s' has no timeline: create it with GPUB_TIMELINE", buffer->name);
	if (!(use->rights & GPUB_WRITE))
		return error_set(-EACCES, "to signal the timeline of '%s', acquire it with GPUB_WRITE", buffer->name);
	error = session_check_descriptors(session, 1);
	if (error)
		return error;
	page = timeline_open(buffer->timeline);
	if (page < 0)
		return page;
	error = timeline_claim(buffer->timeline, session->id, &session->timelines, buffer->name);
	CRASH_POINT(writer_claimed);
	if (!error)
		writer_show(session, buffer->timeline);
	if (!error)
		session_done(session, message->request, page);
	CRASH_POINT(writer_sent);
	close(page);
	return error;
}

static void end_timeline(struct broker *broker, struct timeline *timeline, bool died)
{
	if (timeline->mark)
		return;
	CRASH_POINT(timeline_ends);
	timeline_end(timeline, died);
	timeline->shown.ended_ms = (uint64_t)time(NULL) * 1000;
	tracked_changed(broker->tracking, &timeline->shown.tracked);
	marks_add(broker->marks, timeline);
	CRASH_POINT(timeline_ended);
	broker->counters.timelines_died += died;
}

/* What the pieces of a session's end take, in messages: measured, as processor time of the broker. */
#define COST_TIMELINE_END 2
#define COST_UNLINK       2 /* of a buffer that ends with its creator */

unsigned request_expire(struct session *session)
{
	return waiting_expire(session->broker, session->id) ? COST_MESSAGE : 0;
}

unsigned request_silence(struct session *session)
{
	if (waiting_forget(session->broker, session->id))
		return COST_MESSAGE;
	inquiry_forget(session);
	create_wake_forgotten(session->broker);
	return 0;
}

/*
 * Ends one of the session's timelines. Those are the ones that it writes, and, if it died, those of buffers that it made and nobody has
 * signalled on: whoever waits there waits for the creator, as a rule, and must not hang. A creator that leaves may have made it for others.
 * False: all have ended.
 */
static bool end_a_timeline(struct session *session, bool died)
{
	struct timelines *timelines = &session->timelines;
	struct timeline *timeline = timelines->written;

	if (timeline) {
		end_timeline(session->broker, timeline, died);
		timeline_writer_leave(timeline);
		return true;
	}
	timeline = died ? timelines->made : NULL;
	if (!timeline)
		return false;
	if (!timeline->writer)
		end_timeline(session->broker, timeline, died);
	timeline_creator_leave(timeline);
	return true;
}

/*
 * Unlinks a buffer that ends with the session. One that is not made yet goes when it is: creation.c looks whether its creator has
 * ended. False: none is left.
 */
static bool unlink_an_ephemeral(struct session *session)
{
	struct buffer *buffer = session->ephemerals;

	if (!buffer)
		return false;
	if (buffer->state == BUFFER_LIVE) {
		tell_of_unlink(session, EVENT_UNLINK_ENDED, buffer);
		manage_unlink(session->broker, buffer);
	} else {
		registry_disown(buffer);
	}
	return true;
}

unsigned request_end(struct session *session)
{
	if (end_a_timeline(session, session->died))
		return COST_TIMELINE_END;
	return unlink_an_ephemeral(session) ? COST_UNLINK : 0;
}

/* ---- leave ---- */

static unsigned leave_piece(struct session *session)
{
	unsigned cost = request_silence(session);

	if (!cost && !session_maps(session) && end_a_timeline(session, false))
		cost = COST_TIMELINE_END;
	return cost;
}

static bool leave_step(struct session *session)
{
	struct wire_message answer;

	while (fair_allows(&session->place)) {
		unsigned cost = leave_piece(session);

		fair_count_work(&session->place, cost);
		if (cost)
			continue;
		wire_init(&answer, WIRE_LEFT, session->leave_request);
		session_send(session, &answer, -1);
		CRASH_POINT(leave_sent);
		return true;
	}
	return false;
}

/* The task is a part of its session. */
static void leave_drop(struct session_task *task)
{
	(void)task;
}

/*
 * What it mapped is closed, and it says that its signals have landed: its timelines have their last value. A signal that
 * lands all the same, on a stream that no close waits for, is what marks.c looks for.
 */
static int handle_leave(struct session *session, const struct wire_message *message)
{
	CRASH_POINT(leave_received);
	session_drop_task(session);
	session->state = SESSION_LEAVING;
	tracked_changed(session->broker->tracking, &session->tracked);
	session->leave_request = message->request;
	session->leave = (struct session_task){ .step = leave_step, .drop = leave_drop };
	session->task = &session->leave;
	return 0;
}

static int handle_cancel(struct session *session, const struct wire_message *message)
{
	waiting_cancel(session->broker, session->id, message->request);
	return 0;
}

/* ---- what a user may see ---- */

static int handle_snapshot(struct session *session, const struct wire_message *message)
{
	if (session->task)
		return error_set(-EBUSY, "this session is being sent a snapshot already: wait for its end");
	return session->broker->snapshot(session, message->request);
}

/* ---- the registry's hooks ---- */

void request_notice(void *context, struct grant *grant, uint64_t serial)
{
	struct broker *broker = context;
	struct wire_message message;

	wire_init(&message, WIRE_NOTICE, 0);
	message.grant_id.grant = grant->id;
	message.grant_id.serial = serial;
	broker->counters.notices_sent++;
	broker_changed(broker);
	CRASH_POINT_PEER(grant->session->pid);
	session_send(grant->session, &message, -1);
	CRASH_POINT(notice_sent);
}

/* ---- which message does what ---- */

typedef int handler(struct session *session, const struct wire_message *message);

/* What crosses its LEFT, and what the broker asked for before it read the LEAVE. */
static bool may_follow_leave(unsigned type)
{
	return type == WIRE_CLOSED || type == WIRE_QUIESCED || type == WIRE_WAITS || type == WIRE_CANCEL;
}

int request_handle(struct session *session, const struct wire_message *message)
{
	static handler *const handlers[WIRE_TYPES] = {
		[WIRE_CREATE] = handle_create,   [WIRE_UNLINK] = handle_unlink, [WIRE_STAT] = handle_stat,
		[WIRE_ACQUIRE] = handle_acquire, [WIRE_CLOSED] = handle_closed, [WIRE_WRITER] = handle_writer,
		[WIRE_LEAVE] = handle_leave,     [WIRE_CHANGE] = manage_change, [WIRE_DRAIN] = manage_drain,
		[WIRE_EVICT] = manage_evict,     [WIRE_ISSUE] = manage_issue,   [WIRE_REDEEM] = handle_redeem,
		[WIRE_QUIESCED] = handle_idle,   [WIRE_REFRESH] = inquiry_refresh,
		[WIRE_WAITS] = inquiry_take,     [WIRE_SNAPSHOT] = handle_snapshot,
		[WIRE_RIGHTS] = handle_rights,   [WIRE_SEAL] = manage_seal,     [WIRE_RENAME] = manage_rename,
		[WIRE_NEWER] = handle_newer,     [WIRE_RESIZE] = resize_begin,  [WIRE_CANCEL] = handle_cancel,
	};
	handler *handle = handlers[message->type];
	int error;

	if (!handle || (session->state == SESSION_LEAVING && !may_follow_leave(message->type)) ||
	    (message->type == WIRE_WAITS && !inquiry_expects(session)))
		return error_set(-EPROTO, "it sent %s out of place", wire_type_name(message->type));
	error = handle(session, message);
	if (error) {
		refusal_happened(session, message, error, error_text());
		session_refuse(session, message->request, error, error_text());
	}
	return 0;
}
