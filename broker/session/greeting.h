/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greeting.h - turns a connection into a session: identifies the client, sends a challenge, checks the answer.
 *
 * Identity comes from the kernel: SO_PEERCRED, a pidfd, and a HELLO whose kernel-made credentials name the process that
 * connected, which must still live. Identifying a process costs time, so it is done in the user's share of a pass. Owns
 * the session until the session is welcomed or rejected. Never reads the socket.
 */
#ifndef GPUB_GREETING_H
#define GPUB_GREETING_H

#include <event2/event.h>

struct broker;
struct session;
struct socket_extra;
struct wire_message;

/*
 * Makes a session of which only the user is known, and charges this user for the connection. Takes over fd and reserved
 * (connections.h), which keeps a descriptor for the pidfd. On failure returns NULL, with *error set to -EDQUOT, -ENOMEM
 * or the error of identity_user(), and both descriptors stay the caller's.
 */
struct session *greeting_arrive(struct broker *broker, int fd, int reserved, int *error);

/*
 * Identifies the process and sends the challenge. If the session's user has no share or no token left, puts the session
 * into the fair queue instead. Frees the session if the client has hung up, and rejects the client on an error. ready:
 * the callback for a readable socket and for the end of the greeting's time limit.
 */
void greeting_begin(struct session *session, event_callback_fn ready);

/*
 * Derives session->key from the master key and session->id, which no other session that is welcomed ever gets. Returns
 * 0, or -ENOMEM with the error message set.
 */
int session_make_key(struct session *session);

/*
 * Adds the session's events and opens its outbox. ready: called when the socket can be read. The reading event can be
 * edge-triggered, because the reader stops only when the socket is empty, or when something else serves the session
 * again: the fair queue, on_room() for a task, or the timer of discard_later(). A session whose client has hung up gets
 * the event of its process's death alone. Returns 0, or -ENOMEM with the error message set.
 */
int session_watch(struct session *session, event_callback_fn ready);

/* Starts the time limit of the greeting, or starts it again. Returns 0, or -ENOMEM with the error message set. */
int greeting_expect(struct session *session);

/*
 * Checks a client's HELLO and welcomes the client. Returns 0, or a negative errno with the error message set: the
 * caller then rejects the client with it.
 */
int greeting_take(struct session *session, const struct wire_message *message, const struct socket_extra *extra);

/* Rejects a client that sent no greeting within the time limit. */
void greeting_late(struct session *session);

/*
 * Sends the client of a session without mappings a REFUSED with the error and error_text(), makes an event of it, and
 * frees the session.
 */
void greeting_reject(struct session *session, int error);

/*
 * Sends a REFUSED with the error and error_text() to the connection fd, which stays the caller's, and makes an event of
 * it.
 */
void connection_refuse(struct broker *broker, int fd, int error);

#endif
