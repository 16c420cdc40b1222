/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the HTTP side of broker-exporter: /metrics, made anew for each request, /-/healthy, and a page that names them.
 *
 * Runs in the loop of its caller, in one thread. Whoever can reach the port may be hostile, so what a client costs is bounded:
 * SERVER_CONNECTIONS at a time, of which the oldest ends for a new one; SERVER_SECONDS each from its first byte to its last; one
 * request a connection; SERVER_MEMORY bytes of what it sends. Reads status files alone, and never what a client sends but the method, the path and
 * what it accepts. Owns the listening socket, the connections and libmicrohttpd's daemon.
 */
#ifndef GPUB_EXPORTER_SERVER_H
#define GPUB_EXPORTER_SERVER_H

#include <event2/event.h>

#include "options.h"

#define SERVER_CONNECTIONS 32
#define SERVER_SECONDS     10
#define SERVER_MEMORY      16384 /* of a connection: its request and the head of its answer */

struct visit;

struct server {
	struct MHD_Daemon      *daemon;
	const struct metrics_wanted *wanted; /* the caller's */
	struct event           *ready, *later;
	struct visit           *visits; /* connections, oldest first */
	unsigned                visits_count;
	struct listen_address   listen; /* as it is: with the port that it got */
};

/* Negative errno with the error message. */
int server_open(struct server *server, struct event_base *base, const struct listen_address *listen,
		const struct metrics_wanted *wanted);
void server_close(struct server *server);

#endif
