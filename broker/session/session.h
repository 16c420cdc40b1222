/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one client process, as the broker knows it: its socket, its identity, its key, its grants.
 *
 * Owns the session from accept(2) to the end. Whatever costs something, from the first look at the process to the end of its
 * grants, is done in its user's share of a pass (fair-queue.h). Identity comes from the kernel: SO_PEERCRED and a pidfd, and
 * a HELLO whose kernel-made credentials name the same, still living process. A session ends when its socket
 * hung up and it holds no grant, or when it died: **pidfd readable and socket hung up, both** (invariant 9).
 * A session that breaks the protocol or never reads is cut off: it is not heard any more, but what it may
 * have mapped stays granted until it died. Never blocks; never waits for a client.
 */
#ifndef GPUB_SESSION_H
#define GPUB_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>

#include "broker/users/accounting.h"
#include "fair-queue.h"
#include "common/wire.h"
#include "broker/users/identity.h"
#include "outbox.h"
#include "broker/registry/registry.h"
#include "proof.h"
#include "broker/registry/timeline.h"
#include "common/tables.h"

struct broker;

enum session_state { SESSION_ARRIVED, SESSION_GREETING, SESSION_OPEN, SESSION_LEAVING, SESSION_CUT };

struct session {
	struct broker     *broker;
	uint64_t           id;
	enum session_state state; /* ARRIVED: its user is known, and nothing more; it waits in the queue */
	int                fd, pidfd; /* fd -1: hung up and closed */
	struct event      *reading, *death, *cutting;
	bool               hung_up;
	bool               over; /* what its end means for others is done */
	struct identity    who;
	pid_t              pid;
	char               command[16]; /* as of /proc/PID/comm, for people */
	struct proof       proof;       /* that the devices are done with it, once it is dead */
	uint8_t            nonce[WIRE_NONCE_SIZE];
	uint8_t           *key; /* sodium_malloc'd */
	struct grants      grants;
	struct timelines   timelines;
	struct buffer     *ephemerals; /* that end with it */
	struct outbox      outbox;
	struct charge      charge, greeting, descriptors;
	struct tracked      tracked;
	struct fair_entry  place;   /* in the queue; ending: its grants end, some in a pass; then it is gone */
	UT_hash_handle     hh; /* by id */
};

/* What lies above the sessions. */
struct session_hooks {
	/* Does what the message asks for. -EPROTO with the error message set: such a message breaks the protocol. */
	int (*message)(struct session *session, const struct wire_message *message);
	/* Nobody is to be answered any more: drops what the session waits for. */
	void (*silent)(struct session *session);
	/* All that the session's end means for others, but its grants. died: it did not leave with all closed. */
	void (*end)(struct session *session, bool died);
};

struct sessions {
	const struct session_hooks *hooks;
	struct session *by_id;
	uint64_t        next_id;
	unsigned        arrived; /* of those, the ones in that state */
	struct socket_packet packet; /* that is being read */
	struct staged        staged; /* answers to the messages that are being handled */
};

void sessions_deinit(struct broker *broker); /* before the registry's */

/* Begins one, or has it wait in its user's queue. -EDQUOT, -ENOMEM: the descriptor is still the caller's. */
int session_accept(struct broker *broker, int fd);

/* It was welcomed, so that it may have, or have had, something. */
bool session_is_welcome(const struct session *session);

struct session *session_find(struct broker *broker, uint64_t id);

/*
 * A pass: does what there is to do for those that wait, each until there is no more or its user's share is used up. May end
 * some. True: some still wait, and not for tokens alone (fair-queue.h).
 */
bool sessions_serve(struct broker *broker);

/* Whether it has grants that are not held. */
bool session_maps(const struct session *session);

/* Its process is dead and its socket hung up: the devices are asked whether they are done with it, and then it ends. */
void session_prove(struct session *session);

/*
 * Queues a message, with a descriptor that stays the caller's (-1: none), and sends what the socket takes
 * now. A session whose queue is full, or that cannot be sent a message whole, is cut off; that is no error
 * here. Never changes the books.
 */
void session_send(struct session *session, const struct wire_message *message, int fd);

/* Answers that a request is done, with a descriptor that stays the caller's (-1: none). */
void session_done(struct session *session, uint64_t request, int fd);

/* Sends a REFUSED and counts it by its reason. */
void session_refuse(struct session *session, uint64_t request, int error, const char *text);

/*
 * Stops listening to it, for a reason that is logged. Changes nothing but the session itself: what it waits
 * for is dropped later, so this may be called in the middle of the books. It may still be found until then.
 */
void session_cut(struct session *session, const char *reason);

#endif
