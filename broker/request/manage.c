/* SPDX-License-Identifier: Apache-2.0 */
/* manage.c - see manage.h */
#include "manage.h"

#include <errno.h>
#include <sodium.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/name.h"
#include "delegation.h"
#include "drains.h"
#include "provision.h"
#include "waking.h"

static bool may_manage(const struct session *session, const struct buffer *buffer)
{
	return session->who.uid == buffer->owner || identity_is_admin(&session->who);
}

int manage_check(const struct session *session, const struct buffer *buffer, const char *what)
{
	if (may_manage(session, buffer))
		return 0;
	return error_set(-EACCES, "only its owner (uid %u) or root may %s '%s'", buffer->owner, what, buffer->name);
}

/*
 * Unlinks the buffer. Returns the provision of the buffer's growth, which gets memory and which the caller must
 * abandon. NULL: there is none, and the buffer may have been freed.
 */
static struct provision *name_end(struct broker *broker, struct buffer *buffer)
{
	struct provision *growing = buffer->growing;

	broker->counters.buffers_unlinked++;
	registry_unlink(broker->registry, buffer);
	broker_changed(broker);
	return growing;
}

void manage_unlink(struct broker *broker, struct buffer *buffer)
{
	struct provision *growing = name_end(broker, buffer);

	if (growing)
		provision_abandon(growing);
}

int manage_unlink_named(struct session *session, const struct wire_message *message)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, message->name.name, &buffer);

	if (!error)
		error = manage_check(session, buffer, "unlink");
	if (error)
		return error;
	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_UNLINK,
								.actor = SESSION_PARTY(session),
								.name = buffer->name });
	manage_unlink(session->broker, buffer);
	CRASH_POINT(unlinked);
	session_done(session, message->request, -1);
	return 0;
}

/* ---- mode, owner, group ---- */

/*
 * Checks a CHANGE by the rules of chmod(2) and chown(2): only an admin changes the owner, and other users change the
 * group only to a group of their own.
 */
static int change_check(const struct session *session, const struct wire_change *change, const struct buffer *buffer)
{
	const struct identity *who = &session->who;
	int error = manage_check(session, buffer, "change");

	if (error)
		return error;
	if (!change->what || change->what & ~7u || (change->what & WIRE_CHANGE_MODE && change->mode & ~0777u))
		return error_set(-EINVAL,
				 "the change of '%s' makes no sense: give a mode up to 0777, an owner or a group",
				 buffer->name);
	if (change->what & WIRE_CHANGE_OWNER && change->owner != buffer->owner && !identity_is_admin(who))
		return error_set(-EACCES, "only root may give '%s' to another user", buffer->name);
	if (change->what & WIRE_CHANGE_GROUP && change->group != buffer->group && !identity_is_admin(who) &&
	    !identity_in_group(who, change->group))
		return error_set(-EACCES, "'%s' can be given only to a group of yours, and group %u is none",
				 buffer->name, change->group);
	return 0;
}

static bool changes(const struct wire_change *change, const struct buffer *buffer)
{
	return (change->what & WIRE_CHANGE_MODE && change->mode != buffer->mode) ||
	       (change->what & WIRE_CHANGE_OWNER && change->owner != buffer->owner) ||
	       (change->what & WIRE_CHANGE_GROUP && change->group != buffer->group);
}

/* Changes the buffer's owner, and revokes the buffer's tickets. */
static int give_away(struct broker *broker, struct buffer *buffer, uid_t owner)
{
	int error = registry_change_owner(broker->registry, buffer, owner);

	if (!error)
		delegation_forget(broker, buffer);
	return error;
}

static void tell_of_change(struct session *session, uint32_t what, const struct buffer *buffer)
{
	struct broker_event event = { .kind = EVENT_CHMOD,
				      .actor = SESSION_PARTY(session),
				      .name = buffer->name,
				      .detail = buffer->mode };

	if (what & WIRE_CHANGE_MODE)
		event_happened(session->broker, &event);
	if (!(what & (WIRE_CHANGE_OWNER | WIRE_CHANGE_GROUP)))
		return;
	event.kind = EVENT_CHOWN;
	event.other.uid = buffer->owner;
	event.detail = buffer->group;
	event_happened(session->broker, &event);
}

int manage_change(struct session *session, const struct wire_message *message)
{
	const struct wire_change *change = &message->change;
	struct broker *broker = session->broker;
	struct buffer *buffer;
	bool parts;
	int error = registry_find_live(broker->registry, change->name, &buffer);

	if (!error)
		error = change_check(session, change, buffer);
	/*
	 * registry_may_part() first, because it can fail: users who get access must not see other buffers of the
	 * allocation
	 */
	parts = !error && changes(change, buffer);
	if (parts)
		error = registry_may_part(buffer);
	if (!error && change->what & WIRE_CHANGE_OWNER && change->owner != buffer->owner)
		error = give_away(broker, buffer, change->owner);
	if (error)
		return error;
	if (parts)
		registry_part(broker->registry, buffer);
	if (change->what & WIRE_CHANGE_MODE)
		buffer->mode = change->mode;
	if (change->what & WIRE_CHANGE_GROUP)
		buffer->group = change->group;
	tell_of_change(session, change->what, buffer);
	tracked_changed(broker->tracking, &buffer->tracked);
	session_done(session, message->request, -1);
	broker_changed(broker);
	return 0;
}

/* ---- publish: seal, rename ---- */

static int refuse_writer(const struct session *session, const struct buffer *buffer)
{
	const struct grant *grant = grants_find_writer(&session->mappings, buffer);

	if (!grant)
		return error_set(-EBUSY, "%u others may write '%s': broker-status --holder '%s' shows them",
				 buffer->writers, buffer->name, buffer->name);
	if (grant->mapping->session == session)
		return error_set(-EBUSY, "this session may write '%s' by a ticket or under an earlier name: return "
				 "those leases, then call gpub_trim",
				 buffer->name);
	return error_set(-EBUSY,
			 "session %llu (pid %d, uid %u) may write '%s' until it closes it: let it call gpub_trim, or "
			 "end",
			 (unsigned long long)grant->mapping->session->id, (int)grant->mapping->session->pid,
			 grant->mapping->uid, buffer->name);
}

int manage_seal(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	struct buffer *buffer;
	int error = registry_find_live(broker->registry, message->name.name, &buffer);

	if (!error)
		error = manage_check(session, buffer, "seal");
	if (!error && grants_others_write(&session->mappings, buffer))
		error = refuse_writer(session, buffer);
	if (error)
		return error;
	if (!(buffer->flags & GPUB_SEALED))
		event_happened(broker, &(struct broker_event){ .kind = EVENT_SEAL,
							       .actor = SESSION_PARTY(session),
							       .name = buffer->name });
	grants_stop_writing(session->broker->registry, &session->mappings, buffer);
	buffer->flags |= GPUB_SEALED;
	registry_end_unwritable(broker->registry, buffer);
	tracked_changed(broker->tracking, &buffer->tracked);
	if (buffer->growing)
		provision_abandon(buffer->growing);
	CRASH_POINT(sealed);
	session_done(session, message->request, -1);
	broker_changed(broker);
	return 0;
}

/*
 * Checks whether a rename may replace the buffer that has the new name. replaced: the buffer with the new name; NULL:
 * none.
 */
static int rename_check(const struct session *session, const struct wire_rename *rename, const struct buffer *replaced)
{
	if (!replaced)
		return 0;
	if (!(rename->flags & GPUB_REPLACE) && !may_manage(session, replaced))
		return error_set(-EEXIST, "the name '%s' is taken by a buffer of another user: choose another",
				 rename->to);
	if (!(rename->flags & GPUB_REPLACE))
		return error_set(-EEXIST,
				 "the name '%s' is taken: unlink it first, or replace it (GPUB_REPLACE, --replace)",
				 rename->to);
	if (replaced->state != BUFFER_LIVE)
		return error_set(-EBUSY, "'%s' is being created: try again when it is there", rename->to);
	return manage_check(session, replaced, "replace");
}

static void tell_of_rename(struct session *session, const struct wire_rename *rename, bool replaces)
{
	struct broker_event event = { .kind = EVENT_RENAME, .actor = SESSION_PARTY(session), .name = rename->name };

	if (replaces)
		event_happened(session->broker, &(struct broker_event){ .kind = EVENT_UNLINK_REPLACED,
									.actor = SESSION_PARTY(session),
									.name = rename->to });
	event_happened(session->broker, &event);
	event.kind = EVENT_RENAMED;
	event.name = rename->to;
	event_happened(session->broker, &event);
}

/*
 * Between the unlink of the replaced buffer and the rename, nothing can fail and no request is answered. So clients
 * always find a buffer under the new name.
 */
int manage_rename(struct session *session, const struct wire_message *message)
{
	const struct wire_rename *rename = &message->rename;
	struct broker *broker = session->broker;
	struct buffer *buffer, *replaced;
	struct provision *growing = NULL;
	int error = name_check(rename->to);

	if (!error && rename->flags & ~(GPUB_REPLACE | GPUB_PERSIST))
		error = error_set(-EINVAL, "a rename has unknown flags: use GPUB_REPLACE, GPUB_PERSIST, or 0");
	if (!error)
		error = registry_find_live(broker->registry, rename->name, &buffer);
	if (!error)
		error = manage_check(session, buffer, "rename");
	if (error)
		return error;
	replaced = registry_find(broker->registry, rename->to);
	if (replaced != buffer) {
		error = rename_check(session, rename, replaced);
		if (error)
			return error;
		tell_of_rename(session, rename, replaced != NULL);
		if (replaced)
			growing = name_end(broker, replaced);
		CRASH_POINT(rename_replaced);
		delegation_forget(broker, buffer);
		registry_rename(broker->registry, buffer, rename->to);
		CRASH_POINT(renamed);
	}
	if (growing)
		provision_abandon(growing);
	if (rename->flags & GPUB_PERSIST)
		registry_persist(broker->registry, buffer);
	session_done(session, message->request, -1);
	if (replaced != buffer)
		waking_name(broker, buffer->name);
	broker_changed(broker);
	return 0;
}

/* ---- drain ---- */

/* Waits again for the end of a buffer that an earlier broker has unlinked for this drain. */
static int drain_again(struct session *session, const struct wire_message *message)
{
	const struct buffer *buffer = registry_find_any(session->broker->registry, session->awaited);

	if (buffer)
		return drain_wait(session->broker, buffer, session->id, message->request, message->drain.timeout_ms);
	session_done(session, message->request, -1);
	return 0;
}

int manage_drain(struct session *session, const struct wire_message *message)
{
	struct broker *broker = session->broker;
	struct buffer *buffer;
	int error;

	if (session->awaited)
		return drain_again(session, message);
	error = registry_find_live(broker->registry, message->drain.name, &buffer);

	if (error == -ENOENT)
		return error_set(-ENOENT,
				 "there is no buffer '%s': if it was unlinked, broker-ctl stat says who still holds it",
				 message->drain.name);
	if (!error)
		error = manage_check(session, buffer, "drain");
	if (!error)
		error = drain_wait(broker, buffer, session->id, message->request, message->drain.timeout_ms);
	if (error)
		return error;
	session->awaited = buffer->serial;
	event_happened(broker, &(struct broker_event){
				       .kind = EVENT_DRAIN, .actor = SESSION_PARTY(session), .name = buffer->name });
	manage_unlink(broker, buffer);
	return 0;
}

/* ---- evict ---- */

/* Sends a pidfd of the evicted process with the answer. The kernel checks what the receiver may do with the pidfd. */
int manage_evict(struct session *session, const struct wire_message *message)
{
	struct session *other = session_find(session->broker, message->evict.session);
	const struct identity *who = &session->who;
	int error;

	if (!other || !session_is_welcome(other))
		return error_set(-ENOENT, "there is no session %llu: broker-status lists them",
				 (unsigned long long)message->evict.session);
	if (other == session)
		return error_set(-EINVAL, "a session cannot evict itself: disconnect");
	if (who->uid != other->who.uid && !identity_is_admin(who))
		return error_set(-EACCES,
				 "session %llu is another user's (uid %u): only that user or root may evict it",
				 (unsigned long long)other->id, other->who.uid);
	error = session_check_descriptors(session, 1);
	if (error)
		return error;
	if (other->fd >= 0)
		session_evict(other, session);
	session_done(session, message->request, other->pidfd);
	return 0;
}

/* ---- tickets ---- */

int manage_issue(struct session *session, const struct wire_message *message)
{
	struct wire_message answer;
	struct ticket ticket;
	int error = delegation_issue(session, &message->issue, &ticket);

	if (error)
		return error;
	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_TICKET,
								.actor = SESSION_PARTY(session),
								.name = message->issue.name });
	wire_init(&answer, WIRE_TICKET, message->request);
	answer.ticket = ticket;
	session_send(session, &answer, -1);
	sodium_memzero(&answer, sizeof answer);
	sodium_memzero(&ticket, sizeof ticket);
	broker_changed(session->broker);
	return 0;
}
