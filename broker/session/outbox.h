/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - sends messages to one session: at once those that its socket takes, and the others, in order, when the
 * socket has room.
 *
 * Owns the messages that wait and copies of their descriptors, both charged to the session's user, and the event that
 * watches for room in the socket. At most OUTBOX_UNREAD descriptors are in the socket at a time. Does not own the
 * socket. Calls failed() when a message can neither be sent nor wait, but not when the peer has closed the socket.
 * failed() may be called in the middle of a send; the owner then stops the outbox. Never blocks.
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

/*
 * Messages that are collected to be sent as one packet. All outboxes of a loop share one struct staged, which one
 * outbox uses at a time.
 */
struct staged {
	unsigned            count;
	struct wire_message message[SOCKET_PACKET_MAX];
};

#define OUTBOX_UNREAD 2 /* largest number of unread descriptors in the socket; the session is charged for as many */

struct outbox_owner {
	unsigned (*due)(void *context); /* returns how many messages may wait in addition to UNREAD_MAX (outbox.c) */
	/* called when a message cannot be sent; the owner then stops the outbox */
	void (*failed)(void *context, const char *reason);
	void (*answering)(void *context); /* called before an answer is sent; may be NULL */
	/* called when the socket has room again after outbox_has_room() returned false; may be NULL */
	void (*room)(void *context);
	void *context;
	struct accounting *accounting;
	uid_t              uid; /* user who is charged for the messages that wait */
};

struct outbox {
	struct outbox_owner owner;
	int                 sock;
	/* event: the socket has room; active while messages wait or `wanted` is true */
	struct event       *writing;
	struct outgoing    *first;       /* messages that wait, the oldest first */
	unsigned            count;       /* length of the list `first` */
	unsigned            descriptors; /* number of messages in `first` that have a descriptor */
	/* number of descriptors sent since the peer was last known to have read everything */
	unsigned            unread;
	/* messages collected since outbox_begin(); NULL: each message is sent at once */
	struct staged      *staged;
	bool                stopped;     /* outbox_stop() was called: nothing is sent any more */
	bool                wanted;      /* outbox_has_room() returned false, and room() was not called since */
};

/*
 * Opens an outbox on the socket. Returns 0, or -ENOMEM with the error message set. An outbox that is all zeroes may be
 * closed without being opened.
 */
int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner);

/* Drops all messages that wait or are staged. From then on nothing is sent, also by a send that is under way. */
void outbox_stop(struct outbox *box);

void outbox_close(struct outbox *box);

/*
 * Returns true if no message waits and the socket takes several packets at once. If it returns false, room() is called
 * when no message waits and the socket had room; the caller then asks again. A caller with much to send asks this
 * first, in order to fill neither the outbox nor the user's quota of unread messages.
 */
bool outbox_has_room(struct outbox *box);

/*
 * Returns 0 if so many messages with a descriptor each may be sent now, or wait. A caller asks this while it can still
 * refuse the request. -EDQUOT: more descriptors would wait than the session may leave unread, or than its user may
 * have. -ENOMEM.
 */
int outbox_check(struct outbox *box, unsigned descriptors);

/*
 * Sends the message, now or when the socket has room. descriptor: sent with the message, and stays the caller's; -1:
 * none. Calls failed() if the message must wait and cannot, or the socket refuses it with an error other than
 * -ECONNRESET.
 */
void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor);

/*
 * Between outbox_begin() and outbox_end(), messages without a descriptor are collected in `staged` and sent in packets
 * of up to SOCKET_PACKET_MAX, with one system call for each packet. Only for peers that understand packets of several
 * messages. The outbox may fail meanwhile, but must not be closed.
 */
void outbox_begin(struct outbox *box, struct staged *staged);
void outbox_end(struct outbox *box);

#endif
