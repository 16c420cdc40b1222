/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greeting.h - turns a connection into a session: who connected, the challenge, and the answer to it.
 *
 * Identity comes from the kernel: SO_PEERCRED and a pidfd, and a HELLO whose kernel-made credentials name the same
 * process, which still lives. Looking at the process costs time, so it is done in its user's share of a pass. Owns the
 * session until it is welcomed or rejected. Refuses what does not become a session. Never reads the socket.
 */
#ifndef GPUB_GREETING_H
#define GPUB_GREETING_H

#include <event2/event.h>

struct broker;
struct session;
struct socket_extra;
struct wire_message;

/*
 * Makes a session that knows only its user, and charges that user for it. reserved: a descriptor that is open to keep a place for
 * the pidfd. NULL with *error set to -EDQUOT or -ENOMEM: both descriptors are still the caller's.
 */
struct session *greeting_arrive(struct broker *broker, int fd, int reserved, int *error);

/*
 * Identifies the process and sends the challenge, or puts the session into the queue. ready: called when the socket can
 * be read or the time for the greeting is over. May free the session.
 */
void greeting_begin(struct session *session, event_callback_fn ready);

/* The time for the greeting begins, anew if it ran already. */
void greeting_expect(struct session *session);

/* Checks the answer to the challenge and welcomes the client. Otherwise returns the error with which to reject it. */
int greeting_take(struct session *session, const struct wire_message *message, const struct socket_extra *extra);

/* No greeting came in time: rejects the client. */
void greeting_late(struct session *session);

/* Refuses the connection and frees the session at once: it has nothing that could outlive it. */
void greeting_reject(struct session *session, int error);

/*
 * Sends the client the error with error_text(). The log gets at most one line a second, with a count: a refused client
 * may come back as often as it likes. The descriptor stays the caller's.
 */
void connection_refuse(struct broker *broker, int fd, int error);

#endif
