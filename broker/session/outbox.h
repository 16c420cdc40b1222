/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - sends messages to one session: at once what its socket takes, and the rest, in order, when there is room.
 *
 * Owns the messages that wait and copies of their descriptors, both charged to the session's user, and the event that
 * watches for room in the socket. At most OUTBOX_UNREAD descriptors are in the socket at a time. Does not own the
 * socket. Calls failed() when a message cannot be sent completely or when the peer does not read. failed() may be
 * called in the middle of a send; the owner then stops the outbox. Never blocks.
 *
 * Answers to a packet of several messages are sent as one packet. With a system call for each answer, bench/batch has
 * 28 % fewer first acquires a second (76,000 instead of 105,000 on two cores).
 */
#ifndef GPUB_OUTBOX_H
#define GPUB_OUTBOX_H

#include <event2/event.h>

#include "broker/users/accounting.h"
#include "common/socket.h"

struct outgoing;
struct outbox;

/* Messages that were collected to be sent as one packet. All outboxes of a loop use one, one outbox at a time. */
struct staged {
	unsigned            count;
	struct wire_message message[SOCKET_PACKET_MAX];
};

#define OUTBOX_UNREAD 2 /* limit: unread descriptors in the socket; its session is charged with as many */

struct outbox_owner {
	unsigned (*due)(void *context); /* returns how many messages may wait beyond the limit of every session */
	void (*failed)(void *context, const char *reason); /* a message cannot be sent; the owner stops the outbox */
	void (*answering)(void *context); /* an answer is about to be sent; may be NULL */
	void (*room)(void *context); /* the socket has room again after outbox_has_room() returned false; may be NULL */
	void *context;
	struct accounting *accounting;
	uid_t              uid; /* the user that is charged for the messages that wait */
};

struct outbox {
	struct outbox_owner owner;
	int                 sock;
	struct event       *writing;     /* the socket has room; active while messages wait or wanted is true */
	struct outgoing    *first;       /* messages that wait, the oldest first */
	unsigned            count;       /* number of messages that wait */
	unsigned            descriptors; /* number of messages with a descriptor that wait */
	unsigned            unread;      /* descriptors sent since the peer was last known to have read everything */
	struct staged      *staged;      /* NULL: each message is sent at once */
	bool                stopped;     /* nothing is sent any more */
	bool                wanted;      /* the owner waits for room() */
};

/* Opens an outbox on the socket. -ENOMEM. An outbox that is all zeroes may be closed. */
int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner);

/* Drops all messages that wait or are staged. From then on nothing is sent, not even the rest of a send under way. */
void outbox_stop(struct outbox *box);

void outbox_close(struct outbox *box);

/*
 * Whether no message waits and the socket takes several packets at once. If false, room() is called when both are true.
 * A caller with much to send asks this first, in order to fill neither the outbox nor the user's quota of unread
 * messages.
 */
bool outbox_has_room(struct outbox *box);

/*
 * Whether that many messages with a descriptor may be sent now. A caller asks this while it can still refuse the
 * request. -EDQUOT: more descriptors would wait than the session may leave unread, or than its user may have.
 */
int outbox_check(struct outbox *box, unsigned descriptors);

/*
 * Sends the message, now or when the socket has room. descriptor: -1, or one that stays the caller's. Calls failed() if
 * the message must wait and no more messages may wait.
 */
void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor);

/*
 * Between begin and end, messages without a descriptor are collected and sent in packets of up to SOCKET_PACKET_MAX,
 * one system call each. Only for peers that understand packets of several messages. The outbox may fail meanwhile, but
 * must not be closed.
 */
void outbox_begin(struct outbox *box, struct staged *staged);
void outbox_end(struct outbox *box);

#endif
