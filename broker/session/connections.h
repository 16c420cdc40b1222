/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections.h - accepts connections from the listening socket, and refuses those that cannot become sessions.
 *
 * All users share the listening socket, and the kernel returns its connections in the order in which they came. So only
 * a few connections are accepted in each pass of the loop, which costs little. The costly part of a connection is done
 * in its user's share (greeting.h). A connection is accepted only when the broker has all descriptors that its session
 * needs; until then the connection stays in the listening socket. Owns the timer that ends a pause of accepting, and
 * the reserved descriptor. core/broker.c makes and frees the event of the listening socket. Never waits.
 */
#ifndef GPUB_CONNECTIONS_H
#define GPUB_CONNECTIONS_H

#include <stdbool.h>

#include <event2/event.h>

struct broker;

struct connections {
	struct event *listener; /* event: the listening socket is readable; core/broker.c makes and frees it */
	struct event *retry;    /* timer that ends a pause of accepting */
	/* a descriptor that is kept open so that the next session's pidfd will have one; -1: none */
	int           reserved;
};

int connections_init(struct broker *broker);    /* returns 0 or -ENOMEM */
void connections_deinit(struct broker *broker); /* does nothing if connections_init() was not called */

/* Accepts a few of the connections that wait in the listening socket. Returns false if it accepts none. */
bool connections_accept(struct broker *broker, int listener);

#endif
