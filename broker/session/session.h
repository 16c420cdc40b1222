/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one connection of one client process: its socket, its identity, its key, its mappings.
 *
 * Owns the session's fields and what is sent to the client. greeting.h begins a session, serve.h reads its messages and
 * session-end.h ends it. A client that breaks the protocol or never reads is disconnected. The broker then discards
 * what the client still sends, but the session keeps its mappings until the process is dead, because the process may
 * still have the memory mapped. Never blocks. Never waits for a client.
 */
#ifndef GPUB_SESSION_H
#define GPUB_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <event2/event.h>

#include "broker/base/event-kinds.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/tables.h"
#include "common/wire.h"
#include "fair-queue.h"
#include "outbox.h"
#include "pending.h"

struct broker;

enum session_state {
	SESSION_ARRIVED,  /* the connection is accepted and its user is known; the session waits in the fair queue */
	SESSION_GREETING, /* the challenge is sent, and the client has not answered it */
	SESSION_OPEN,     /* the client was welcomed */
	SESSION_LEAVING,  /* the client sent LEAVE */
	SESSION_DISCONNECTED /* disconnected by the broker */
};

enum proof_state {
	/*
	 * no device was asked yet whether it is done with the process: the process lives, or a copy of its socket is
	 * open
	 */
	PROOF_NONE,
	PROOF_ASKING,    /* the devices are asked again and again, until none lists the dead process */
	PROOF_IMPOSSIBLE /* the devices cannot be asked, or cannot tell, whether they are done with the process */
};

/* State of the proof that the devices are done with a dead process. */
struct proof {
	bool             mps; /* the client said that it runs under MPS */
	enum proof_state state;
	unsigned         asked;    /* number of questions to the devices so far that have not proved the death */
	unsigned         pause_us; /* pause before the next question, in microseconds */
	uint64_t         since_ms; /* time of the first question, in milliseconds since 1970 */
	struct event    *again;    /* timer for the next question; NULL: none was needed yet */
	bool             at_once;  /* there was no memory for the timer: the session waits in the fair queue to ask */
};

/* Says whether the client has answered what its streams wait for (INQUIRE, request/inquiry.h). */
enum answer_state {
	ANSWER_NONE,   /* the session was never asked */
	ANSWER_GIVEN,  /* the session has answered the last INQUIRE */
	ANSWER_OWED,   /* the session was sent an INQUIRE and has not answered */
	ANSWER_UNKNOWN /* the session's library does not know INQUIRE */
};

/*
 * What the client was asked by INQUIRE, and what it answered. Owned by request/inquiry.c. All zeroes at the beginning.
 */
struct inquired {
	enum answer_state     answer;
	/* time of the client's last answer, in milliseconds since 1970; 0: none yet */
	uint64_t              answered_ms;
	uint64_t              round;    /* number of the last round in which the session was asked */
	bool                  listed;   /* the session is in inquiry->sessions, to be asked in each round */
	bool                  counted;  /* in the round `round`, inquiry->awaited counts the answer of this session */
	/* number of WAITS messages received so far of an answer that has more of them */
	unsigned              messages;
	bool                  partial;  /* true: the process has more waits than the list `waits` */
	struct reported_wait *waits;    /* list of the waits that the process reported */
	struct session      **asking;   /* list of senders of REFRESH that the session is in; NULL: in none */
	uint64_t              request;  /* number of the session's unanswered REFRESH; valid while asking is not NULL */
	struct session       *prev, *next;               /* links in the list inquiry->sessions */
	struct session       *asking_prev, *asking_next; /* links in the list *asking */
};

#define RANK_NONE UINT32_MAX

#define SESSION_DESCRIPTORS 2 /* number of descriptors that are charged for a session: its socket and its pidfd */

/*
 * Work for one message that takes several passes of the loop. A step of the task is done whenever fair_allows() is true
 * and the socket has room. Until the task is done, the session's socket is not read. A session has one task at most: a
 * later message of the same packet gets -EBUSY (walk_begin()), or, if it is LEAVE, drops the task.
 */
struct session_task {
	/* Does a part of the work and counts its cost (fair-queue.h). Returns true when the task is done. */
	bool (*step)(struct session *session);
	/* frees the task, whether it is done or not, unless it is a member of the session */
	void (*drop)(struct session_task *task);
};

/*
 * Bits of session->due: kinds of work that no message asks for. The work of the lowest bit that is set is done first,
 * in the user's share.
 */
enum session_due {
	DUE_EXPIRY = 1,  /* refuse the waiting requests whose time is over */
	DUE_SILENCE = 2, /* drop the waiting requests, because the client gets no more answers */
	DUE_END = 4      /* the session has ended: end its timelines, unlink its ephemeral buffers */
};

struct session {
	struct broker     *broker;
	uint64_t           id;
	enum session_state state;
	int                fd;              /* the session's socket; -1 after the client hung up */
	/* a descriptor that is kept open so that there will be one for pidfd; -1 once it is closed */
	int                reserved;
	int                pidfd;           /* pidfd of the client's process; -1 until the process was identified */
	/* event: fd is readable (edge-triggered), or the time of the greeting or of discard_later() is over */
	struct event      *reading;
	struct event      *death;           /* event: pidfd is readable, so the process is dead */
	bool               before;     /* the session is one of the broker before this one */
	bool               opened;     /* the client was welcomed, and counters.sessions_opened counts the session */
	bool               hung_up;    /* the client has closed its end of the socket */
	bool               discarding; /* the session is disconnected, and the broker discards what the client sends */
	unsigned           due;        /* bits of enum session_due: work that is left to do */
	bool               ends;       /* DUE_END was set, and is not set again */
	/* the session ended without LEAVE, or with a mapping that is not orphaned; valid while ends is true */
	bool               died;
	struct identity    who;
	pid_t              pid;
	char               command[16]; /* name of the process's program, from /proc/PID/comm, shown to people */
	uint64_t           start;       /* start time of the process, from /proc/PID/stat (process-start.h) */
	time_t             since;       /* time at which the broker accepted the connection, shown to people */
	uint32_t           own_pid;     /* pid of the process in its own pid namespace, as it says; 0: not known */
	unsigned           revision;    /* of the protocol, which the client and this broker agreed on (wire_agree()) */
	uint32_t           rank;        /* rank of the process, as its HELLO says; or RANK_NONE */
	bool               answers;     /* the client understands INQUIRE */
	struct inquired    inquired;
	struct proof       proof;
	/* random bytes that were sent in the challenge and are expected in the HELLO */
	uint8_t            nonce[WIRE_NONCE_SIZE];
	uint8_t           *key; /* secret key that seals the session's handles, in memory of sodium_malloc() */
	struct session_mappings mappings;
	struct timelines   timelines;
	struct buffer     *ephemerals; /* list of the buffers that are unlinked when the session ends */
	struct outbox      outbox;
	struct session_task *task;     /* the task that is under way; NULL: none */
	struct session_task leave;     /* the task of a LEAVE; `task` points to it while the client leaves */
	uint64_t           leave_request; /* number of the LEAVE request */
	struct pending    *pending;     /* table of the requests that are noted in the ledger (pending.h) */
	uint64_t           handled;     /* number of the request whose message is handled; 0: none */
	bool               answered;    /* that request is answered */
	/* while a message is handled: serial of the buffer whose end it awaits; 0: none */
	uint64_t           awaited;
	struct charge      charge;      /* charge for the session, from the welcome on */
	struct charge      greeting;    /* charge for the connection, until the welcome */
	struct charge      descriptors; /* charge for the descriptors of the socket and of the process */
	struct tracked     tracked;
	struct fair_entry  place; /* the session's entry in the fair queue */
	UT_hash_handle     hh;    /* handle in the hash table sessions->by_id */
};

/* Functions of broker/request/ that the sessions call. */
struct session_hooks {
	/*
	 * Does what a message of the client asks for, and answers. Returns 0, also if the request is refused; -EPROTO
	 * with the error message set: the message breaks the protocol.
	 */
	int (*message)(struct session *session, const struct wire_message *message);
	/*
	 * Each function does one piece of the work of one bit of enum session_due: expire() of DUE_EXPIRY, silence() of
	 * DUE_SILENCE, end() of DUE_END. Returns the cost of the piece; 0: no work was left.
	 */
	unsigned (*expire)(struct session *session);
	unsigned (*silence)(struct session *session);
	unsigned (*end)(struct session *session);
};

/* The packet that is being handled, as a broker that takes over finds it. */
struct hand {
	uint64_t             number;  /* of the packet; a later one has a larger number */
	uint64_t             session; /* id of the session that has sent it */
	uint64_t             crashed; /* number of the message, from 0, at which the last broker that crashed was */
	uint64_t             crashes; /* number of brokers in a row that have crashed there */
	struct socket_packet packet;
};

/* What the ledger notes of the packet in hand. */
struct hand_record {
	uint64_t number; /* hand.number */
	uint64_t done;   /* number of its messages that are handled */
};

struct sessions {
	const struct session_hooks *hooks;
	struct session      *by_id;   /* table of all sessions, by id */
	uint64_t             next_id; /* id of the session that began last */
	unsigned             before;  /* number of sessions of the broker before this one */
	unsigned             arrived; /* number of sessions in the state SESSION_ARRIVED */
	struct hand         *hand;    /* the packet that is handled, in memory that outlives a broker with a ledger */
	struct hand          own_hand; /* `hand` of a broker without one */
	unsigned             done;    /* number of messages of the packet in hand that are handled */
	bool                 open;    /* a packet was received since the last sessions_send() or sessions_commit() */
	struct outboxes      outboxes;
	struct pendings      pendings;
};

/* Names the session as a party of a broker_event. */
#define SESSION_PARTY(which) \
	((struct event_party){ (which)->id, (uint32_t)(which)->pid, (which)->who.uid, (which)->command })

/* Returns the session with the id, or NULL. */
struct session *session_find(struct broker *broker, uint64_t id);

/*
 * Returns true if the client was welcomed, or was disconnected by the broker before that. A session has no mappings,
 * timelines or requests before its welcome.
 */
bool session_is_welcome(const struct session *session);

/* Returns true if the session has a mapping that is not orphaned. */
bool session_maps(const struct session *session);

/*
 * Returns true if the session's socket reports a hang-up: the client has closed its end, or both directions are shut
 * down. False after session_hang_up(), which closes the socket.
 */
bool session_socket_is_closed(const struct session *session);

/* Puts the session into its user's queue, to be served in a later pass of the loop. */
void session_wait(struct session *session);

/*
 * Adds bits of enum session_due to session->due, and puts the session into its user's queue as urgent. If the session
 * is in the queue already, it keeps its place.
 */
void session_owe(struct session *session, unsigned due);

/* Opens session->outbox on the session's socket. Returns 0 or -ENOMEM with the error message set. */
int session_open_outbox(struct session *session);

/*
 * Has a message sent by the next sessions_send(), with a descriptor that stays the caller's (-1: none). A message that
 * the socket does not take then waits in the outbox. If the message can neither be sent nor wait, the session is
 * disconnected, and the caller is not told. Drops the message if the client has closed the socket: the hang-up is seen
 * when the socket is read. Sends nothing to a session that hung up or is disconnected. Never changes the registry.
 */
void session_send(struct session *session, const struct wire_message *message, int fd);

/*
 * Publishes what has changed, and then sends what session_send() was given since the last call. Called after each piece
 * of work: a packet of messages, a step of a task, what else a pass of the loop does. May disconnect sessions.
 */
void sessions_send(struct broker *broker);

/*
 * As sessions_send(), and notes what the packet in hand has changed, also if nothing is to be sent: what it changes in
 * the status file, the board and the orders is published by the end of the pass. Called before the next packet is
 * received.
 */
void sessions_commit(struct broker *broker);

/*
 * Returns 0 if the session may be sent so many messages with a descriptor now, or the error of outbox_check(). Also
 * returns 0 for a session that hung up or is disconnected, because nothing is sent to it.
 */
int session_check_descriptors(struct session *session, unsigned descriptors);

/* Drops the session's task, if there is one: it is done, or the client leaves or gets no answers any more. */
void session_drop_task(struct session *session);

/* Sends a DONE for the request, with a descriptor that stays the caller's (-1: none). */
void session_done(struct session *session, uint64_t request, int fd);

/* Sends a REFUSED with the error and its text, and counts the refusal by the error. */
void session_refuse(struct session *session, uint64_t request, int error, const char *text);

/*
 * Disconnects the client, and makes an event with the reason. Changes only the session itself, so that it may be called
 * in the middle of a change of the registry. The session's waiting requests are dropped later, when the loop serves the
 * session; until then they find the session in the state SESSION_DISCONNECTED.
 */
void session_disconnect(struct session *session, const char *reason);

/* Disconnects the client, because the session `by` asked for its eviction, and makes an event of the eviction. */
void session_evict(struct session *session, const struct session *by);

#endif
