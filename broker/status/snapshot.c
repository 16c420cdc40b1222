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
	struct walk    walk; /* must be the first member, because visit() casts to the snapshot */
	struct broker *broker;
	uid_t          uid;
	bool           all;    /* the user may read the status file, so every object is sent */
	uint32_t       slots;  /* number of slots when the snapshot began; 0 if all is true */
	/* a bit for each slot; 1: the slot's object is another user's, and was sent because a record refers to it */
	uint8_t        sent[];
};

/* ---- the object of a slot ---- */

static const struct timeline *timeline_at(const struct tracked *tracked)
{
	return (const struct timeline *)((const char *)tracked - offsetof(struct timeline, shown.tracked));
}

/*
 * Returns the session of a reported wait or a waiting request. NULL: the request is the broker's own, or the session
 * has ended.
 */
static const struct session *waiter_at(const struct snapshot *snapshot, const struct tracked *tracked)
{
	return session_find(snapshot->broker, tracked->type == TRACKED_WAIT ?
						      OBJECT(tracked, struct reported_wait)->session :
						      wait_session(OBJECT(tracked, struct wait)));
}

/*
 * Returns the buffer that a reported wait or a waiting request is for. NULL: it is for none, or the
 * buffer has ended, or got another serial since the report.
 */
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

/*
 * Returns true if the object belongs to the snapshot's user or to a buffer of that user, or users may see objects of
 * its type in any case.
 */
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
	case TRACKED_OWNER: /* has no slot, as the next */
	case TRACKED_BROKER:
	case TRACKED_PROGRAM:
	case TRACKED_ALLOCATION: /* in the ledger alone */
	case TRACKED_CLEANING:
	case TRACKED_TICKET:
	case TRACKED_PENDING:
	case TRACKED_OWED:
	case TRACKED_HISTOGRAM: /* histograms, like counters, show the activity of other users */
	case TRACKED_TYPES:
		return false;
	case TRACKED_USER:
		return OBJECT(tracked, struct account)->uid == uid;
	case TRACKED_SESSION:
		return OBJECT(tracked, struct session)->who.uid == uid;
	case TRACKED_BUFFER:
		return OBJECT(tracked, struct buffer)->owner == uid;
	case TRACKED_MAPPING: {
		const struct mapping *mapping = OBJECT(tracked, struct mapping);

		return mapping->uid == uid || mapping->allocation->slab.kind.owner == uid;
	}
	case TRACKED_GRANT: {
		const struct grant *grant = OBJECT(tracked, struct grant);

		return grant->mapping->uid == uid || grant->buffer->owner == uid;
	}
	case TRACKED_TIMELINE: /* timelines of other users' buffers that the user's sessions use: see named_by() */
		return owns(uid, registry_find_any(snapshot->broker->registry, timeline_at(tracked)->serial));
	case TRACKED_WAIT:
	case TRACKED_REQUEST:
		return is_of(waiter_at(snapshot, tracked), uid) || owns(uid, awaited_at(snapshot, tracked));
	}
	return false;
}

/* Up to two other objects that a record refers to; NULL: fewer. */
struct named {
	const struct tracked *at[2];
};

static struct named named_session(const struct session *session)
{
	return (struct named){ { session ? &session->tracked : NULL } };
}

/*
 * Returns the objects without which the record of an object is useless: the session that has a mapping, waits, or
 * writes a timeline; the buffer of a grant, with its timeline. They are sent even if they belong to another user, but
 * hide() removes private fields.
 */
static struct named named_by(const struct snapshot *snapshot, const struct tracked *tracked)
{
	const struct buffer *buffer;

	switch ((enum tracked_type)tracked->type) {
	case TRACKED_MAPPING:
		return named_session(OBJECT(tracked, struct mapping)->session);
	case TRACKED_GRANT:
		buffer = OBJECT(tracked, struct grant)->buffer;
		return (struct named){ { &buffer->tracked,
					 buffer->timeline ? &buffer->timeline->shown.tracked : NULL } };
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
 * Removes the fields of a record that this user may not see: command, rank, answer, whether it waits for more than is
 * shown, and times of connect and answer, of another user's session; the name of a buffer that the user may not acquire
 * by name; the rank of a timeline's writer if the writer is another user's; how many buffers lost their names.
 */
static void hide(const struct session *session, const struct snapshot *snapshot, const struct tracked *tracked,
		 union status_record *record)
{
	if (tracked->type == TRACKED_SESSION && !is_of(OBJECT(tracked, struct session), snapshot->uid)) {
		memset(record->session.command, 0, sizeof record->session.command);
		record->session.rank = 0;
		record->session.since = record->session.answered = 0;
		record->session.answer = STATUS_NOT_ASKED;
		record->session.partial = 0;
	} else if (tracked->type == TRACKED_BUFFER && OBJECT(tracked, struct buffer)->owner != snapshot->uid &&
		   !buffer_rights(OBJECT(tracked, struct buffer), &session->who)) {
		/* a session of the user redeemed a ticket, or the mode was changed after its acquire */
		memset(record->buffer.name, 0, sizeof record->buffer.name);
		record->buffer.name[0] = '-';
	} else if (tracked->type == TRACKED_TIMELINE && timeline_at(tracked)->shown.uid != snapshot->uid) {
		record->timeline.rank = 0;
	} else if (tracked->type == TRACKED_ADDRESS) {
		record->first.owner.lost = record->first.owner.lost_all = STATUS_HIDDEN;
		status_seal(&record->first.owner.seal, sizeof record->first.owner, 0);
	}
	/* sequence 0, because the real one shows other users' activity */
	status_seal(&record->seal, status_size(record->type), 0);
}

/*
 * Returns true if the session's user is root or the broker's own user, or the kernel would let the user read the status
 * file.
 */
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
	size_t size = status_fill(session->broker, tracked, &record);

	if (!snapshot->all)
		hide(session, snapshot, tracked, &record);
	walk_send(&snapshot->walk, STATUS_OFFSET(snapshot->walk.count), &record, size);
	snapshot->walk.count++;
}

/*
 * Returns true if `named` is another user's object that was not sent yet, and marks it as sent. An object whose slot
 * did not exist when the snapshot began is left out.
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

/*
 * Sends the records of the objects that an object's record refers to, and then the object's record. The recursion ends:
 * a grant refers to a timeline, a timeline to a session, and a session to nothing. Returns the number of records sent.
 */
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

	if (!status_size(tracked->type))
		return 0;
	if (snapshot->all) {
		record_send(snapshot, tracked);
		return 1;
	}
	return may_see(snapshot, tracked) ? object_send(snapshot, tracked) : 0;
}

/*
 * Sends the header after all records, so that an interrupted snapshot is no valid status. A user that does not see all
 * gets no counters and no number of waiting requests, because both show other users' activity.
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
