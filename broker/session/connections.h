/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections.h - accepts connections from the listening socket, and refuses those that cannot become sessions.
 *
 * All users share the listening socket, and the kernel hands out its connections in their order. So only a few are
 * accepted in each pass, which costs little. The costly part of a connection is done in its user's share (greeting.h).
 * A connection is accepted when all descriptors are free that its session needs; until then it waits in the listening socket.
 * Owns the timer that accepts again after the descriptors ran out, and the reserved descriptor. core/broker.c makes and frees
 * the event of the listening socket. Never waits.
 */
#ifndef GPUB_CONNECTIONS_H
#define GPUB_CONNECTIONS_H

#include <event2/event.h>

struct broker;

struct connections {
	struct event *listener;
	struct event *retry;
	int           reserved; /* a descriptor, open for the pidfd of the next session; -1 */
};

int connections_init(struct broker *broker);    /* -ENOMEM */
void connections_deinit(struct broker *broker); /* also one that was not initialised */

/* The listening socket is readable: accepts some of the connections that wait. */
void connections_accept(struct broker *broker, int listener);

#endif
