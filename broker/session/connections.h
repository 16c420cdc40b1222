/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections.h - takes connections from the listening socket; those that cannot become sessions are refused (refusal.h).
 *
 * The listening socket is all users' together, and the kernel hands out its connections in the order in which they came:
 * so a bounded number is accepted in each pass whoever floods, which costs little, and what costs more is the session's,
 * in its user's share (session.h). Owns the timer that accepts again after descriptors ran out; the event
 * of the listening socket is made and freed by core/broker.c. Never waits.
 */
#ifndef GPUB_CONNECTIONS_H
#define GPUB_CONNECTIONS_H

#include <event2/event.h>

struct broker;

struct connections {
	struct event *listener;
	struct event *retry;
};

int connections_init(struct broker *broker);    /* -ENOMEM */
void connections_deinit(struct broker *broker); /* one that was never begun is fine */

/* The listening socket is readable: takes some of the connections that wait. */
void connections_accept(struct broker *broker, int listener);

#endif
