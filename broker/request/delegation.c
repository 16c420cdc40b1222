/* SPDX-License-Identifier: Apache-2.0 */
/* delegation.c - see delegation.h */
#include "delegation.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/deadlines.h"
#include "broker/base/master-key.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/error.h"
#include "common/now.h"
#include "common/tables.h"

/* A user whose buffers have tickets that can be redeemed once. Exists while there is a note of such a ticket. */
struct issuer {
	uid_t            uid;
	unsigned         count; /* number of notes of the user's tickets */
	struct deadlines terms; /* expiries of the noted tickets that have one */
	UT_hash_handle   hh;    /* handle in the hash table delegation->issuers */
};

/* The note of a ticket that can be redeemed once, and has not been redeemed. */
struct once {
	/*
	 * expiry of the ticket; its ms is 0: never. Must be the first member, because once_drop_expired() casts its
	 * address
	 */
	struct deadline    expires;
	uint8_t            id[16];  /* id of the ticket */
	struct delegation *among;
	struct issuer     *issuer;
	struct buffer     *buffer;
	struct charge      charge;
	struct tracked     tracked;
	struct once       *prev, *next; /* links in the list buffer->tickets */
	UT_hash_handle     hh;          /* handle in the hash table delegation->once */
};

int delegation_init(struct delegation *delegation, const struct master_key *master)
{
	*delegation = (struct delegation){ .key = sodium_malloc(TICKET_KEY_SIZE) };
	if (!delegation->key)
		return error_set(-ENOMEM, "the broker is out of memory");
	master_key_derive(master, MASTER_TICKETS, 0, delegation->key, TICKET_KEY_SIZE);
	return 0;
}

void delegation_deinit(struct delegation *delegation)
{
	sodium_free(delegation->key);
	delegation->key = NULL;
}

/* The clock of a ticket's expiry: this clock also runs while the machine is suspended, and nobody can set it. */
#define CLOCK_OF_TICKETS CLOCK_BOOTTIME

static bool is_past(uint64_t expires_ms)
{
	return expires_ms && now_ms(CLOCK_OF_TICKETS) >= expires_ms;
}

/* ---- tickets that can be redeemed once ---- */

static struct issuer *issuer_get(struct delegation *delegation, uid_t uid)
{
	struct issuer *issuer;

	HASH_FIND(hh, delegation->issuers, &uid, sizeof uid, issuer);
	if (issuer)
		return issuer;
	issuer = calloc(1, sizeof *issuer);
	if (!issuer)
		return NULL;
	issuer->uid = uid;
	HASH_ADD(hh, delegation->issuers, uid, sizeof issuer->uid, issuer);
	if (table_added(issuer))
		return issuer;
	free(issuer);
	return NULL;
}

static void issuer_put(struct delegation *delegation, struct issuer *issuer)
{
	if (issuer->count)
		return;
	HASH_DEL(delegation->issuers, issuer);
	free(issuer);
}

static void once_drop(struct broker *broker, struct once *once)
{
	struct issuer *issuer = once->issuer;

	DL_DELETE(once->buffer->tickets, once);
	HASH_DEL(once->among->once, once);
	if (once->expires.ms)
		deadlines_remove(&issuer->terms, &once->expires);
	issuer->count--;
	issuer_put(once->among, issuer);
	charge_release(&once->charge, broker->accounting);
	tracked_end(broker->tracking, &once->tracked);
	free(once);
}

/*
 * Drops up to 2 expired notes of the user. Called for each ticket that is issued, so that expired notes do not use up
 * the user's quota.
 */
static void once_drop_expired(struct broker *broker, uid_t owner)
{
	for (int i = 0; i < 2; i++) {
		struct issuer *issuer;
		struct deadline *first;

		HASH_FIND(hh, broker->delegation->issuers, &owner, sizeof owner, issuer);
		first = issuer ? deadlines_first(&issuer->terms) : NULL;
		if (!first || !is_past(first->ms))
			return;
		once_drop(broker, (struct once *)first);
	}
}

/* Enters a note, which is charged, in all tables. Returns 0 or -ENOMEM with the error message set. */
static int once_enter(struct broker *broker, struct once *once)
{
	struct delegation *delegation = once->among;

	once->issuer = issuer_get(delegation, once->buffer->owner);
	if (!once->issuer)
		goto no_memory;
	HASH_ADD(hh, delegation->once, id, sizeof once->id, once);
	if (!table_added(once))
		goto put_issuer;
	if (once->expires.ms && deadlines_add(&once->issuer->terms, &once->expires))
		goto take_out;
	once->issuer->count++;
	DL_APPEND(once->buffer->tickets, once);
	tracked_begin(broker->tracking, &once->tracked, TRACKED_TICKET);
	return 0;
take_out:
	HASH_DEL(delegation->once, once);
put_issuer:
	issuer_put(delegation, once->issuer);
no_memory:
	return error_set(-ENOMEM, "the broker is out of memory");
}

/* charge: charge_take(), or charge_restore() for a ticket of the broker before this one. */
static int once_note(struct broker *broker, struct buffer *buffer, const struct ticket_record *ticket,
		     int (*charge)(struct charge *, struct accounting *, uid_t, enum resource, uint64_t))
{
	struct once *once;
	int error = tracking_reserve(broker->tracking, 1);

	if (error)
		return error;
	once = calloc(1, sizeof *once);
	if (!once)
		return error_set(-ENOMEM, "the broker is out of memory");
	*once = (struct once){ .among = broker->delegation, .buffer = buffer, .expires.ms = ticket->expires_ms };
	memcpy(once->id, ticket->id, sizeof once->id);
	error = charge(&once->charge, broker->accounting, buffer->owner, RESOURCE_TICKETS, 1);
	if (!error)
		error = once_enter(broker, once);
	if (error) {
		charge_release(&once->charge, broker->accounting);
		free(once);
	}
	return error;
}

void delegation_note(const struct tracked *ticket, struct ticket_record *record)
{
	const struct once *once = (const struct once *)((const char *)ticket - offsetof(struct once, tracked));

	*record = (struct ticket_record){ .buffer = once->buffer->first, .expires_ms = once->expires.ms };
	memcpy(record->id, once->id, sizeof record->id);
}

int delegation_restore(struct broker *broker, const struct ticket_record *record, struct buffer *buffer)
{
	return once_note(broker, buffer, record, charge_restore);
}

static struct once *once_find(const struct delegation *delegation, const struct ticket *ticket)
{
	struct once *once;

	HASH_FIND(hh, delegation->once, ticket->id, sizeof ticket->id, once);
	return once;
}

void delegation_forget(void *context, struct buffer *buffer)
{
	struct broker *broker = context;
	struct broker_event event = { .kind = EVENT_TICKETS_REVOKED, .name = buffer->name };

	for (; buffer->tickets; event.detail++)
		once_drop(broker, buffer->tickets);
	if (event.detail)
		event_happened(broker, &event);
}

/* ---- issuing ---- */

static int issue_check(const struct session *session, const struct wire_issue *issue, const struct buffer *buffer)
{
	if (session->who.uid != buffer->owner && !identity_is_admin(&session->who))
		return error_set(-EACCES, "only its owner (uid %u) or root may give tickets for '%s'", buffer->owner,
				 buffer->name);
	if (!issue->rights || issue->rights & ~(GPUB_READ | GPUB_WRITE) || issue->once > 1)
		return error_set(-EINVAL, "the ticket's rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	if (issue->rights & GPUB_WRITE && buffer->flags & GPUB_SEALED)
		return error_set(-EROFS, "'%s' is sealed: issue a ticket to read it", buffer->name);
	if (issue->lifetime_ms > UINT64_MAX / 2)
		return error_set(-EINVAL, "the ticket's lifetime is out of range: 0 is as long as the buffer's");
	return 0;
}

/*
 * Checks whether a ticket may be issued for the buffer. A process that redeems a ticket maps the whole allocation, so a
 * ticket for another user needs an allocation with no other buffer in it. Sets *parts to true if the caller must keep
 * other buffers out of the allocation from now on (registry_part()). A ticket for any user is issued in any case,
 * because the owner's processes may redeem it; delegation_check() refuses a process of another user if the allocation
 * has other buffers then.
 */
static int issue_may_part(const struct wire_issue *issue, const struct buffer *buffer, bool *parts)
{
	int error = issue->uid == buffer->owner ? 0 : registry_may_part(buffer);

	*parts = issue->uid != buffer->owner && !error;
	return issue->uid == TICKET_ANY_USER ? 0 : error;
}

int delegation_issue(struct session *session, const struct wire_issue *issue, struct ticket *ticket)
{
	struct broker *broker = session->broker;
	struct buffer *buffer;
	struct ticket made = { .rights = (uint8_t)issue->rights, .uid = issue->uid, .once = (uint8_t)issue->once };
	bool parts;
	int error = registry_find_live(broker->registry, issue->name, &buffer);

	if (!error)
		error = issue_check(session, issue, buffer);
	if (!error)
		error = issue_may_part(issue, buffer, &parts);
	if (error)
		return error;
	memcpy(made.instance, broker->board->header->instance_id, sizeof made.instance);
	randombytes_buf(made.id, sizeof made.id);
	made.serial = buffer->serial;
	made.owner_changes = buffer->owner_changes;
	made.expires_ms = issue->lifetime_ms ? now_ms(CLOCK_OF_TICKETS) + issue->lifetime_ms : 0;
	once_drop_expired(broker, buffer->owner);
	if (made.once) {
		struct ticket_record record = { .expires_ms = made.expires_ms };

		memcpy(record.id, made.id, sizeof record.id);
		error = once_note(broker, buffer, &record, charge_take);
	}
	if (error)
		return error;
	if (parts)
		registry_part(broker->registry, buffer);
	ticket_stamp(&made, broker->delegation->key);
	*ticket = made;
	broker->counters.tickets_issued++;
	return 0;
}

/* ---- redeeming ---- */

/*
 * Counts the refusal of a ticket and makes an event of it. Sets the error message and returns `error`. counter: the
 * counter for this reason of refusals.
 */
static int ticket_refuse(struct session *session, uint64_t *counter, int error, const char *text)
{
	const struct counters *counters = &session->broker->counters;

	(*counter)++;
	event_happened(session->broker,
		       &(struct broker_event){ .kind = counter == &counters->tickets_forged ? EVENT_TICKET_FORGED :
						       error == -EKEYEXPIRED		    ? EVENT_TICKET_EXPIRED :
											      EVENT_TICKET_VOID,
					       .error = error,
					       .actor = SESSION_PARTY(session),
					       .text = text });
	return error_set(error, "%s", text);
}

/*
 * Checks the ticket's stamp. The caller does this before all other checks, because the other fields of a forged ticket
 * mean nothing.
 */
static int check_stamp(struct session *session, const struct ticket *ticket)
{
	struct broker *broker = session->broker;

	if (ticket_is_genuine(ticket, broker->delegation->key))
		return 0;
	if (memcmp(ticket->instance, broker->board->header->instance_id, sizeof ticket->instance))
		return ticket_refuse(session, &broker->counters.tickets_foreign, -EKEYREJECTED,
			      "another broker issued this ticket, or an earlier run of this one: ask for a new one");
	return ticket_refuse(session, &broker->counters.tickets_forged, -EKEYREJECTED,
		      "the ticket is not what this broker issued: copy it whole, or ask for a new one");
}

int delegation_check(struct session *session, const struct ticket *ticket, struct buffer **result)
{
	struct broker *broker = session->broker;
	struct counters *counters = &broker->counters;
	struct buffer *buffer;
	int error = check_stamp(session, ticket);

	if (error)
		return error;
	if (ticket->uid != TICKET_ANY_USER && ticket->uid != session->who.uid)
		return ticket_refuse(session, &counters->tickets_foreign, -EKEYREJECTED,
			      "the ticket is for another user: ask for one of your own");
	if (is_past(ticket->expires_ms))
		return ticket_refuse(session, &counters->tickets_expired, -EKEYEXPIRED,
				     "the ticket has expired: ask for a new one");
	buffer = registry_find_serial(broker->registry, ticket->serial);
	if (!buffer)
		return ticket_refuse(session, &counters->tickets_stale, -ESTALE,
			      "the ticket's buffer was unlinked: ask for one for the new buffer");
	if (ticket->owner_changes != buffer->owner_changes)
		return ticket_refuse(session, &counters->tickets_stale, -ESTALE,
			      "the ticket's buffer has another owner now: ask that one for a new ticket");
	if (ticket->once && !once_find(broker->delegation, ticket))
		return ticket_refuse(session, &counters->tickets_used, -EKEYREJECTED,
			      "the ticket was good once and has been redeemed: ask for a new one");
	*result = buffer;
	return session->who.uid == buffer->owner ? 0 : registry_may_part(buffer);
}

void delegation_spend(struct session *session, const struct ticket *ticket, struct buffer *buffer)
{
	struct once *once = ticket->once ? once_find(session->broker->delegation, ticket) : NULL;

	session->broker->counters.tickets_redeemed++;
	event_happened(session->broker, &(struct broker_event){ .kind = EVENT_TICKET_REDEEMED,
								.actor = SESSION_PARTY(session),
								.name = buffer->name });
	if (session->who.uid != buffer->owner)
		registry_part(session->broker->registry, buffer);
	if (once)
		once_drop(session->broker, once);
}
