/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the messages between broker and client over the SOCK_SEQPACKET socket.
 *
 * Every message is one struct wire_message of WIRE_SIZE bytes, in both directions. The kernel copies each message, so
 * the sender cannot change it after the receiver's check. A packet of the socket holds one or more messages, and each
 * message is handled as if it were in a packet of its own. The broker sends several messages in a packet only if they
 * are PARTs, or to a client that did so before. Integers are in the machine's byte order, because the socket is
 * local. An answer has the number of its request. No message carries a plain device handle: handles are sealed
 * (sealed.h), in the board. Only the broker sends descriptors, at most one with a message. The broker disconnects a
 * client that sends a descriptor.
 *
 * WIRE_MESSAGES is the table of all messages. It is used by the checks of form on both sides, the broker's handlers,
 * the fuzzers, the hostile clients of the tests, and the instruction counts.
 */
#ifndef GPUB_WIRE_H
#define GPUB_WIRE_H

#include <stdint.h>

#include "gpubroker.h"
#include "name.h"
#include "ticket.h"

#define WIRE_MAGIC   0x62757067u /* "gpub" */
#define WIRE_VERSION 8 /* of the form of all messages, the board and the sealed handles; peers must have the same */
#define WIRE_SIZE    256

/*
 * The revision of the protocol. Each release that adds a message, a member of a body or a flag adds 1. Nothing is ever
 * taken away or changed, so broker and library work by the lower one of their revisions (wire_agree()). A body grows
 * only at its end. 0 in a new member means what an older peer means. A peer sends what is new, messages or members,
 * only if the revision that both have agreed on has it.
 */
#define WIRE_REVISION        1
#define WIRE_REVISION_OLDEST 1 /* the lowest revision of a peer with which this side works */

/* The side that sends a message. NOBODY: no message has the number. */
enum wire_sender { WIRE_NOBODY, WIRE_BROKER, WIRE_CLIENT };

/* Bits of wire_row.traits. */
enum wire_traits {
	WIRE_GREETS = 1, /* the message belongs to the greeting, before the session has begun */
	WIRE_LATE = 2,   /* a client may send the message after its LEAVE */
	/* the message answers an INQUIRE; it does not count as a request of the user if the session owes the answer */
	WIRE_OWED = 4
};

/*
 * All messages, in the order of their numbers: ROW(name, number, sender, answer, size, names, traits, since).
 *   answer   the message that answers this one, unless REFUSED does; NONE: the message is not answered
 *   size     bytes of the body. BODY(member): the size of this member of struct wire_message
 *   names    number of buffer names at the beginning of the body
 *   since    the revision that added the message
 * Rows are only ever added, so a number keeps its meaning.
 */
#define WIRE_MESSAGES(ROW)										\
	/* The first message, unless REFUSED is: sent once the broker has a pidfd of the client. */	\
	ROW(CHALLENGE, 1, BROKER, NONE, BODY(hello), 0, WIRE_GREETS, 1)					\
	/* Proves by the kernel's credentials that the sender is the process of the pidfd. */		\
	ROW(HELLO, 2, CLIENT, WELCOME, BODY(hello), 0, WIRE_GREETS, 1)					\
	/* The session begins. Carries the descriptor of the board. */					\
	ROW(WELCOME, 3, BROKER, NONE, BODY(welcome), 0, WIRE_GREETS, 1)					\
	/* Creates a buffer. Answered when the buffer's memory is allocated and zeroed. */		\
	ROW(CREATE, 4, CLIENT, DONE, BODY(create), 1, 0, 1)						\
	/* Removes a buffer's name. The buffer drains: it exists until its last use has ended. */	\
	ROW(UNLINK, 5, CLIENT, DONE, BODY(name), 1, 0, 1)						\
	/* Asks for the properties of the buffer with a name. */					\
	ROW(STAT, 6, CLIENT, INFO, BODY(name), 1, 0, 1)							\
	/* Asks for the right to map a buffer. */							\
	ROW(ACQUIRE, 7, CLIENT, GRANT, BODY(acquire), 1, 0, 1)						\
	/* The client has closed a mapping. */								\
	ROW(CLOSED, 8, CLIENT, NONE, BODY(grant_id), 0, WIRE_LATE, 1)					\
	/* Asks for the right to signal a buffer's timeline. The answer carries its writable page. */	\
	ROW(WRITER, 9, CLIENT, DONE, BODY(grant_id), 0, 0, 1)						\
	/* Ends the session in order. Answered after the answers to all earlier requests. */		\
	ROW(LEAVE, 10, CLIENT, LEFT, 0, 0, 0, 1)							\
	/* The request is done. */									\
	ROW(DONE, 11, BROKER, NONE, 0, 0, 0, 1)								\
	/* The properties of a buffer. */								\
	ROW(INFO, 12, BROKER, NONE, BODY(info), 0, 0, 1)						\
	/* The session may map a buffer. The handle is in the board, sealed to the session. */		\
	ROW(GRANT, 13, BROKER, NONE, BODY(grant), 0, 0, 1)						\
	/* Asks a session to end its use of a buffer, or to close a mapping. Answers no request. */	\
	ROW(NOTICE, 14, BROKER, NONE, BODY(grant_id), 0, 0, 1)						\
	/* The request, or the greeting, is refused. */							\
	ROW(REFUSED, 15, BROKER, NONE, BODY(refused), 0, WIRE_GREETS, 1)				\
	/* The session has ended. The last message of a connection. */					\
	ROW(LEFT, 16, BROKER, NONE, 0, 0, 0, 1)								\
	/* Changes mode, owner or group of a buffer. */							\
	ROW(CHANGE, 17, CLIENT, DONE, BODY(change), 1, 0, 1)						\
	/* Unlinks the buffer with a name, if any. Answered when its memory is freed or reusable. */	\
	ROW(DRAIN, 18, CLIENT, DONE, BODY(drain), 1, 0, 1)						\
	/* Disconnects another session. The answer carries a pidfd of that session's process. */	\
	ROW(EVICT, 19, CLIENT, DONE, BODY(evict), 0, 0, 1)						\
	/* Asks for a ticket (ticket.h) for a buffer. */						\
	ROW(ISSUE, 20, CLIENT, TICKET, BODY(issue), 1, 0, 1)						\
	/* A ticket. */											\
	ROW(TICKET, 21, BROKER, NONE, BODY(ticket), 0, 0, 1)						\
	/* Asks for the right to map the buffer of a ticket. */						\
	ROW(REDEEM, 22, CLIENT, GRANT, BODY(redeem), 0, 0, 1)						\
	/* The device is done with all leases of a buffer. The client keeps the mapping. */		\
	ROW(QUIESCED, 23, CLIENT, NONE, BODY(grant_id), 0, WIRE_LATE, 1)				\
	/* Makes the broker send INQUIRE. Answered when all clients have answered, or a time limit is over. */	\
	ROW(REFRESH, 24, CLIENT, DONE, 0, 0, 0, 1)							\
	/* Asks a client that said WIRE_HELLO_WAITS what its process waits for. Answers no request. */	\
	ROW(INQUIRE, 25, BROKER, NONE, 0, 0, 0, 1)							\
	/* A part of the answer to an INQUIRE. */							\
	ROW(WAITS, 26, CLIENT, NONE, BODY(waits), 0, WIRE_LATE | WIRE_OWED, 1)				\
	/* Asks for a status file of what this user may see. */						\
	ROW(SNAPSHOT, 27, CLIENT, VIEW, 0, 0, 0, 1)							\
	/* Bytes of the file that answers a SNAPSHOT or a LIST. As many PARTs as needed, then VIEW. */	\
	ROW(PART, 28, BROKER, NONE, BODY(part), 0, 0, 1)						\
	/* The end of a file: all PARTs are sent. */							\
	ROW(VIEW, 29, BROKER, NONE, BODY(view), 0, 0, 1)						\
	/* Adds rights to a grant of the session. */							\
	ROW(RIGHTS, 30, CLIENT, DONE, BODY(rights), 0, 0, 1)						\
	/* Seals a buffer: from now on no session gets the right to write to it. */			\
	ROW(SEAL, 31, CLIENT, DONE, BODY(name), 1, 0, 1)						\
	/* Gives a buffer another name. */								\
	ROW(RENAME, 32, CLIENT, DONE, BODY(rename), 2, 0, 1)						\
	/* Asks for a buffer with a name, newer than a generation. Answered when one exists. */		\
	ROW(NEWER, 33, CLIENT, INFO, BODY(newer), 1, 0, 1)						\
	/* A chunk of memory that the next GRANT needs. Carries the chunk's descriptor. */		\
	ROW(MEMORY, 34, BROKER, NONE, BODY(memory), 0, 0, 1)						\
	/* Changes the size of a buffer. */								\
	ROW(RESIZE, 35, CLIENT, DONE, BODY(resize), 1, 0, 1)						\
	/* Makes the waiting request with this message's number time out now. */			\
	ROW(CANCEL, 36, CLIENT, NONE, 0, 0, WIRE_LATE, 1)						\
	/* Asks for the buffers that this user may see, by the beginning of their names. */		\
	ROW(LIST, 37, CLIENT, VIEW, BODY(name), 1, 0, 1)

enum wire_type {
	WIRE_NONE,
#define WIRE_NUMBER(name, number, sender, answer, size, names, traits, since) WIRE_##name = (number),
	WIRE_MESSAGES(WIRE_NUMBER)
#undef WIRE_NUMBER
	WIRE_TYPES
};

/* A row of WIRE_MESSAGES. */
struct wire_row {
	const char      *name; /* such as "ACQUIRE" */
	enum wire_sender sender;
	enum wire_type   answer;
	unsigned         size, names, traits, since;
};

#define WIRE_NONCE_SIZE 32
#define WIRE_KEY_SIZE   32
#define WIRE_TEXT_SIZE  224

enum wire_hello_flags {
	WIRE_HELLO_MPS = 1,   /* the client process runs under MPS */
	WIRE_HELLO_WAITS = 2, /* the client answers INQUIRE */
	WIRE_HELLO_RANK = 4   /* wire_hello.rank is valid */
};

struct wire_hello { /* body of HELLO, and of CHALLENGE, in which flags, rank and pid are 0 */
	uint8_t  nonce[WIRE_NONCE_SIZE];
	uint32_t flags; /* enum wire_hello_flags */
	uint32_t rank;  /* the process's rank in its job ($GPUBROKER_RANK, or MPI's variable); only shown to people */
	uint32_t pid;   /* the process's pid in its own pid namespace; 0: unknown */
	uint32_t oldest, newest; /* lowest and highest revision of the protocol with which the sender works */
};

struct wire_welcome {
	uint64_t session;
	uint8_t  key[WIRE_KEY_SIZE];
	uint32_t user, broker; /* uid of the client, as the broker sees it; uid of the broker */
};

struct wire_create {
	char     name[NAME_SIZE];
	uint64_t size;
	uint32_t device; /* index, in board_header.device, of the device that is to have the memory */
	uint32_t mode, flags;
	int32_t  timeout_ms; /* how long to wait for memory; -1: no limit */
	gpub_layout layout;
	uint64_t reserve; /* bytes that the buffer may grow to; 0: it cannot grow */
};

struct wire_name { /* UNLINK, STAT, SEAL: the buffer's name; LIST: the text that the names begin with */
	char name[NAME_SIZE];
};

struct wire_acquire {
	char     name[NAME_SIZE];
	uint32_t rights; /* GPUB_READ, GPUB_WRITE; GPUB_MINE: the owner must be this user, root or the broker's user */
	uint32_t device; /* index, in board_header.device, of the device on which the client will map the buffer */
	int32_t  timeout_ms; /* how long to wait for a buffer of that name; -1: no limit */
	uint32_t expects, owner; /* expects 1: the broker refuses unless uid `owner` owns the buffer */
};

struct wire_info {
	uint64_t size, generation;
	uint32_t device, mode, owner, group, state, grants, flags;
	uint32_t orphaned; /* number of grants under orphaned mappings, which last until the sessions' processes die */
	gpub_layout layout;
	uint64_t reserve; /* bytes that the buffer may grow to; 0: it cannot grow */
};

/* A record of the file that answers a LIST. The file has one record for each buffer. */
struct wire_listed {
	char             name[NAME_SIZE];
	struct wire_info info;
};

#define WIRE_NO_HANDLE UINT32_MAX

struct wire_grant {
	uint64_t mapping, serial; /* id of the granted mapping; serial of the buffer */
	uint64_t size, offset;  /* bytes of the buffer; bytes from the beginning of its allocation to it */
	uint64_t span;          /* bytes of the buffer's allocation with all its chunks */
	uint32_t buffer;        /* index of the buffer's word in the board */
	uint32_t place;         /* index of the mapping's handle place; WIRE_NO_HANDLE: the session has the mapping */
	uint32_t rights;        /* those of GPUB_READ and GPUB_WRITE that the session has asked for; RIGHTS adds more */
	uint32_t flags;         /* the buffer's flags, as in gpub_info.flags */
	uint32_t owner_device;  /* index, in board_header.device, of the device that has the memory */
	uint32_t owner;         /* uid of the buffer's present owner */
	uint64_t room;          /* bytes, from `offset` of the allocation on, that are no other buffer's; 0: unknown */
	gpub_layout layout;
	uint32_t exported;      /* enum export_kind (export.h) */
	uint32_t reserved;      /* must be 0 */
	uint64_t address;       /* where the client must map the memory; 0: anywhere */
	uint64_t reserve;       /* bytes of addresses that the client reserves, to which the allocation may grow */
};

struct wire_memory {
	uint64_t mapping;      /* id of the mapping whose allocation has the chunk */
	uint64_t offset, span; /* bytes from the beginning of the allocation to the chunk; bytes of the chunk */
};

struct wire_grant_id { /* body of CLOSED, QUIESCED, NOTICE and WRITER: names a grant or a mapping of the session */
	uint64_t mapping;
	uint64_t serial; /* serial of the buffer; CLOSED: unused; NOTICE, 0: the client should close the mapping */
};

struct wire_rights {
	uint64_t mapping, serial; /* the session's grant: id of the mapping, serial of the buffer */
	uint32_t rights;          /* GPUB_READ, GPUB_WRITE: rights to add to the grant */
};

struct wire_rename {
	char     name[NAME_SIZE], to[NAME_SIZE];
	uint32_t flags; /* bits GPUB_REPLACE, GPUB_PERSIST */
};

struct wire_resize {
	char     name[NAME_SIZE];
	uint64_t size;
	int32_t  timeout_ms; /* how long to wait for memory; -1: no limit */
};

struct wire_newer {
	char     name[NAME_SIZE];
	uint64_t generation;
	int32_t  timeout_ms; /* how long to wait for a buffer that is newer; -1: no limit */
};

struct wire_refused {
	int32_t error; /* negative errno */
	char    text[WIRE_TEXT_SIZE];
};

enum wire_changes { WIRE_CHANGE_MODE = 1, WIRE_CHANGE_OWNER = 2, WIRE_CHANGE_GROUP = 4 };

struct wire_change {
	char     name[NAME_SIZE];
	uint32_t what; /* enum wire_changes: which of the next three fields to change */
	uint32_t mode, owner, group;
};

struct wire_drain {
	char    name[NAME_SIZE];
	int32_t timeout_ms; /* when it expires, the broker refuses the drain; the name stays removed; -1: no limit */
};

struct wire_evict {
	uint64_t session;
};

struct wire_issue {
	char     name[NAME_SIZE];
	uint64_t lifetime_ms; /* how long the ticket is valid, from its issue on, at most; 0: no limit */
	uint32_t rights, uid; /* rights of the ticket; the user who may redeem it, or TICKET_ANY_USER */
	uint32_t once;        /* 1: the ticket can be redeemed once */
};

struct wire_redeem {
	struct ticket ticket;
	uint32_t     device; /* index, in board_header.device, of the device on which the client will map the buffer */
};

/* A wait of the client process, on a stream or in a thread, until a buffer's timeline reaches a value. */
struct wire_wait {
	uint64_t mapping, serial; /* the client's grant: id of the mapping, serial of the timeline's buffer */
	uint64_t value;  /* the wait ends when the timeline reaches this value */
	uint64_t age_ms; /* how long the wait has lasted */
};

#define WIRE_WAITS_MAX    7 /* waits in a message at most */
#define WIRE_WAITS_ANSWER 4 /* messages of one answer to an INQUIRE at most */

/*
 * Some waits of the client process, at most WIRE_WAITS_MAX. more 1: the answer to the INQUIRE goes on in the next
 * message. In message number WIRE_WAITS_ANSWER, the last one, more 1 means that waits on some timelines are left out.
 * An answer first has the lowest awaited value of each timeline, then the other waits.
 */
struct wire_waits {
	uint32_t         count, more;
	struct wire_wait wait[WIRE_WAITS_MAX];
};

#define WIRE_PART_SIZE 232

struct wire_part {
	uint32_t offset, length; /* where the bytes belong in the file; number of the bytes */
	uint8_t  bytes[WIRE_PART_SIZE];
};

struct wire_view {
	uint64_t size; /* bytes of the file; those that were in no PART message are 0 */
	uint32_t all;  /* 1: the file has the objects of all users; 0: only those that this user may see */
};

struct wire_message {
	uint32_t magic;
	uint16_t version, type; /* WIRE_VERSION; enum wire_type */
	uint64_t request;
	union {
		struct wire_hello    hello;
		struct wire_welcome  welcome;
		struct wire_create   create;
		struct wire_name     name;
		struct wire_acquire  acquire;
		struct wire_info     info;
		struct wire_grant    grant;
		struct wire_grant_id grant_id;
		struct wire_rights   rights;
		struct wire_rename   rename;
		struct wire_newer    newer;
		struct wire_resize   resize;
		struct wire_memory   memory;
		struct wire_refused  refused;
		struct wire_change   change;
		struct wire_drain    drain;
		struct wire_evict    evict;
		struct wire_issue    issue;
		struct ticket        ticket;
		struct wire_redeem   redeem;
		struct wire_waits    waits;
		struct wire_part     part;
		struct wire_view     view;
		uint8_t              bytes[WIRE_SIZE - 16];
	};
};

_Static_assert(sizeof(struct wire_message) == WIRE_SIZE, "a message is one fixed size");

/* Makes *message an empty message of the type, with the request's number. */
void wire_init(struct wire_message *message, enum wire_type type, uint64_t request);

/* Makes *message a REFUSED with a negative errno and an error message, which is cut if it is too long. */
void wire_refuse(struct wire_message *message, uint64_t request, int error, const char *text);

/*
 * Checks the form of a received message: length, magic, version, type, that every text ends inside its array, that no
 * count exceeds its array, and that a refusal has a negative error. -EPROTO with the error message set.
 */
int wire_check(const struct wire_message *message, size_t length);

/* Sets oldest and newest to the revisions with which this side works. */
void wire_hello_fill(struct wire_hello *hello);

/*
 * Returns the revision of the protocol that a peer and this side have in common, the highest one. -EPROTO, error
 * message set: they have none. peer, self: "broker" and "library", for the message, or the reverse.
 */
int wire_agree(const struct wire_hello *hello, const char *peer, const char *self);

/* Returns the row of a message type. For an unknown type: a row with the name "?" and the sender WIRE_NOBODY. */
const struct wire_row *wire_row(unsigned type);

#endif
