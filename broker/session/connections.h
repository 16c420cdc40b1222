/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections.h - takes connections from the listening socket, and refuses those that cannot become sessions.
 *
 * The listening socket is all users' together, and the kernel hands out its connections in the order in which they came:
 * so a bounded number is accepted in each pass whoever floods, which costs little, and what costs more is the session's,
 * in its user's share (session.h). Owns the timer that accepts again after descriptors ran out. Never waits.
 */
#ifndef GPUB_CONNECTIONS_H
#define GPUB_CONNECTIONS_H

#include <time.h>

#include <event2/event.h>

struct broker;

struct connections {
	struct event *retry;
	unsigned      refused; /* since the log was told */
	time_t        told;    /* seconds, CLOCK_MONOTONIC */
};

int connections_init(struct broker *broker);    /* -ENOMEM */
void connections_deinit(struct broker *broker); /* one that was never begun is fine */

/* The listening socket is readable: takes some of the connections that wait. */
void connections_accept(struct broker *broker, int listener);

/* Tells the peer the error, with error_text(), and the log once a second at most. The descriptor stays the caller's. */
void connection_refuse(struct broker *broker, int fd, int error);

#endif
