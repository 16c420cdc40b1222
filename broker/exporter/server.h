/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the HTTP side of broker-exporter: /metrics, made anew for each request, /-/healthy, and a page that names
 * them.
 *
 * Runs in the loop of its caller, in one thread. Whoever can reach the port may be hostile, so what a client costs is
 * bounded: SERVER_SILENT connections that have not sent their request and SERVER_ANSWERED that have; SERVER_SECONDS
 * for each, from its first byte to its last; one request a connection; SERVER_MEMORY bytes of what it sends. Reads
 * status files alone, and never what a client sends but the method, the path and what it accepts. Owns the listening
 * socket, the connections and libmicrohttpd's daemon.
 */
#ifndef GPUB_EXPORTER_SERVER_H
#define GPUB_EXPORTER_SERVER_H

#include <stdbool.h>

#include <event2/event.h>

#include "options.h"

#define SERVER_SILENT   256
#define SERVER_ANSWERED 32 /* fewer: each of them has the text of an answer */
#define SERVER_SECONDS  10
#define SERVER_MEMORY   16384 /* of a connection: its request and the head of its answer */

struct visit;

/* Connections of one kind, oldest first. When there are too many, the oldest is ended: a scrape takes milliseconds. */
struct visits {
	struct visit *first;
	unsigned      count;
	unsigned      most;
};

struct server {
	struct MHD_Daemon           *daemon;
	const struct metrics_wanted *wanted; /* the caller's */
	struct event                *ready, *later;
	struct visits                silent, answered;
	unsigned                     open;   /* connections, those that are being ended included */
	bool                         closed; /* a connection closed in this pass */
	struct listen_address        listen; /* with the port that the kernel chose */
};

/* Negative errno with the error message. */
int server_open(struct server *server, struct event_base *base, const struct listen_address *listen,
		const struct metrics_wanted *wanted);
void server_close(struct server *server);

#endif
