/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - sends messages to one session: at once what its socket takes, and the rest, in order, when there is room.
 *
 * Owns the messages that wait and copies of their descriptors, both charged to the session's user, and the event that
 * watches for room. Of descriptors, the socket takes few at a time. Does not own the socket. Calls failed() when a message cannot be sent completely or when the peer
 * does not read. It may do so in the middle of a send; the owner then stops the outbox. Never blocks.
 *
 * Answers to a packet of several messages leave as one packet. That is worth its lines: with a system call for each
 * answer, bench/batch has 28 % fewer first acquires a second (105,000 and 76,000 on two cores).
 */
#ifndef GPUB_OUTBOX_H
#define GPUB_OUTBOX_H

#include <event2/event.h>

#include "broker/users/accounting.h"
#include "common/socket.h"

struct outgoing;
struct outbox;

/* Answers that leave as one packet. One serves all outboxes of a loop, one after the other. */
struct staged {
	unsigned            count;
	struct wire_message message[SOCKET_PACKET_MAX];
};

#define OUTBOX_UNREAD 2 /* descriptors that a peer may have been sent and not read: its session is charged with as many */

struct outbox_owner {
	unsigned (*due)(void *context); /* messages that may wait beyond those that every session may have waiting */
	void (*failed)(void *context, const char *reason);
	void (*answering)(void *context); /* an answer is about to be sent; NULL: nobody wants to know */
	void (*room)(void *context); /* outbox_has_room() said no, and the socket takes more now; may be NULL */
	void *context;
	struct accounting *accounting;
	uid_t              uid; /* is charged for what waits */
};

struct outbox {
	struct outbox_owner owner;
	int                 sock;
	struct event       *writing;
	struct outgoing    *first;
	unsigned            count, descriptors; /* messages that wait; messages with a descriptor among them */
	unsigned            unread; /* descriptors that were sent since the peer had read all, as far as is known */
	struct staged      *staged;             /* NULL: each message leaves at once */
	bool                stopped;
	bool                wanted; /* room is waited for */
};

/* -ENOMEM. An outbox of zeros may be closed. */
int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner);

/* Drops what waits and what is staged. Nothing is sent from then on, not even the rest of a send that is under way. */
void outbox_stop(struct outbox *box);

void outbox_close(struct outbox *box);

/*
 * Nothing waits, and the socket takes several packets at once. Where it does not, room() is called when it does: for who has much
 * to send, and wants to fill neither the outbox nor the user's quota of unread messages.
 */
bool outbox_has_room(struct outbox *box);

/*
 * Whether so many messages with a descriptor may be sent now, all of them or none: for who can still refuse what they answer. -EDQUOT: more
 * of them would wait than the session may leave unread, or than its user may have wait.
 */
int outbox_check(struct outbox *box, unsigned descriptors);

/* descriptor: -1, or one that stays the caller's. What may not wait, and was not checked, fails the box. */
void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor);

/*
 * Between begin and end, messages without a descriptor are collected and leave in packets of SOCKET_PACKET_MAX, in one
 * system call each. For peers that sent such a packet. The box may fail meanwhile, but must not be closed.
 */
void outbox_begin(struct outbox *box, struct staged *staged);
void outbox_end(struct outbox *box);

#endif
