/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - sends messages to one session, in order: those that its socket takes when a piece of work is over, and the
 * others when the socket has room.
 *
 * What one piece of work answers is sent after all of it, so that what the work has changed is published before anybody
 * knows of it, and so that a broker that dies has either done and noted all of it or nothing. Owns the messages that
 * are not sent yet and copies of their descriptors, and the event that watches for room in the socket. Those that wait
 * for room are charged to the session's user. At most OUTBOX_UNREAD descriptors are in the socket at a time. Does not
 * own the socket. Calls failed() when a message can neither be sent nor wait, but not when the peer has closed the
 * socket; the owner then stops the outbox. Never blocks.
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

/* All outboxes of one loop. */
struct outboxes {
	/* list of the outboxes that have messages which were not tried to send yet, or whose sockets have room again */
	struct outbox   *changed;
	/* structs for messages, linked by `next`: enough that a piece of work rarely needs memory to be answered */
	struct outgoing *spare;
	unsigned         spares;  /* length of `spare` */
	struct wire_message packet[SOCKET_PACKET_MAX]; /* the messages of a packet while it is sent */
	uint64_t         order;   /* number of messages so far */
};

#define OUTBOX_UNREAD 2 /* largest number of unread descriptors in the socket; the session is charged for as many */

struct outbox_owner {
	unsigned (*due)(void *context); /* returns how many messages may wait in addition to UNREAD_MAX (outbox.c) */
	/* called when a message cannot be sent; the owner then stops the outbox */
	void (*failed)(void *context, const char *reason);
	/*
	 * called by outboxes_send() when the socket has room again after outbox_has_room() returned false, and sends
	 * nothing itself; may be NULL
	 */
	void (*room)(void *context);
	/* called when an answer is sent that outbox_is_bound(); may be NULL */
	void (*sent)(void *context, uint64_t request);
	void *context;
	struct tracking   *tracking; /* where answers that are not sent yet are noted; NULL: nowhere */
	uint64_t           session;  /* id, for those notes */
	struct outboxes   *outboxes;
	struct accounting *accounting;
	uid_t              uid; /* user who is charged for the messages that wait */
};

struct outbox {
	struct outbox_owner owner;
	int                 sock;
	/* event: the socket has room; active while messages wait for room or `wanted` is true */
	struct event       *writing;
	struct outgoing    *first;       /* messages that are not sent yet, the oldest first */
	unsigned            count;       /* length of the list `first` */
	unsigned            descriptors; /* number of messages in `first` that have a descriptor */
	unsigned            leaving;     /* number of those that leave without waiting, and are not charged */
	/* number of descriptors sent since the peer was last known to have read everything */
	unsigned            unread;
	bool                blocked;     /* the messages in `first` wait for room in the socket, and are charged */
	bool                packs;       /* the peer understands packets of several messages */
	bool                stopped;     /* outbox_stop() was called: nothing is sent any more */
	bool                has_room;    /* the event came, and outboxes_send() has not sent everything since */
	bool                wanted;      /* outbox_has_room() returned false, and room() was not called since */
	bool                is_changed;  /* the outbox is in outboxes->changed */
	struct outbox      *prev, *next; /* links in the list outboxes->changed */
};

/*
 * Whether no other broker can give the answer: a DONE with a descriptor of this process alone, and a VIEW, because the
 * PARTs before it are not noted.
 */
bool outbox_is_bound(const struct wire_message *message, int fd);

/* Returns 0, or -ENOMEM with the error message set, and then outboxes_deinit() is called all the same. */
int outboxes_init(struct outboxes *outboxes);

/*
 * Opens an outbox on the socket. Returns 0, or -ENOMEM with the error message set. An outbox that is all zeroes may be
 * closed without being opened.
 */
int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner);

/* Drops all messages that are not sent. From then on nothing is sent, also by a send that is under way. */
void outbox_stop(struct outbox *box);

void outbox_close(struct outbox *box);

/* Says that the peer understands packets of several messages, because it has sent one. */
void outbox_pack(struct outbox *box);

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
 * Has the message sent by outboxes_send(), the next one or, if the socket has no room, a later one. descriptor: sent
 * with the message, and stays the caller's; -1: none. Calls failed() if the message must wait and cannot.
 */
void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor);

/*
 * Sends the messages of all outboxes, in packets of up to SOCKET_PACKET_MAX where the peer understands them, with one
 * system call for each packet. Nothing else sends any: who calls this has published what they tell of. Calls failed()
 * of an outbox whose messages must wait and cannot, or whose socket refuses one with an error other than -ECONNRESET.
 */
void outboxes_send(struct outboxes *outboxes);

/* Marks the messages that are not sent yet to be noted in the ledger, those of them that somebody waits for. */
void outboxes_note(struct outboxes *outboxes);

/*
 * What the ledger notes of an answer that is not sent yet, for the broker that takes over. Its descriptor follows from
 * the message; a key is not noted. Fields are only added, at the end (ledger_copy()).
 */
struct owed_record {
	uint64_t            session; /* id */
	uint64_t            order;   /* a later message has a larger one */
	struct wire_message message;
};

/* Fills the record of an answer from its slot. */
void outbox_note(const struct tracked *owed, struct owed_record *record);

/* Frees the memory for later messages. Called when all outboxes are closed. */
void outboxes_deinit(struct outboxes *outboxes);

#endif
