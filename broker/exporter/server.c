/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - see server.h */
#include "server.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>
#include <utlist.h>

#include "broker/base/log.h"
#include "broker/show/openmetrics.h"
#include "common/error.h"
#include "common/now.h"

#define OPENMETRICS_TYPE "application/openmetrics-text"
#define PLAIN            "text/plain; charset=utf-8"
/* number of connections that may be ended and not closed yet; libmicrohttpd accepts some 10 in a run */
#define ENDING           64U
#define NO_CONNECTIONS   32U /* number of descriptors that are no connections: the loop's, the log's, a status file's */
#define SILENT_LEAST     8U  /* smallest limit of silent connections */

static const char index_page[] = "broker-exporter (" PACKAGE_NAME ") " PACKAGE_VERSION "\n"
				 "/metrics    what the brokers of this machine hold\n"
				 "/-/healthy  whether this program serves\n";

/* ---- connections, and how long they last ---- */

/* One connection of a client. */
struct visit {
	int            fd;    /* the connection's descriptor; libmicrohttpd owns it */
	time_t         began; /* when the connection began, in seconds of CLOCK_MONOTONIC */
	struct visits *in;    /* the list that the connection is in; NULL: the connection is being ended */
	struct visit  *prev, *next;
};

static void visit_leave(struct visit *visit)
{
	if (!visit->in)
		return;
	DL_DELETE(visit->in->first, visit);
	visit->in->count--;
	visit->in = NULL;
}

/* Shuts a connection down: libmicrohttpd closes it in its next run. */
static void visit_end(struct visit *visit)
{
	visit_leave(visit);
	shutdown(visit->fd, SHUT_RDWR);
}

static void visit_enter(struct visits *visits, struct visit *visit)
{
	if (visits->count == visits->most)
		visit_end(visits->first);
	DL_APPEND(visits->first, visit);
	visits->count++;
	visit->in = visits;
}

static void visit_begin(struct server *server, struct MHD_Connection *connection, struct visit **place)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct visit *visit = info ? malloc(sizeof *visit) : NULL;

	*place = visit;
	if (!visit) { /* without a visit the connection could not be ended after SERVER_SECONDS */
		if (info)
			shutdown(info->connect_fd, SHUT_RDWR);
		return;
	}
	visit->fd = info->connect_fd;
	visit->began = (time_t)(now_ms(CLOCK_MONOTONIC) / 1000);
	visit_enter(&server->silent, visit);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **place,
			  enum MHD_ConnectionNotificationCode code)
{
	struct server *server = context;
	struct visit *visit = *place;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		server->open++;
		visit_begin(server, connection, (struct visit **)place);
		return;
	}
	server->open--;
	server->closed = true;
	if (visit)
		visit_leave(visit);
	free(visit);
}

/*
 * Called when a connection has sent its request: moves it to server->answered, so that new silent connections do not
 * end it.
 */
static void visit_asked(struct server *server, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct visit *visit = info ? info->socket_context : NULL;

	if (!visit || visit->in != &server->silent)
		return;
	visit_leave(visit);
	visit_enter(&server->answered, visit);
}

/* Ends connections older than SERVER_SECONDS. libmicrohttpd's own limit begins anew with each byte. */
static void end_late_visits(struct visits *visits)
{
	time_t now = (time_t)(now_ms(CLOCK_MONOTONIC) / 1000);

	while (visits->first && now - visits->first->began >= SERVER_SECONDS)
		visit_end(visits->first);
}

/* ---- answers ---- */

/* Queues a response, and has the connection closed after it, because open connections would keep other clients out. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
			      struct MHD_Response *response)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
	return answer(connection, status, PLAIN,
		      MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result answer_failure(struct MHD_Connection *connection)
{
	log_line("%s", error_text());
	return answer_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "the status cannot be read: the log says why\n");
}

/* Writes the metrics to *text, which the caller frees. Returns 0, -ENOMEM, or the error of metrics_write(). */
static int metrics_make(const struct server *server, enum metrics_format format, char **text, size_t *size)
{
	FILE *to = open_memstream(text, size);
	int error = to ? metrics_write(to, format, server->wanted) : error_set(-ENOMEM, "out of memory");

	if (to && fclose(to) && !error)
		error = error_set(-ENOMEM, "out of memory");
	if (to && error)
		free(*text);
	return error;
}

static enum MHD_Result answer_metrics(const struct server *server, struct MHD_Connection *connection)
{
	const char *accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	bool openmetrics = accepted && strstr(accepted, OPENMETRICS_TYPE);
	struct MHD_Response *response;
	char *text;
	size_t size;

	if (metrics_make(server, openmetrics ? METRICS_OPENMETRICS : METRICS_PROMETHEUS, &text, &size))
		return answer_failure(connection);
	response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(text);
	return answer(connection, MHD_HTTP_OK,
		      openmetrics ? OPENMETRICS_TYPE "; version=1.0.0; charset=utf-8" :
				    "text/plain; version=0.0.4; charset=utf-8",
		      response);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *data, size_t *size,
				  void **request)
{
	(void)version;
	(void)data;
	(void)size;
	(void)request;
	visit_asked(context, connection);
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
	if (!strcmp(path, "/metrics"))
		return answer_metrics(context, connection);
	if (!strcmp(path, "/-/healthy"))
		return answer_text(connection, MHD_HTTP_OK, "healthy\n");
	if (!strcmp(path, "/"))
		return answer_text(connection, MHD_HTTP_OK, index_page);
	return answer_text(connection, MHD_HTTP_NOT_FOUND, "there is nothing here: the metrics are at /metrics\n");
}

/* ---- the loop ---- */

/* Sets the timer for libmicrohttpd's next run, while there are connections, or if the last run closed one. */
static void expect(struct server *server)
{
	MHD_UNSIGNED_LONG_LONG ms = 1000;
	struct timeval pause;

	if (!server->open && !server->closed)
		return;
	if (MHD_get_timeout(server->daemon, &ms) == MHD_NO || ms > 1000)
		ms = 1000;
	/* at its limit, libmicrohttpd accepts again only in the run after the one that closes a connection */
	if (server->closed)
		ms = 0;
	pause = (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	event_add(server->later, &pause);
}

static void on_ready(evutil_socket_t fd, short what, void *argument)
{
	struct server *server = argument;

	(void)fd;
	(void)what;
	end_late_visits(&server->silent);
	end_late_visits(&server->answered);
	server->closed = false;
	MHD_run(server->daemon);
	expect(server);
}

static int events_begin(struct server *server, struct event_base *base)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	if (!info)
		return -ENOSYS;
	server->ready = event_new(base, info->epoll_fd, EV_READ | EV_PERSIST, on_ready, server);
	server->later = evtimer_new(base, on_ready, server);
	return server->ready && server->later && !event_add(server->ready, NULL) ? 0 : -ENOMEM;
}

/* ---- opening and closing ---- */

static int listener_open(struct listen_address *at)
{
	char text[LISTEN_TEXT_MAX];
	int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, error;

	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
	    !bind(fd, (const struct sockaddr *)&at->address, at->length) && !listen(fd, SOMAXCONN) &&
	    !getsockname(fd, (struct sockaddr *)&at->address, &at->length))
		return fd;
	error = error_set(-errno, "nobody can listen at %s: %m; choose another ADDRESS:PORT with --listen",
			  listen_format(at, text));
	if (fd >= 0)
		close(fd);
	return error;
}

/* Returns the limit of silent connections: SERVER_SILENT, or less if RLIMIT_NOFILE has no room for so many. */
static unsigned silent_most(void)
{
	const rlim_t others = SERVER_ANSWERED + ENDING + NO_CONNECTIONS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= SERVER_SILENT + others)
		return SERVER_SILENT;
	return limit.rlim_cur > others + SILENT_LEAST ? (unsigned)(limit.rlim_cur - others) : SILENT_LEAST;
}

int server_open(struct server *server, struct event_base *base, const struct listen_address *listen,
		const struct metrics_wanted *wanted)
{
	int fd, error;

	*server = (struct server){ .wanted = wanted,
				   .listen = *listen,
				   .silent.most = silent_most(),
				   .answered.most = SERVER_ANSWERED };
	fd = listener_open(&server->listen);
	if (fd < 0)
		return fd;
	server->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET,
					  fd, MHD_OPTION_CONNECTION_LIMIT, SERVER_SILENT + SERVER_ANSWERED + ENDING,
					  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_SECONDS,
					  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_MEMORY,
					  MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
	if (!server->daemon) {
		close(fd);
		return error_set(-ENOMEM, "libmicrohttpd does not start");
	}
	error = events_begin(server, base);
	if (!error)
		return 0;
	server_close(server);
	return error_set(error, "libmicrohttpd cannot be waited for: %s", strerror(-error));
}

void server_close(struct server *server)
{
	if (server->ready)
		event_free(server->ready);
	if (server->later)
		event_free(server->later);
	MHD_stop_daemon(server->daemon);
}
