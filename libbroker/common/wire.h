/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the messages between broker and client over the SOCK_SEQPACKET socket.
 *
 * Every message is one struct wire_message of WIRE_SIZE bytes, in both directions. The kernel copies it whole, so what
 * was validated is what is used. A packet of the socket holds one message or several, each of which counts as if it had
 * come alone. The broker sends several only to a client that did so before, and PARTs. Integers are in the machine's
 * order (the socket is local). An answer has its request's number. No message carries a device handle as it is: it is
 * sealed (sealed.h), in the board or in a MEMORY. Only the broker sends descriptors, one with a message at most: a
 * client that sends one is cut off.
 *
 * WIRE_MESSAGES is the table of all messages: both sides' checks of form, the broker's handlers, the fuzzers, the
 * hostile clients and the counted instructions read it.
 */
#ifndef GPUB_WIRE_H
#define GPUB_WIRE_H

#include <stdint.h>

#include "gpubroker.h"
#include "name.h"
#include "ticket.h"

#define WIRE_MAGIC   0x62757067u /* "gpub" */
#define WIRE_VERSION 7
#define WIRE_SIZE    256

/* Who sends a message. */
enum wire_sender { WIRE_NOBODY, WIRE_BROKER, WIRE_CLIENT };

enum wire_traits {
	WIRE_GREETS = 1, /* belongs to the greeting: it comes before the session has begun */
	WIRE_LATE = 2,   /* may follow the session's LEAVE */
	WIRE_OWED = 4    /* only as the answer to an INQUIRE, and then it counts as no request of its user */
};

/*
 * Every message, in the order of the numbers: ROW(name, number, sender, answer, size, names, traits).
 *   answer   the message that answers it, where REFUSED does not; NONE: it is not answered
 *   size     bytes of its body. BODY is that member of struct wire_message
 *   names    how many names of buffers its body begins with
 * Rows are only added: a number keeps its meaning.
 */
#define WIRE_MESSAGES(ROW)										\
	/* The first message of a connection, sent when the broker has a pidfd of the peer. */		\
	ROW(CHALLENGE, 1, BROKER, NONE, BODY(hello), 0, WIRE_GREETS)					\
	/* Proves by credentials that the kernel made that the sender is that process. */		\
	ROW(HELLO, 2, CLIENT, WELCOME, BODY(hello), 0, WIRE_GREETS)					\
	/* The session begins. Carries the descriptor of the board. */					\
	ROW(WELCOME, 3, BROKER, NONE, BODY(welcome), 0, WIRE_GREETS)					\
	/* Creates a buffer. Answered when its memory is there and zeroed. */				\
	ROW(CREATE, 4, CLIENT, DONE, BODY(create), 1, 0)						\
	/* Takes a buffer's name away. */								\
	ROW(UNLINK, 5, CLIENT, DONE, BODY(name), 1, 0)							\
	/* Asks for what a name leads to. */								\
	ROW(STAT, 6, CLIENT, INFO, BODY(name), 1, 0)							\
	/* Asks for the right to map a buffer. */							\
	ROW(ACQUIRE, 7, CLIENT, GRANT, BODY(acquire), 1, 0)						\
	/* The mapping of a grant is gone. */								\
	ROW(CLOSED, 8, CLIENT, NONE, BODY(grant_id), 0, WIRE_LATE)					\
	/* Asks to signal a buffer's timeline. The answer carries the timeline's page, writable. */	\
	ROW(WRITER, 9, CLIENT, DONE, BODY(grant_id), 0, 0)						\
	/* The session ends in order. Answered after every answer that was due. */			\
	ROW(LEAVE, 10, CLIENT, LEFT, 0, 0, 0)								\
	/* The request is done. */									\
	ROW(DONE, 11, BROKER, NONE, 0, 0, 0)								\
	/* What a name leads to. */									\
	ROW(INFO, 12, BROKER, NONE, BODY(info), 0, 0)							\
	/* The session may map a buffer, whose sealed handle lies in the board. */			\
	ROW(GRANT, 13, BROKER, NONE, BODY(grant), 0, 0)							\
	/* A buffer that the session uses has lost its name or has another one. Answers no request. */	\
	ROW(NOTICE, 14, BROKER, NONE, BODY(grant_id), 0, 0)						\
	/* The request, or the greeting, is refused. */							\
	ROW(REFUSED, 15, BROKER, NONE, BODY(refused), 0, WIRE_GREETS)					\
	/* The session has ended. The last message of a connection. */					\
	ROW(LEFT, 16, BROKER, NONE, 0, 0, 0)								\
	/* Changes mode, owner or group of a buffer. */							\
	ROW(CHANGE, 17, CLIENT, DONE, BODY(change), 1, 0)						\
	/* Unlinks a buffer if the name still leads to one. Answered when the memory is freed. */	\
	ROW(DRAIN, 18, CLIENT, DONE, BODY(drain), 1, 0)							\
	/* Disconnects another session. The answer carries a pidfd of its process. */			\
	ROW(EVICT, 19, CLIENT, DONE, BODY(evict), 0, 0)							\
	/* Asks for a ticket (ticket.h) for a buffer. */						\
	ROW(ISSUE, 20, CLIENT, TICKET, BODY(issue), 1, 0)						\
	/* A ticket. */											\
	ROW(TICKET, 21, BROKER, NONE, BODY(ticket), 0, 0)						\
	/* Asks for the right to map the buffer of a ticket. */						\
	ROW(REDEEM, 22, CLIENT, GRANT, BODY(redeem), 0, 0)						\
	/* The device is done with all leases of a buffer whose grant stays. */				\
	ROW(QUIESCED, 23, CLIENT, NONE, BODY(grant_id), 0, WIRE_LATE)					\
	/* Has the broker ask all clients what they wait for. Answered when the status file says it. */	\
	ROW(REFRESH, 24, CLIENT, DONE, 0, 0, 0)								\
	/* Asks a client that said WIRE_HELLO_WAITS what its process waits for. Answers no request. */	\
	ROW(INQUIRE, 25, BROKER, NONE, 0, 0, 0)								\
	/* A part of the answer to an INQUIRE. */							\
	ROW(WAITS, 26, CLIENT, NONE, BODY(waits), 0, WIRE_LATE | WIRE_OWED)				\
	/* Asks for a status file of what this user may see. */						\
	ROW(SNAPSHOT, 27, CLIENT, VIEW, 0, 0, 0)							\
	/* Bytes of the file that answers a SNAPSHOT or a LIST. As many as it takes, before the VIEW. */	\
	ROW(PART, 28, BROKER, NONE, BODY(part), 0, 0)							\
	/* All PARTs of the file are sent. */								\
	ROW(VIEW, 29, BROKER, NONE, BODY(view), 0, 0)							\
	/* Adds rights to a buffer that the session uses. */						\
	ROW(RIGHTS, 30, CLIENT, DONE, BODY(rights), 0, 0)						\
	/* From now on nobody gets the right to write a buffer. */					\
	ROW(SEAL, 31, CLIENT, DONE, BODY(name), 1, 0)							\
	/* Gives a buffer another name. */								\
	ROW(RENAME, 32, CLIENT, DONE, BODY(rename), 2, 0)						\
	/* Asks for a buffer of a name that is newer than a generation. Answered when there is one. */	\
	ROW(NEWER, 33, CLIENT, INFO, BODY(newer), 1, 0)							\
	/* A chunk of memory that the GRANT behind it needs. Carries the chunk's descriptor. */		\
	ROW(MEMORY, 34, BROKER, NONE, BODY(memory), 0, 0)						\
	/* Changes the size of a buffer. */								\
	ROW(RESIZE, 35, CLIENT, DONE, BODY(resize), 1, 0)						\
	/* Refuses the request of the same number as if its time were over, if it waits. */		\
	ROW(CANCEL, 36, CLIENT, NONE, 0, 0, WIRE_LATE)							\
	/* Asks for the buffers that this user may see, of names that begin so. Answered by a file. */	\
	ROW(LIST, 37, CLIENT, VIEW, BODY(name), 1, 0)

enum wire_type {
	WIRE_NONE,
#define WIRE_NUMBER(name, number, sender, answer, size, names, traits) WIRE_##name = (number),
	WIRE_MESSAGES(WIRE_NUMBER)
#undef WIRE_NUMBER
	WIRE_TYPES
};

/* A row of the table. */
struct wire_row {
	const char      *name; /* such as "ACQUIRE" */
	enum wire_sender sender;
	enum wire_type   answer;
	unsigned         size, names, traits;
};

#define WIRE_NONCE_SIZE 32
#define WIRE_KEY_SIZE   32
#define WIRE_TEXT_SIZE  224

enum wire_hello_flags {
	WIRE_HELLO_MPS = 1,   /* this process runs under MPS */
	WIRE_HELLO_WAITS = 2, /* it answers INQUIRE */
	WIRE_HELLO_RANK = 4   /* rank is set */
};

struct wire_hello { /* CHALLENGE: nonce only */
	uint8_t  nonce[WIRE_NONCE_SIZE];
	uint32_t flags;
	uint32_t rank; /* among the processes of its job, as what started it says ($GPUBROKER_RANK, or MPI's): for people alone */
	uint32_t pid;  /* the process's own number, in its own pid namespace; 0: not said */
};

struct wire_welcome {
	uint64_t session;
	uint8_t  key[WIRE_KEY_SIZE];
	uint32_t user, broker; /* uids: of this client as the broker sees it, and of the broker */
};

struct wire_create {
	char     name[NAME_SIZE];
	uint64_t size;
	uint32_t device; /* the broker's index: place in the board's table */
	uint32_t mode, flags;
	int32_t  timeout_ms;
	gpub_layout layout;
	uint64_t reserve; /* bytes that it may grow to; 0: it keeps its size */
};

struct wire_name { /* UNLINK, STAT, SEAL; LIST: what the names begin with */
	char name[NAME_SIZE];
};

struct wire_acquire {
	char     name[NAME_SIZE];
	uint32_t rights; /* GPUB_MINE: only where the owner is this user, root or the broker's user */
	uint32_t device; /* where it will be opened; the broker's index */
	int32_t  timeout_ms;
	uint32_t expects, owner; /* expects 1: only where that uid owns it */
};

struct wire_info {
	uint64_t size, generation;
	uint32_t device, mode, owner, group, state, grants, flags;
	uint32_t orphaned; /* orphaned grants: closed by a session that is not trusted, they wait for its process's death */
	gpub_layout layout;
	uint64_t reserve; /* bytes that it may grow to; 0: it keeps its size */
};

/* What a LIST is answered with: a file of these. */
struct wire_listed {
	char             name[NAME_SIZE];
	struct wire_info info;
};

#define WIRE_NO_HANDLE UINT32_MAX

struct wire_grant {
	uint64_t grant, serial; /* serial of the buffer */
	uint64_t size, offset;  /* bytes of the buffer, and where it begins in its allocation */
	uint64_t span;          /* bytes of the allocation: of all its chunks */
	uint32_t buffer;        /* its word in the board */
	uint32_t place;         /* of its sealed handle in the board; WIRE_NO_HANDLE: the session has that grant, and its mapping */
	uint32_t rights;        /* those that this session has asked for; RIGHTS adds to them */
	uint32_t flags;         /* as gpub_info.flags */
	uint32_t owner_device;  /* where the memory is; the broker's index */
	uint32_t owner;         /* uid, as it is now */
	uint64_t room;          /* bytes from offset on that belong to no other buffer; 0: not said */
	gpub_layout layout;
	uint32_t exported;      /* the kind of export by its number (export.h) */
	uint32_t reserved;      /* 0 */
	uint64_t address;       /* where growable memory has to be mapped; 0: anywhere */
	uint64_t reserve;       /* bytes of addresses to keep for it: the allocation may grow to that */
};

#define WIRE_SEALED_SIZE 128

struct wire_memory {
	uint64_t grant;
	uint64_t offset, span; /* of the chunk in its allocation, and its bytes; offset 0: its handle is sealed in the board */
	uint8_t  sealed[WIRE_SEALED_SIZE];
};

struct wire_grant_id { /* CLOSED, QUIESCED, NOTICE, WRITER */
	uint64_t grant;
	uint64_t serial; /* of the buffer; CLOSED: unused; NOTICE: 0: the whole mapping should be closed */
};

struct wire_rights {
	uint64_t grant, serial; /* of the use */
	uint32_t rights;        /* that it shall have, too */
};

struct wire_rename {
	char     name[NAME_SIZE], to[NAME_SIZE];
	uint32_t flags; /* GPUB_REPLACE */
};

struct wire_resize {
	char     name[NAME_SIZE];
	uint64_t size;
	int32_t  timeout_ms; /* as of a create: for memory */
};

struct wire_newer {
	char     name[NAME_SIZE];
	uint64_t generation;
	int32_t  timeout_ms; /* -1: no limit */
};

struct wire_refused {
	int32_t error; /* negative errno */
	char    text[WIRE_TEXT_SIZE];
};

enum wire_changes { WIRE_CHANGE_MODE = 1, WIRE_CHANGE_OWNER = 2, WIRE_CHANGE_GROUP = 4 };

struct wire_change {
	char     name[NAME_SIZE];
	uint32_t what; /* enum wire_changes: which of the following are set */
	uint32_t mode, owner, group;
};

struct wire_drain {
	char    name[NAME_SIZE];
	int32_t timeout_ms; /* -1: no limit; after it the answer is a refusal, but the name is removed */
};

struct wire_evict {
	uint64_t session;
};

struct wire_issue {
	char     name[NAME_SIZE];
	uint64_t lifetime_ms; /* 0: as long as the buffer */
	uint32_t rights, uid; /* uid: TICKET_ANY_USER, or who may redeem it */
	uint32_t once;        /* 1: it can be redeemed once */
};

struct wire_redeem {
	struct ticket ticket;
	uint32_t     device; /* where it will be opened; the broker's index */
};

/* A stream of this process waits until the timeline of a buffer that it holds has reached a value. */
struct wire_wait {
	uint64_t grant, serial; /* of the buffer */
	uint64_t value;
	uint64_t age_ms; /* for how long */
};

#define WIRE_WAITS_MAX    7 /* in a message */
#define WIRE_WAITS_ANSWER 4 /* messages of one answer */

struct wire_waits {
	uint32_t         count, more; /* more 1: the answer goes on in the next message; in the last one of an answer: there are
					 timelines for which it has no room. Of each the lowest value comes before all others */
	struct wire_wait wait[WIRE_WAITS_MAX];
};

#define WIRE_PART_SIZE 232

struct wire_part {
	uint32_t offset, length; /* where its bytes stand in the file, and how many there are */
	uint8_t  bytes[WIRE_PART_SIZE];
};

struct wire_view {
	uint64_t size; /* of the file; bytes that no PART had are 0 */
	uint32_t all;  /* 1: everybody's objects; 0: what this user may see */
};

struct wire_message {
	uint32_t magic;
	uint16_t version, type; /* enum wire_type */
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

/* An empty message of that type. */
void wire_init(struct wire_message *message, enum wire_type type, uint64_t request);

/* Fills a REFUSED with the errno and the error message, which is cut if it is too long. */
void wire_refuse(struct wire_message *message, uint64_t request, int error, const char *text);

/*
 * Checks the form of a received message: length, magic, version, type, that every text ends inside its array, and that
 * no count is larger than its array. -EPROTO with the error message set.
 */
int wire_check(const struct wire_message *message, size_t length);

/* The row of a message. A number that no message has gives a row with the name "?" and the sender WIRE_NOBODY. */
const struct wire_row *wire_row(unsigned type);

#endif
