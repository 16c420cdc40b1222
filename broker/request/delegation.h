/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delegation.h - delegable tickets, as the broker issues and honours them.
 *
 * Owns the key that stamps them, and a note of each that can be redeemed once, until that has happened. A note is found by
 * the ticket's id, by its buffer, and by its owner in the order of expiry. Other tickets are not noted: their stamp
 * proves that they are genuine, their terms say what they allow. A ticket ends with its buffer's name, with its term, or with
 * this broker. Never logs one. common/ticket.c has form and stamp.
 */
#ifndef GPUB_DELEGATION_H
#define GPUB_DELEGATION_H

#include <stdint.h>

#include "common/wire.h"

struct broker;
struct buffer;
struct session;

struct delegation {
	uint8_t       *key;     /* sodium_malloc'd */
	struct once   *once;    /* all notes, by the ticket's id */
	struct issuer *issuers; /* users who have such, by uid */
};

int delegation_init(struct delegation *delegation); /* -ENOMEM */
void delegation_deinit(struct delegation *delegation);

/*
 * Makes one for a LIVE buffer of the session's user. -EACCES: neither the owner nor an admin asks; -EINVAL; -EDQUOT: too
 * many one-time tickets of this user wait; -ENOENT, -ENOMEM. *token is untouched then.
 */
int delegation_issue(struct session *session, const struct wire_issue *issue, struct ticket *ticket);

/*
 * The buffer that a ticket opens for this session, or why it opens none, which is counted by its reason: -EKEYREJECTED
 * forged, from another broker, for another user, or used up; -EKEYEXPIRED; -ESTALE its buffer is gone, or has another owner;
 * -EBUSY, not counted, something else of its owner's is in its memory.
 */
int delegation_check(struct session *session, const struct ticket *ticket, struct buffer **buffer);

/* It was honoured: one that is good once is used up, and no other buffer joins what another user maps now. */
void delegation_spend(struct session *session, const struct ticket *ticket, struct buffer *buffer);

/* The registry's hook: the buffer goes, and its notes with it. context: the broker. */
void delegation_forget(void *context, struct buffer *buffer);

#endif
