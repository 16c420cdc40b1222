/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one client process, as the broker knows it: its socket, its identity, its key, its grants.
 *
 * Owns the session's fields and what is sent to the client. greeting.h begins a session, serve.h reads its messages and
 * session-end.h ends it. A client that breaks the protocol or never reads is disconnected: the broker discards what it
 * still sends, but the session keeps its grants until the process died, since the process may still have them mapped.
 * Never blocks; never waits for a client.
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
	SESSION_GREETING, /* the challenge is sent */
	SESSION_OPEN,
	SESSION_LEAVING,  /* the client sent LEAVE */
	SESSION_DISCONNECTED /* disconnected by the broker */
};

enum proof_state {
	PROOF_NONE,      /* not needed yet */
	PROOF_ASKING,    /* a device still lists the process */
	PROOF_IMPOSSIBLE /* no device can tell */
};

/* Whether the devices are done with a dead process. */
struct proof {
	bool             mps; /* the client said that it runs under MPS */
	enum proof_state state;
	unsigned         asked, pause_us;
	uint64_t         since_ms; /* milliseconds since 1970, of the death */
	struct event    *again; /* when the devices are asked next */
};

/* How a session answers the question what it waits for (request/inquiry.h). */
enum answer_state {
	ANSWER_NONE,  /* it was never asked */
	ANSWER_GIVEN,
	ANSWER_OWED,  /* it was asked, and has not answered */
	ANSWER_UNKNOWN /* its library does not know the question */
};

/* request/inquiry.c's: what the client was asked and said. Zeros to begin with. */
struct inquired {
	enum answer_state     answer;
	uint64_t              answered_ms; /* since 1970; 0: never */
	uint64_t              round;    /* in which it was asked last */
	bool                  listed;   /* it has mapped a buffer with a timeline: it is asked */
	bool                  counted;  /* the round waits for its answer */
	unsigned              messages; /* of the answer that is being received */
	bool                  partial;  /* its process waits for more than what it reported */
	struct reported_wait *waits;    /* what it reported */
	struct session      **asking;   /* it sent a REFRESH itself: the list of those that it is in; NULL: it did not */
	uint64_t              request;  /* that one */
	struct session       *prev, *next;               /* among those that are asked */
	struct session       *asking_prev, *asking_next; /* among those that sent a REFRESH */
};

#define RANK_NONE UINT32_MAX

/*
 * What a message began and is done in several passes, a step whenever the session's user has a share left and the socket takes more.
 * Meanwhile the session's socket is not read: a session has one at most.
 */
struct session_task {
	/* Does and counts some of it (fair_count). True: it is done, and the session has it no more. */
	bool (*step)(struct session *session);
	void (*drop)(struct session_task *task); /* frees it, done or not */
};

/* What is to be done for a session beside its messages: bits of session->due. It is done in this order, in the user's share. */
enum session_due {
	DUE_EXPIRY = 1,  /* the time of some of its requests is over */
	DUE_SILENCE = 2, /* it gets no more answers: its requests that wait end */
	DUE_END = 4      /* it has ended: what follows for others, except for its grants */
};

struct session {
	struct broker     *broker;
	uint64_t           id;
	enum session_state state;
	int                fd;              /* -1 after the client hung up */
	int                reserved;        /* keeps a place for the pidfd; -1 once the process was looked at */
	int                pidfd;           /* -1 until the process was looked at */
	struct event      *reading, *death; /* of fd, edge-triggered; of pidfd */
	bool               hung_up;
	bool               discarding; /* disconnected, and the consequences for others are done */
	unsigned           due;        /* enum session_due */
	bool               ends;       /* DUE_END has been due */
	bool               died;       /* it did not leave in order; valid once ends is true */
	struct identity    who;
	pid_t              pid;
	char               command[16]; /* from /proc/PID/comm, shown to people, */
	uint64_t           start;       /* and from /proc/PID/stat (process-start.h) */
	time_t             since;       /* it connected; shown to people */
	uint32_t           rank;        /* as the process says; RANK_NONE */
	bool               answers;     /* it understands INQUIRE */
	struct inquired    inquired;
	struct proof       proof;
	uint8_t            nonce[WIRE_NONCE_SIZE];
	uint8_t           *key; /* from sodium_malloc() */
	struct grants      grants;
	struct timelines   timelines;
	struct buffer     *ephemerals; /* buffers that end with the session */
	struct outbox      outbox;
	struct session_task *task; /* NULL: none */
	struct session_task leave; /* the task that its LEAVE is */
	uint64_t           leave_request; /* that LEAVE */
	struct charge      charge, greeting, descriptors;
	struct tracked     tracked;
	struct fair_entry  place; /* in the fair queue */
	UT_hash_handle     hh;    /* by id */
};

/* Implemented by the rooms above. */
struct session_hooks {
	/* Does what the message asks for. -EPROTO with the error message set: the message breaks the protocol. */
	int (*message)(struct session *session, const struct wire_message *message);
	/*
	 * Each does one piece of what is due (enum session_due), and returns what it took, in messages (fair-queue.h). 0: nothing was
	 * left to do.
	 */
	unsigned (*expire)(struct session *session);
	unsigned (*silence)(struct session *session);
	unsigned (*end)(struct session *session);
};

struct sessions {
	const struct session_hooks *hooks;
	struct session      *by_id;
	uint64_t             next_id;
	unsigned             arrived; /* sessions in that state */
	struct socket_packet packet;  /* the one that is being read */
	struct staged        staged;  /* answers to the messages of that packet */
};

/* As an event names it. */
#define SESSION_PARTY(which) \
	((struct event_party){ (which)->id, (uint32_t)(which)->pid, (which)->who.uid, (which)->command })

struct session *session_find(struct broker *broker, uint64_t id);

/* Whether the client was welcomed. Only then can it have anything. */
bool session_is_welcome(const struct session *session);

/* Whether it has grants that are not orphaned. */
bool session_maps(const struct session *session);

/* Whether the client closed its end of the socket. */
bool session_socket_is_closed(const struct session *session);

/* Puts the session into its user's queue. */
void session_wait(struct session *session);

/* Puts the session into its user's queue with more to do: bits of enum session_due. */
void session_owe(struct session *session, unsigned due);

/* -ENOMEM */
int session_open_outbox(struct session *session);

/*
 * Sends a message, with a descriptor that stays the caller's (-1: none). What the socket does not take now waits in the
 * outbox. If the outbox is full, or the message cannot be sent whole, the session is disconnected; that is no error
 * here. Never changes the registry.
 */
void session_send(struct session *session, const struct wire_message *message, int fd);

/* outbox_check(); 0 for one that is sent nothing any more. */
int session_check_descriptors(struct session *session, unsigned descriptors);

/* It is done, or its session gets no answer to it any more. */
void session_drop_task(struct session *session);

/* Answers that a request is done, with a descriptor that stays the caller's (-1: none). */
void session_done(struct session *session, uint64_t request, int fd);

/* Sends a REFUSED and counts it by its reason. */
void session_refuse(struct session *session, uint64_t request, int error, const char *text);

/*
 * Disconnects the client and logs the reason. Changes only the session itself, so it may be called in the middle of a
 * change of the registry. The loop's next step drops the requests that wait; until then they may find the session.
 */
void session_disconnect(struct session *session, const char *reason);

/* The same, because by, another session, wants it. */
void session_evict(struct session *session, const struct session *by);

#endif
