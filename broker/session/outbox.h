/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - what one session is sent: at once what its socket takes, and the rest, in order, as it can be written to.
 *
 * Owns the messages that wait, with the descriptors that belong to them, charged to the owner's user both, and the event
 * that watches for room. Does not own the socket. Calls failed() when a message cannot be sent completely or the peer does
 * not read, maybe in the middle of a send; the owner then stops the box. Never blocks.
 */
#ifndef GPUB_OUTBOX_H
#define GPUB_OUTBOX_H

#include <event2/event.h>

#include "broker/users/accounting.h"
#include "common/socket.h"

struct outgoing;
struct outbox;

/* Messages for one outbox that are sent together. One serves all outboxes of a loop, one after the other. */
struct staged {
	struct outbox      *box; /* NULL: nobody's */
	unsigned            count;
	struct wire_message message[SOCKET_SEND_MAX];
};

struct outbox_owner {
	unsigned (*due)(void *context); /* so many may wait beside what any session may leave unread */
	void (*failed)(void *context, const char *reason);
	void (*answering)(void *context); /* an answer is about to be sent; NULL: nobody wants to know */
	void *context;
	struct accounting *accounting;
	uid_t              uid; /* who is charged with what waits */
};

struct outbox {
	struct outbox_owner owner;
	int                 sock;
	struct event       *writing;
	struct outgoing    *first;
	unsigned            count, descriptors; /* messages that wait; those with a descriptor */
	struct staged      *staged;             /* NULL: what is sent goes at once */
	bool                stopped;
	unsigned            packed;             /* messages in a packet of those that are sent together; 0 as 1 */
};

/* -ENOMEM. All zeroes is an outbox that may be closed. */
int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner);

/* Forgets what waits, and what is staged. Nothing is sent from then on, also not what a send under way has left. */
void outbox_stop(struct outbox *box);

void outbox_close(struct outbox *box);

/* With a descriptor that stays the caller's, or -1. */
void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor);

/* From here to the end what is sent without a descriptor is kept, and goes in few system calls. The box may fail meanwhile,
 * but must not be closed. */
void outbox_begin(struct outbox *box, struct staged *staged);
void outbox_end(struct outbox *box);

#endif
