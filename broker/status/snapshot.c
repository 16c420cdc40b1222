/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - see snapshot.h */
#include "snapshot.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "broker/base/context.h"
#include "broker/memory/allocation.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/request/inquiry.h"
#include "broker/request/waiting.h"
#include "broker/session/session.h"
#include "broker/session/walk.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/error.h"
#include "status.h"

#define OBJECT(pointer, type) ((const type *)((const char *)(pointer) - offsetof(type, tracked)))

struct snapshot {
	struct walk    walk; /* the first member */
	struct broker *broker;
	uid_t          uid;
	bool           all;    /* it may read the status file */
	uint32_t       slots;  /* when it began; 0: all objects are sent as they come */
	uint8_t        sent[]; /* a bit for each: an object of another user, sent with one that names it */
};

/* ---- what is behind a slot ---- */

static const struct timeline *timeline_at(const struct tracked *tracked)
{
	return (const struct timeline *)((const char *)tracked - offsetof(struct timeline, shown.tracked));
}

/* Who waits; NULL: the broker itself, or it is gone. */
static const struct session *waiter_at(const struct snapshot *snapshot, const struct tracked *tracked)
{
	return session_find(snapshot->broker, tracked->type == TRACKED_WAIT ?
						      OBJECT(tracked, struct reported_wait)->session :
						      wait_session(OBJECT(tracked, struct wait)));
}

/* What a wait is for, where that is a buffer which is there; NULL: it is none. */
static const struct buffer *awaited_at(const struct snapshot *snapshot, const struct tracked *tracked)
{
	const struct wait *wait = OBJECT(tracked, struct wait);
	struct wait_shown shown = { .generation = 0 };

	if (tracked->type == TRACKED_WAIT)
		shown.generation = OBJECT(tracked, struct reported_wait)->serial;
	else
		wait->kind->show(wait, &shown);
	return registry_find_any(snapshot->broker->registry, shown.generation);
}

/* ---- who may see what ---- */

static bool is_of(const struct session *session, uid_t uid)
{
	return session && session->who.uid == uid;
}

static bool owns(uid_t uid, const struct buffer *buffer)
{
	return buffer && buffer->owner == uid;
}

/* Of the user itself. */
static bool may_see(const struct snapshot *snapshot, const struct tracked *tracked)
{
	uid_t uid = snapshot->uid;

	switch ((enum tracked_type)tracked->type) {
	case TRACKED_NONE:
		return false;
	case TRACKED_DEVICE:
	case TRACKED_ADDRESS:
	case TRACKED_JOB:
		return true;
	case TRACKED_HISTOGRAM: /* as the counters, it tells of others */
	case TRACKED_TYPES:
		return false;
	case TRACKED_USER:
		return OBJECT(tracked, struct account)->uid == uid;
	case TRACKED_SESSION:
		return OBJECT(tracked, struct session)->who.uid == uid;
	case TRACKED_BUFFER:
		return OBJECT(tracked, struct buffer)->owner == uid;
	case TRACKED_GRANT: {
		const struct grant *grant = OBJECT(tracked, struct grant);

		return grant->uid == uid || grant->allocation->slab.kind.owner == uid;
	}
	case TRACKED_USE: {
		const struct use *use = OBJECT(tracked, struct use);

		return use->grant->uid == uid || use->buffer->owner == uid;
	}
	case TRACKED_TIMELINE: /* that of a buffer which its session uses: named_by() */
		return owns(uid, registry_find_any(snapshot->broker->registry, timeline_at(tracked)->serial));
	case TRACKED_WAIT:
	case TRACKED_REQUEST:
		return is_of(waiter_at(snapshot, tracked), uid) || owns(uid, awaited_at(snapshot, tracked));
	}
	return false;
}

/* What one object names. NULL: nothing. */
struct named {
	const struct tracked *at[2];
};

static struct named named_session(const struct session *session)
{
	return (struct named){ { session ? &session->tracked : NULL } };
}

/*
 * What a record that the user may see says nothing without: the session that has a grant, waits or writes; the buffer that is
 * used, with its timeline. Of another user's it is sent as well, without what is nobody else's business: hide().
 */
static struct named named_by(const struct snapshot *snapshot, const struct tracked *tracked)
{
	const struct buffer *buffer;

	switch ((enum tracked_type)tracked->type) {
	case TRACKED_GRANT:
		return named_session(OBJECT(tracked, struct grant)->session);
	case TRACKED_USE:
		buffer = OBJECT(tracked, struct use)->buffer;
		return (struct named){ { &buffer->tracked, buffer->timeline ? &buffer->timeline->shown.tracked : NULL } };
	case TRACKED_TIMELINE:
		return named_session(session_find(snapshot->broker, timeline_at(tracked)->writer));
	case TRACKED_WAIT:
	case TRACKED_REQUEST:
		return named_session(waiter_at(snapshot, tracked));
	default:
		return (struct named){ { NULL } };
	}
}

/*
 * A user knows the names of the buffers that its sessions use, but for one that a ticket gave it. Of who uses its own buffers, or
 * writes a timeline that it sees, it is shown the process, and not what that says of itself.
 */
static void hide(const struct session *session, const struct snapshot *snapshot, const struct tracked *tracked,
		 union status_record *record)
{
	if (tracked->type == TRACKED_SESSION && !is_of(OBJECT(tracked, struct session), snapshot->uid)) {
		memset(record->session.command, 0, sizeof record->session.command);
		record->session.rank = 0;
		record->session.since = record->session.answered = 0;
		record->session.answer = STATUS_NOT_ASKED;
	} else if (tracked->type == TRACKED_BUFFER && OBJECT(tracked, struct buffer)->owner != snapshot->uid &&
		   !buffer_rights(OBJECT(tracked, struct buffer), &session->who)) {
		/* it redeemed a ticket, or the owner has changed the mode since */
		memset(record->buffer.name, 0, sizeof record->buffer.name);
		record->buffer.name[0] = '-';
	} else if (tracked->type == TRACKED_TIMELINE && timeline_at(tracked)->shown.uid != snapshot->uid) {
		record->timeline.rank = 0;
	}
	status_seal(&record->seal, status_size(record->type), 0); /* how often the broker wrote tells of others, too */
}

/* As the kernel would decide it for the status file. */
static bool may_see_all(const struct session *session)
{
	const struct identity *who = &session->who;
	struct stat file;

	if (identity_is_admin(who))
		return true;
	return !fstat(session->broker->status->file.fd, &file) &&
	       (file.st_mode & S_IROTH || (file.st_mode & S_IRGRP && identity_in_group(who, file.st_gid)));
}

/* ---- sending ---- */

static void record_send(struct snapshot *snapshot, const struct tracked *tracked)
{
	const struct session *session = snapshot->walk.session;
	union status_record record = { 0 };

	status_fill(session->broker, tracked, &record);
	if (!snapshot->all)
		hide(session, snapshot, tracked, &record);
	walk_send(&snapshot->walk, STATUS_OFFSET(snapshot->walk.count), &record, status_size(record.type));
	snapshot->walk.count++;
}

/*
 * Whether the object is one of another user's that was not sent yet; from then on it was. One that has come since the snapshot began may
 * be left out.
 */
static bool is_first(struct snapshot *snapshot, const struct tracked *named)
{
	uint32_t slot;

	if (!named || !named->number || may_see(snapshot, named))
		return false;
	slot = named->number - 1;
	if (slot >= snapshot->slots || snapshot->sent[slot / 8] & 1u << slot % 8)
		return false;
	snapshot->sent[slot / 8] |= (uint8_t)(1u << slot % 8);
	return true;
}

/* An object and what it names: a use names a timeline, which names a session, which names nothing. Returns how many were sent. */
static unsigned object_send(struct snapshot *snapshot, const struct tracked *tracked)
{
	struct named named = named_by(snapshot, tracked);
	unsigned sent = 1;

	for (size_t i = 0; i < sizeof named.at / sizeof *named.at; i++)
		if (is_first(snapshot, named.at[i]))
			sent += object_send(snapshot, named.at[i]);
	record_send(snapshot, tracked);
	return sent;
}

static unsigned visit(struct walk *walk, const struct tracked *tracked)
{
	struct snapshot *snapshot = (struct snapshot *)walk;

	if (snapshot->all) {
		record_send(snapshot, tracked);
		return 1;
	}
	return may_see(snapshot, tracked) ? object_send(snapshot, tracked) : 0;
}

/*
 * Sends the header, which comes last because without it there is no status. Its counters and the number of requests that
 * wait tell of other users.
 */
static void end(struct walk *walk, struct wire_view *view)
{
	const struct snapshot *snapshot = (const struct snapshot *)walk;
	struct status_header header;

	status_fill_header(snapshot->broker, &header);
	header.updated = (uint64_t)time(NULL);
	header.records = walk->count;
	if (!snapshot->all) {
		header.waiting = 0;
		memset(&header.counters, 0, sizeof header.counters);
	}
	status_seal(&header.seal, STATUS_HEADER_SEALED, snapshot->all ? snapshot->broker->status->sequence : 0);
	walk_send(walk, 0, &header, sizeof header);
	*view = (struct wire_view){ .size = STATUS_OFFSET(walk->count), .all = snapshot->all };
}

int snapshot_begin(struct session *session, uint64_t request)
{
	static const struct walk_kind kind = { visit, end };
	bool all = may_see_all(session);
	uint32_t slots = all ? 0 : session->broker->tracking->slots;
	size_t size = sizeof(struct snapshot) + (slots + 7) / 8;
	int error;
	struct snapshot *snapshot = (struct snapshot *)walk_begin(session, request, size, &kind, &error);

	if (!snapshot)
		return error;
	snapshot->broker = session->broker;
	snapshot->uid = session->who.uid;
	snapshot->all = all;
	snapshot->slots = slots;
	return 0;
}
