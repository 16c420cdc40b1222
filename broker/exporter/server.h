/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the HTTP server of broker-exporter: /metrics, made anew for each request, /-/healthy, and an index page at
 * "/".
 *
 * Runs in the caller's event loop, in one thread. Every client may be hostile, so what clients cost is bounded: at most
 * SERVER_SILENT connections that have not sent their request and SERVER_ANSWERED that have; SERVER_SECONDS for each
 * connection from its start to its end; one request a connection; SERVER_MEMORY bytes of a connection's request and
 * answer head. Reads status files, and for them /proc and the user database, but no other files; of a request only the
 * method, the path and the header Accept. Owns the listening socket, the connections and libmicrohttpd's daemon.
 */
#ifndef GPUB_EXPORTER_SERVER_H
#define GPUB_EXPORTER_SERVER_H

#include <stdbool.h>

#include <event2/event.h>

#include "options.h"

#define SERVER_SILENT   256
#define SERVER_ANSWERED 32 /* fewer than SERVER_SILENT, because each connection has the text of an answer */
#define SERVER_SECONDS  10
#define SERVER_MEMORY   16384 /* bytes that each connection may use for its request and the head of its answer */

struct visit;

/*
 * A list of connections, the oldest first. A new connection beyond the limit ends the oldest: a scrape takes
 * milliseconds.
 */
struct visits {
	struct visit *first;
	unsigned      count;
	unsigned      most;  /* largest `count` */
};

struct server {
	struct MHD_Daemon           *daemon;
	const struct metrics_wanted *wanted; /* the brokers to show, owned by the caller */
	struct event                *ready;  /* event: libmicrohttpd's epoll descriptor can be read */
	struct event                *later;  /* timer: libmicrohttpd must run again though no descriptor is ready */
	struct visits                silent; /* connections that have not sent their request */
	struct visits                answered; /* connections that have sent their request */
	unsigned                     open;   /* number of connections, including those that are being ended */
	bool                         closed; /* the current or last run of libmicrohttpd has closed a connection */
	/* address that the server listens at, with the port that the kernel chose */
	struct listen_address        listen;
};

/*
 * Listens, and adds the server's events to base. wanted must outlive the server. Returns 0 or negative errno with the
 * error message.
 */
int server_open(struct server *server, struct event_base *base, const struct listen_address *listen,
		const struct metrics_wanted *wanted);
void server_close(struct server *server);

#endif
