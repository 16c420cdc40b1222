/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the messages between broker and client over the SOCK_SEQPACKET socket.
 *
 * Every message is one struct wire_message of WIRE_SIZE bytes, in both directions. The kernel copies it whole, so what was
 * validated is what is used. A packet of the socket holds one message or several, each of which counts as if it had come alone.
 * The broker sends several only to a client that did so before, and PARTs. Integers are in the machine's order (the socket is
 * local). A reply has its request's number; once a session has begun, NOTICE and INQUIRE are all that the broker sends without a
 * request. No message carries a device handle as it is: it is sealed (sealed.h), in the board or in a MEMORY. Only the broker sends descriptors, one with a
 * message at most: a client that sends one is cut off.
 *
 *   broker   CHALLENGE                     first, after it opened a pidfd of the peer
 *   client   HELLO                         proves by its kernel-made credentials that it is that process
 *   broker   WELCOME + the board           or REFUSED, and the end
 *   client   CREATE UNLINK STAT ACQUIRE    -> DONE, INFO, GRANT, or REFUSED
 *   broker   MEMORY + a descriptor         just before a GRANT: a chunk of its memory that the session does not have, where that is exported
 *                                          by descriptors
 *   client   CLOSED                        the grant's mapping is gone; no reply
 *   client   QUIESCED                      the device is done with all leases of a buffer under a grant that stays; no reply
 *   client   WRITER                        -> DONE + the timeline's page, writable
 *   client   CHANGE                        mode, owner, group of a buffer -> DONE
 *   client   DRAIN                         an UNLINK that is answered when the memory is freed -> DONE; of a name that nothing has, it is
 *                                          answered when those that had it are freed
 *   client   RIGHTS                        adds rights to a use that the session has -> DONE
 *   client   SEAL                          no more write leases of a buffer -> DONE
 *   client   RENAME                        -> DONE
 *   client   RESIZE                        -> DONE
 *   client   NEWER                         -> INFO, once a buffer of that name has a greater generation
 *   client   EVICT                         cuts another session off -> DONE + a pidfd of its process
 *   client   ISSUE                         a ticket (ticket.h) -> TICKET
 *   client   REDEEM                        a ticket -> GRANT
 *   client   REFRESH                       has the broker ask all clients what they wait for -> DONE when the status file says it
 *   broker   INQUIRE                       what does your process wait for? To clients alone that said WIRE_HELLO_WAITS
 *   client   WAITS                         one or more, the answer to an INQUIRE; no reply
 *   client   SNAPSHOT                      -> PART, as many as it takes, and VIEW: a status file of what this user may see
 *   client   CANCEL                        the request with that number does not wait any longer: it is answered as if its time were over. No
 *                                          reply; without effect on a request that does not wait
 *   client   LEAVE                         -> LEFT, after every reply that was due
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

enum wire_type {
	WIRE_CHALLENGE = 1,
	WIRE_HELLO,
	WIRE_WELCOME,
	WIRE_CREATE,
	WIRE_UNLINK,
	WIRE_STAT,
	WIRE_ACQUIRE,
	WIRE_CLOSED,
	WIRE_WRITER,
	WIRE_LEAVE,
	WIRE_DONE,
	WIRE_INFO,
	WIRE_GRANT,
	WIRE_NOTICE,
	WIRE_REFUSED,
	WIRE_LEFT,
	WIRE_CHANGE,
	WIRE_DRAIN,
	WIRE_EVICT,
	WIRE_ISSUE,
	WIRE_TICKET,
	WIRE_REDEEM,
	WIRE_QUIESCED,
	WIRE_REFRESH,
	WIRE_INQUIRE,
	WIRE_WAITS,
	WIRE_SNAPSHOT,
	WIRE_PART,
	WIRE_VIEW,
	WIRE_RIGHTS,
	WIRE_SEAL,
	WIRE_RENAME,
	WIRE_NEWER,
	WIRE_MEMORY,
	WIRE_RESIZE,
	WIRE_CANCEL,
	WIRE_TYPES
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

struct wire_name { /* UNLINK, STAT, SEAL */
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
	uint32_t offset, length; /* where its bytes stand in the status file, and how many there are */
	uint8_t  bytes[WIRE_PART_SIZE];
};

struct wire_view { /* all parts are sent */
	uint64_t size; /* of the status file */
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
 * Checks a received message: length, magic, version, type, that every text in it ends inside its array, and that its counts
 * are of what it has room for. -EPROTO
 * with the error message set.
 */
int wire_check(const struct wire_message *message, size_t length);

/* The type's name, such as "ACQUIRE"; "?": there is no such type. */
const char *wire_type_name(unsigned type);

#endif
