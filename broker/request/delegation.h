/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delegation.h - issues and redeems tickets.
 *
 * Owns the key that stamps tickets, which is derived from the master key, and a note of each ticket that can be
 * redeemed once, until the ticket is redeemed or revoked, or some time after its expiry. A note is found by the
 * ticket's id, by its buffer, and by its owner in the order of expiry. The broker keeps nothing of other tickets: their
 * stamp proves that they are genuine, and their terms say what they allow. A ticket is void when its buffer was
 * unlinked, renamed or resized or has another owner, when the ticket has expired, and when this broker has ended
 * without a successor that has its master key. Never logs a ticket. common/ticket.c has the format and the stamp.
 */
#ifndef GPUB_DELEGATION_H
#define GPUB_DELEGATION_H

#include <stdint.h>

#include "common/wire.h"

struct broker;
struct buffer;
struct master_key;
struct session;
struct tracked;

struct delegation {
	uint8_t       *key;     /* secret key that stamps tickets, in memory of sodium_malloc() */
	struct once   *once;    /* table of all notes of tickets that can be redeemed once, by the ticket's id */
	struct issuer *issuers; /* table of the users whose buffers have notes, by uid */
};

/* Returns 0 or -ENOMEM with the error message set. A broker with the same master key redeems the same tickets. */
int delegation_init(struct delegation *delegation, const struct master_key *master);
void delegation_deinit(struct delegation *delegation);

/*
 * Makes a ticket for a LIVE buffer in *ticket, which is untouched on failure. -EACCES: the session is neither the
 * owner's nor an admin's; -EINVAL: the name is invalid, or rights or lifetime are out of range; -ENAMETOOLONG; -EROFS:
 * the buffer is sealed and the ticket is for writing; -EBUSY: the ticket is for a certain other user, and other buffers
 * of the owner are in the buffer's allocation; -EDQUOT: the owner has too many tickets that can be redeemed once;
 * -ENOENT: no LIVE buffer has the name; -ENOMEM.
 */
int delegation_issue(struct session *session, const struct wire_issue *issue, struct ticket *ticket);

/*
 * Checks a ticket that the session wants to redeem, and sets *buffer to its buffer. Refusals with these errors are
 * counted by their reason: -EKEYREJECTED: the ticket is forged, from another broker, for another user, or redeemed
 * already; -EKEYEXPIRED: it has expired; -ESTALE: the buffer was unlinked, renamed or resized, or has another owner.
 * Not counted: -EBUSY: the session is another user's, and other buffers of the owner are in the buffer's allocation.
 */
int delegation_check(struct session *session, const struct ticket *ticket, struct buffer **buffer);

/*
 * Counts a ticket as redeemed. A ticket that can be redeemed once is void from then on. If the session's user does not
 * own the buffer, keeps other buffers out of the buffer's allocation from now on.
 */
void delegation_spend(struct session *session, const struct ticket *ticket, struct buffer *buffer);

/* What the ledger notes of a ticket that can be redeemed once. Fields are only added, at the end (ledger_copy()). */
struct ticket_record {
	uint8_t  id[16];
	uint64_t buffer;     /* buffer_record.first */
	uint64_t expires_ms; /* 0: never */
};

/* Fills the record of a ticket from its slot. */
void delegation_note(const struct tracked *ticket, struct ticket_record *record);

/* Notes the ticket that the record is of, for a restored buffer. Returns 0 or -ENOMEM with the error message set. */
int delegation_restore(struct broker *broker, const struct ticket_record *record, struct buffer *buffer);

/*
 * Revokes the buffer's tickets that can be redeemed once. Also called as the registry's forget hook. context: the
 * broker.
 */
void delegation_forget(void *context, struct buffer *buffer);

#endif
