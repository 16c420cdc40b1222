/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - does the broker's work for sessions: begins them, reads their messages, discards what disconnected ones
 * send.
 *
 * Each user gets the same share of a pass (fair-queue.h). A session that has more to do when the share is used up waits
 * in its user's queue, with its messages unread in the socket, so only the sender is slowed down. Owns no state. Never
 * interprets a message: session_hooks do.
 */
#ifndef GPUB_SERVE_H
#define GPUB_SERVE_H

#include <stdbool.h>

struct broker;

/*
 * Begins a session on a connection, or lets it wait. reserved: a descriptor that is open to keep a place for the pidfd. -EDQUOT,
 * -ENOMEM: both descriptors are still the caller's.
 */
int session_accept(struct broker *broker, int fd, int reserved);

/* One pass over the fair queue. True: sessions still wait, and not for their user's rate alone. */
bool sessions_serve(struct broker *broker);

#endif
