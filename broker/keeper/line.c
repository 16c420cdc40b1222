/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - see line.h */
#include "line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/owner/packet.h"
#include "common/error.h"

#define PAUSE_MS 1 /* before another attempt where the socket has room and the kernel none, of which no event tells */

struct line_queued {
	struct line_request request;
	int                 fd; /* -1: none */
	struct line_queued *prev, *next;
};

static int no_keeper(void)
{
	return error_set(-ECONNRESET, "the keeper of this broker has ended");
}

static int no_memory(void)
{
	return error_set(-ENOMEM, "the broker is out of memory");
}

/* ---- the queue ---- */

static void queued_drop(struct line *line, struct line_queued *queued)
{
	DL_DELETE(line->queue, queued);
	if (queued->fd >= 0)
		close(queued->fd);
	free(queued);
}

/* Sends what the socket has room for. Returns 0 if the queue is empty; -EAGAIN or -ECONNRESET. */
static int queue_send(struct line *line)
{
	struct line_queued *first;
	int error;

	while ((first = line->queue)) {
		error = packet_send(line->sock, &first->request, sizeof first->request, first->fd, MSG_DONTWAIT);
		if (error)
			return error;
		queued_drop(line, first);
	}
	return 0;
}

/* Whether the socket has room. Waits for that up to ms milliseconds; -1: without a limit. */
static bool has_room(const struct line *line, int ms)
{
	return poll(&(struct pollfd){ .fd = line->sock, .events = POLLOUT }, 1, ms) == 1;
}

/* Has the queue sent later. Returns 0 or -ENOMEM. */
static int send_later(const struct line *line)
{
	static const struct timeval pause = { .tv_usec = PAUSE_MS * 1000 };
	int error = has_room(line, 0) ? event_add(line->pause, &pause) : event_add(line->writable, NULL);

	return error ? no_memory() : 0;
}

static void on_room(evutil_socket_t fd, short what, void *argument)
{
	struct line *line = argument;

	(void)fd;
	(void)what;
	if (queue_send(line) == -EAGAIN)
		(void)send_later(line); /* the next request, or line_flush_wait(), tries again */
}

/* Queues a request with a duplicate of its descriptor. */
static int queue_add(struct line *line, const struct line_request *request, int fd)
{
	struct line_queued *queued = calloc(1, sizeof *queued);
	int error = 0;

	if (!queued)
		return no_memory();
	queued->request = *request;
	queued->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (queued->fd < 0 && fd >= 0)
		error = error_set(-errno, "a descriptor cannot be queued for the keeper: %m");
	else
		error = send_later(line);
	if (!error) {
		DL_APPEND(line->queue, queued);
		return 0;
	}
	if (queued->fd >= 0)
		close(queued->fd);
	free(queued);
	return error;
}

/* ---- the broker's side ---- */

int line_open(struct line *line, struct event_base *base, int sock)
{
	*line = (struct line){ .sock = sock };
	fcntl(sock, F_SETFL, O_NONBLOCK);
	line->writable = event_new(base, sock, EV_WRITE, on_room, line);
	line->pause = evtimer_new(base, on_room, line);
	if (line->writable && line->pause)
		return 0;
	line_close(line);
	return no_memory();
}

void line_close(struct line *line)
{
	struct line_queued *queued, *next;

	if (line->sock < 0)
		return;
	DL_FOREACH_SAFE(line->queue, queued, next)
		queued_drop(line, queued);
	if (line->writable)
		event_free(line->writable);
	if (line->pause)
		event_free(line->pause);
	close(line->sock);
	*line = (struct line){ .sock = -1 };
}

static int ask(struct line *line, enum line_kind kind, uint64_t key, int fd)
{
	const struct line_request request = { .kind = kind, .key = key };
	int error = queue_send(line);

	if (!error)
		error = packet_send(line->sock, &request, sizeof request, fd, MSG_DONTWAIT);
	if (error == -EAGAIN)
		return queue_add(line, &request, fd);
	return error ? no_keeper() : 0;
}

int line_put(struct line *line, uint64_t key, int fd)
{
	return ask(line, LINE_PUT, key, fd);
}

int line_drop(struct line *line, uint64_t key)
{
	return ask(line, LINE_DROP, key, -1);
}

int line_ready(struct line *line)
{
	return ask(line, LINE_READY, 0, -1);
}

int line_begin(struct line *line, int sock)
{
	return ask(line, LINE_BEGIN, 0, sock);
}

int line_kill(struct line *line)
{
	return ask(line, LINE_KILL, 0, -1);
}

int line_say_alive(int sock)
{
	const struct line_request request = { .kind = LINE_ALIVE };

	return packet_send(sock, &request, sizeof request, -1, 0);
}

int line_flush_wait(struct line *line)
{
	int error;

	while ((error = queue_send(line)) == -EAGAIN)
		if (has_room(line, 0))
			poll(NULL, 0, PAUSE_MS);
		else
			(void)has_room(line, -1);
	return error ? no_keeper() : 0;
}

int line_owner_ended(struct line *line, int *status)
{
	int error, told, fd;

	error = packet_receive(line->sock, &told, sizeof told, &fd, MSG_DONTWAIT);
	if (!error)
		*status = told;
	return error && error != -EAGAIN ? no_keeper() : error;
}

/* ---- the keeper's side ---- */

/* Whether the packet is a request, with its descriptor if there has to be one. */
static bool is_request(const struct line_request *request, int fd)
{
	bool carries = request->kind == LINE_PUT || request->kind == LINE_BEGIN;
	bool has_key = request->kind == LINE_PUT || request->kind == LINE_DROP;

	return request->kind < LINE_KINDS && carries == (fd != -1) && (has_key || !request->key);
}

int line_receive(int sock, struct line_request *request, int *fd)
{
	struct line_request received;
	int error, extra;

	error = packet_receive(sock, &received, sizeof received, &extra, MSG_DONTWAIT);
	if (error)
		return error;
	if (!is_request(&received, extra)) {
		if (extra >= 0)
			close(extra);
		return -EPROTO;
	}
	*request = received;
	*fd = extra;
	return 0;
}

int line_tell(int sock, int status)
{
	return packet_send(sock, &status, sizeof status, -1, MSG_DONTWAIT);
}
