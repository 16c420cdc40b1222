/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one client process, as the broker knows it: its socket, its identity, its key, its grants.
 *
 * Owns the session from accept(2) to the end. Identity comes from the kernel: SO_PEERCRED and a pidfd, and
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
#include <uthash.h>

#include "accounting.h"
#include "common/wire.h"

struct broker;
struct grant;

enum session_state { SESSION_GREETING, SESSION_OPEN, SESSION_LEAVING, SESSION_CUT };

struct outgoing;

struct session {
	struct broker     *broker;
	uint64_t           id;
	enum session_state state;
	int                fd, pidfd; /* fd -1: hung up and closed */
	struct event      *reading, *writing, *death, *cutting;
	bool               hung_up, dead;
	uid_t              uid;
	gid_t              gid;
	pid_t              pid;
	char               command[16]; /* as of /proc/PID/comm, for people */
	/*
	 * It runs under MPS. Not built yet: after the unclean death of such a session its grants must be held until
	 * its MPS server is gone, for that server may still run its kernels. session_settle() ends them like others'.
	 */
	bool               mps;
	uint8_t            nonce[WIRE_NONCE_SIZE];
	uint8_t           *key; /* sodium_malloc'd */
	struct grant      *grants;
	struct outgoing   *out;
	unsigned           out_count;
	struct charge      charge;
	UT_hash_handle     hh; /* by id */
};

struct sessions {
	struct session *by_id;
	uint64_t        next_id;
	unsigned        greeting; /* connections that have not said HELLO */
	struct event   *retry;    /* takes up accepting again after descriptors ran out */
};

int sessions_init(struct broker *broker);
void sessions_deinit(struct broker *broker); /* before the registry's */

/* The listening socket is readable: takes the connections that wait. */
void sessions_accept(struct broker *broker, int listener);

struct session *session_find(struct broker *broker, uint64_t id);

/*
 * Queues a message, with a descriptor that stays the caller's (-1: none), and sends what the socket takes
 * now. A session whose queue is full, or that cannot be sent a message whole, is cut off; that is no error
 * here. Never changes the books.
 */
void session_send(struct session *session, const struct wire_message *message, int fd);

/* Sends a REFUSED and counts it by its reason. */
void session_refuse(struct session *session, uint64_t request, int error, const char *text);

/*
 * Stops listening to it, for a reason that is logged. Changes nothing but the session itself: what it waits
 * for is dropped later, so this may be called in the middle of the books. It may still be found until then.
 */
void session_cut(struct session *session, const char *reason);

#endif
