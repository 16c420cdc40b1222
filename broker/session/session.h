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

struct broker;

enum session_state {
	SESSION_ARRIVED,  /* the connection is accepted and its user is known; it waits in the fair queue */
	SESSION_GREETING, /* the challenge is sent; the client has not answered it */
	SESSION_OPEN,     /* the client was welcomed */
	SESSION_LEAVING,  /* the client sent LEAVE */
	SESSION_DISCONNECTED /* disconnected by the broker */
};

enum proof_state {
	PROOF_NONE,      /* no device was asked yet: the process lives, or a copy of its socket is open */
	PROOF_ASKING,    /* the devices are being asked, until none lists the dead process */
	PROOF_IMPOSSIBLE /* the devices cannot be asked, or cannot tell */
};

/* Whether the devices are done with a dead process. */
struct proof {
	bool             mps; /* the client said that it runs under MPS */
	enum proof_state state;
	unsigned         asked;    /* number of questions that have not proved the death */
	unsigned         pause_us; /* before the next question, in microseconds */
	uint64_t         since_ms; /* time of the first question, in milliseconds since 1970 */
	struct event    *again;    /* timer for the next question */
};

/* State of the question what the client waits for (request/inquiry.h). */
enum answer_state {
	ANSWER_NONE,   /* the session was never asked */
	ANSWER_GIVEN,  /* the session has answered the last INQUIRE */
	ANSWER_OWED,   /* the session was sent an INQUIRE and has not answered */
	ANSWER_UNKNOWN /* the session's library does not know INQUIRE */
};

/* What the client was asked and what it reported. request/inquiry.c's. Zero it to begin with. */
struct inquired {
	enum answer_state     answer;
	uint64_t              answered_ms; /* time of the last answer, in milliseconds since 1970; 0: none yet */
	uint64_t              round;    /* number of the last round in which the session was asked */
	bool                  listed;   /* the session is in inquiry->sessions, to be asked in each round */
	bool                  counted;  /* inquiry->awaited counts the answer of this session */
	unsigned              messages; /* WAITS messages received so far of an answer that has more */
	bool                  partial;  /* the process waits for more than the list waits has */
	struct reported_wait *waits;    /* the waits that the process reported */
	struct session      **asking;   /* the list of REFRESH senders that the session is in; NULL: in none */
	uint64_t              request;  /* the session's unanswered REFRESH; valid while asking is not NULL */
	struct session       *prev, *next;               /* in inquiry->sessions */
	struct session       *asking_prev, *asking_next; /* in *asking */
};

#define RANK_NONE UINT32_MAX

/*
 * Work for one message that takes several passes of the loop. A step of the task is done whenever the session's user
 * has a share left and the socket has room. Until the task is done, the session's socket is not read, so a session has
 * one task at most.
 */
struct session_task {
	/* Does some of the work and counts its cost (fair_count). Returns true when the task is done. */
	bool (*step)(struct session *session);
	void (*drop)(struct session_task *task); /* frees the task, done or not */
};

/* Bits of session->due: work that no message asks for. The lowest bit is done first, in the user's share. */
enum session_due {
	DUE_EXPIRY = 1,  /* refuse the waiting requests whose time is over */
	DUE_SILENCE = 2, /* drop the waiting requests, because the client gets no more answers */
	DUE_END = 4      /* the session has ended: end its timelines, unlink its ephemeral buffers */
};

struct session {
	struct broker     *broker;
	uint64_t           id;
	enum session_state state;
	int                fd;              /* the socket; -1 after the client hung up */
	int                reserved;        /* kept open to reserve a descriptor for pidfd; -1 once it is closed */
	int                pidfd;           /* of the process; -1 until the process was identified */
	struct event      *reading;         /* fd is readable (edge-triggered), or the greeting's time is over */
	struct event      *death;           /* pidfd is readable */
	bool               opened;     /* the client was welcomed, and counters.sessions_opened counts the session */
	bool               hung_up;    /* the client has closed its end of the socket */
	bool               discarding; /* the session is disconnected, and what the client sends is discarded */
	unsigned           due;        /* bits of enum session_due: work that is left to do */
	bool               ends;       /* DUE_END was set once; it is not set again */
	bool               died;       /* the session did not end by LEAVE; valid while ends is true */
	struct identity    who;
	pid_t              pid;
	char               command[16]; /* from /proc/PID/comm, shown to people */
	uint64_t           start;       /* start time of the process, from /proc/PID/stat (process-start.h) */
	time_t             since;       /* time of the connection, shown to people */
	uint32_t           rank;        /* rank of the process, as its HELLO says; or RANK_NONE */
	bool               answers;     /* the client understands INQUIRE */
	struct inquired    inquired;
	struct proof       proof;
	uint8_t            nonce[WIRE_NONCE_SIZE]; /* sent in the challenge, expected in the HELLO */
	uint8_t           *key; /* seals the session's handles; from sodium_malloc() */
	struct session_mappings mappings;
	struct timelines   timelines;
	struct buffer     *ephemerals; /* buffers that end with the session */
	struct outbox      outbox;
	struct session_task *task;     /* the task that is under way; NULL: none */
	struct session_task leave;     /* the task of a LEAVE; task points to it then */
	uint64_t           leave_request; /* number of the LEAVE request */
	struct charge      charge;      /* for the session, from its welcome on */
	struct charge      greeting;    /* for the connection, until its welcome */
	struct charge      descriptors; /* for the socket and the pidfd */
	struct tracked     tracked;
	struct fair_entry  place; /* in the fair queue */
	UT_hash_handle     hh;    /* in sessions->by_id */
};

/* Implemented by broker/request/. */
struct session_hooks {
	/* Does what the message asks for. -EPROTO with the error message set: the message breaks the protocol. */
	int (*message)(struct session *session, const struct wire_message *message);
	/* Each does one piece of the work of its bit of enum session_due. Returns its cost; 0: no work was left. */
	unsigned (*expire)(struct session *session);
	unsigned (*silence)(struct session *session);
	unsigned (*end)(struct session *session);
};

struct sessions {
	const struct session_hooks *hooks;
	struct session      *by_id;   /* all sessions */
	uint64_t             next_id; /* id of the session that began last */
	unsigned             arrived; /* number of sessions in the state SESSION_ARRIVED */
	struct socket_packet packet;  /* buffer for the packet that is being read, of any session */
	struct staged        staged;  /* answers to the messages of one packet, or of one step of a task */
};

/* The session in the form in which a broker_event names a party. */
#define SESSION_PARTY(which) \
	((struct event_party){ (which)->id, (uint32_t)(which)->pid, (which)->who.uid, (which)->command })

/* Returns the session with that id, or NULL. */
struct session *session_find(struct broker *broker, uint64_t id);

/*
 * Whether the client was welcomed, or was disconnected by the broker before that. A session has no mappings, timelines
 * or requests before its welcome.
 */
bool session_is_welcome(const struct session *session);

/* Whether the session has a mapping that is not orphaned. */
bool session_maps(const struct session *session);

/* Whether the client closed its end of the socket. */
bool session_socket_is_closed(const struct session *session);

/* Puts the session into its user's queue, to be served in a later pass of the loop. */
void session_wait(struct session *session);

/* Adds bits of enum session_due to session->due, and puts the session into its user's queue as urgent. */
void session_owe(struct session *session, unsigned due);

/* Opens session->outbox on the session's socket. -ENOMEM */
int session_open_outbox(struct session *session);

/*
 * Sends a message, with a descriptor that stays the caller's (-1: none). A message that the socket does not take now
 * waits in the outbox. If the outbox is full, or the message cannot be sent whole, the session is disconnected, and the
 * caller is not told. Sends nothing to a session that hung up or is disconnected. Never changes the registry.
 */
void session_send(struct session *session, const struct wire_message *message, int fd);

/*
 * Whether the session may be sent that many messages with a descriptor now: outbox_check(). Returns 0 for a session
 * that hung up or is disconnected, because nothing is sent to it.
 */
int session_check_descriptors(struct session *session, unsigned descriptors);

/* Frees the session's task, if there is one: the task is done, or the client gets no answers any more. */
void session_drop_task(struct session *session);

/* Sends a DONE for the request, with a descriptor that stays the caller's (-1: none). */
void session_done(struct session *session, uint64_t request, int fd);

/* Sends a REFUSED with the error and its text, and counts the refusal by the error. */
void session_refuse(struct session *session, uint64_t request, int error, const char *text);

/*
 * Disconnects the client and logs the reason. Changes only the session itself, so that it may be called in the middle
 * of a change of the registry. The session's waiting requests are dropped later, when the loop serves the session, and
 * find it with the state SESSION_DISCONNECTED until then.
 */
void session_disconnect(struct session *session, const char *reason);

/* Disconnects the client, because the session `by` asked for the eviction, and makes an event of it. */
void session_evict(struct session *session, const struct session *by);

#endif
