/* SPDX-License-Identifier: Apache-2.0 */
/* joined.c - see joined.h */
#include "joined.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/log.h"
#include "broker/users/identity.h"
#include "common/error.h"
#include "common/socket.h"
#include "common/status-file.h"

#define LOOK_MS 500 /* between two checks of the socket's path */

struct joined_worker {
	struct joined *joined;
	unsigned       rank;
	int            sock;   /* connection of a joiner that waits for its answer; -1: no joiner waits */
	int            pidfd;  /* pidfd of the joiner; -1: the joiner has not joined, or has ended */
	pid_t          pid;
	bool           missed; /* the joiner has ended, did not join in time, or was refused after a failure */
	struct event  *death;  /* event: pidfd can be read, so the joiner has ended */
};

/* A connection that has not sent its request. */
struct arrival {
	struct joined *joined;
	int            sock;
	struct event  *event;
	struct arrival *prev, *next;
};

/* ---- answers ---- */

static void answer_send(int sock, int error, const char *text, size_t used)
{
	static struct join_answer answer;

	memset(&answer, 0, sizeof answer);
	answer.magic = JOIN_MAGIC;
	answer.error = error;
	answer.used = (uint32_t)(used < JOIN_TEXT_MAX ? used : JOIN_TEXT_MAX);
	memcpy(answer.text, text, answer.used);
	if (answer.used)
		answer.text[answer.used - 1] = 0;
	send(sock, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(sock);
}

/* Answers a worker that may not join, with the reason, and closes its socket. */
static void worker_refuse(int sock, const char *text)
{
	answer_send(sock, -EPROTO, text, strlen(text) + 1);
}

static void worker_release(struct joined_worker *worker)
{
	struct joined *joined = worker->joined;
	char text[JOIN_TEXT_MAX];
	size_t used;
	int sock = worker->sock;

	worker->sock = -1;
	if (joined->place(joined->context, worker->rank, worker->pid)) {
		worker_refuse(sock, error_text());
		return;
	}
	used = children_environment(joined->children, worker->rank, text);
	answer_send(sock, 0, text, used);
}

/* ---- ends of joiners ---- */

static void one_less(struct joined *joined)
{
	if (!--joined->running && !joined->failure)
		joined->ended(joined->context);
}

static void on_death(evutil_socket_t fd, short what, void *argument)
{
	struct joined_worker *worker = argument;

	(void)what;
	event_free(worker->death);
	worker->death = NULL;
	close(fd);
	worker->pidfd = -1;
	if (worker->sock >= 0)
		close(worker->sock);
	worker->sock = -1;
	worker->missed = true;
	one_less(worker->joined);
}

/* Stops waiting for processes that have not joined: they probably did not start broker-run --join. */
static void on_patience(evutil_socket_t fd, short what, void *argument)
{
	struct joined *joined = argument;
	unsigned missing = 0, first = 0;

	(void)fd;
	(void)what;
	for (unsigned rank = joined->job->size - 1; rank; rank--)
		if (!joined->workers[rank].missed && joined->workers[rank].pidfd < 0) {
			joined->workers[rank].missed = true;
			first = rank;
			missing++;
		}
	if (!missing || joined->failure)
		return;
	log_say("%u of %u processes of this job on this machine did not join within %u s, local rank %u among them: "
		"does every process start broker-run --join?",
		missing, joined->job->size, joined->job->patience, first);
	joined->running -= missing - 1;
	one_less(joined);
}

/* ---- arrivals ---- */

static const char *request_check(const struct joined *joined, const struct join_request *request)
{
	if (request->magic != JOIN_MAGIC || strncmp(request->version, PACKAGE_VERSION, sizeof request->version))
		return "the broker-run of this machine's first process is of another version: use the same one for all";
	if (request->size != joined->job->size || !request->rank || request->rank >= request->size)
		return "the processes of this job on this machine do not agree how many they are";
	if (joined->workers[request->rank].pidfd >= 0 || joined->workers[request->rank].missed)
		return "a process of this local rank has joined already, or came too late";
	return NULL;
}

/* Adds the peer of sock as the joiner with that rank. Returns NULL, or the reason why it cannot join. */
static const char *worker_add(struct joined *joined, int sock, unsigned rank)
{
	struct joined_worker *worker = &joined->workers[rank];
	struct ucred peer = { 0 };
	socklen_t size = sizeof peer;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid())
		return "it is another user's job";
	if (!peer.pid)
		return "the processes of a job on a machine must be in one pid namespace";
	worker->pidfd = identity_pidfd(sock, peer.pid);
	if (worker->pidfd < 0)
		return "the first process cannot watch this one: is it out of descriptors?";
	worker->death = event_new(joined->base, worker->pidfd, EV_READ, on_death, worker);
	if (!worker->death || event_add(worker->death, NULL)) {
		close(worker->pidfd);
		worker->pidfd = -1;
		return "the first process is out of memory";
	}
	worker->pid = peer.pid;
	worker->sock = sock;
	return NULL;
}

/* Frees the arrival, but does not close its socket. */
static void arrival_free(struct arrival *arrival)
{
	DL_DELETE(arrival->joined->arrivals, arrival);
	if (arrival->event)
		event_free(arrival->event);
	free(arrival);
}

static void on_request(evutil_socket_t fd, short what, void *argument)
{
	struct arrival *arrival = argument;
	struct joined *joined = arrival->joined;
	struct join_request request;
	const char *refused = NULL;
	ssize_t size = recv(fd, &request, sizeof request, MSG_DONTWAIT);

	(void)what;
	arrival_free(arrival);
	if (size != sizeof request) {
		close(fd);
		return;
	}
	refused = request_check(joined, &request);
	if (!refused && joined->failure) {
		joined->workers[request.rank].missed = true;
		refused = joined->failure;
	}
	if (!refused)
		refused = worker_add(joined, fd, request.rank);
	if (refused)
		worker_refuse(fd, refused);
	else if (joined->released)
		worker_release(&joined->workers[request.rank]);
}

static void on_arrival(evutil_socket_t fd, short what, void *argument)
{
	struct joined *joined = argument;
	const struct timeval patience = { .tv_sec = joined->job->patience };
	struct arrival *arrival;
	int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)what;
	if (sock < 0)
		return;
	arrival = calloc(1, sizeof *arrival);
	if (!arrival) {
		close(sock);
		return;
	}
	*arrival = (struct arrival){ .joined = joined, .sock = sock };
	DL_APPEND(joined->arrivals, arrival);
	arrival->event = event_new(joined->base, sock, EV_READ, on_request, arrival);
	if (arrival->event && !event_add(arrival->event, &patience))
		return;
	arrival_free(arrival);
	close(sock);
}

/* ---- begin and end ---- */

/*
 * For leftovers_directory_each(): returns true if the directory at path is not `own`, and a living process holds its
 * lock.
 */
static int is_another(const char *path, void *own)
{
	char name[LEFTOVERS_PATH_SIZE + sizeof "/lock"];
	bool locked;
	int fd;

	if (!strcmp(path, own))
		return 0;
	snprintf(name, sizeof name, "%s/lock", path);
	fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	locked = fd >= 0 && status_file_is_held(fd);
	if (fd >= 0)
		close(fd);
	return locked;
}

/*
 * Makes the directory and the socket. Returns 0, an error of private_socket_make(), or -EADDRINUSE if another living
 * process has a directory of this job. Each process looks for others after it has made its own directory, so of two
 * that begin at the same time at least one finds the other.
 */
static int place_take(struct joined *joined)
{
	int error = private_socket_make(&joined->socket, joined->job->name, "join");

	if (error || !leftovers_directory_each(joined->job->name, is_another, joined->socket.directory.path))
		return error;
	return error_set(-EADDRINUSE, "another broker-run --join is the first process (local rank 0) of this job on "
				      "this machine: start it once for each process");
}

static int arriving_begin(struct joined *joined)
{
	struct event *arriving = event_new(joined->base, joined->socket.fd, EV_READ | EV_PERSIST, on_arrival, joined);

	if (!arriving || event_add(arriving, NULL)) {
		if (arriving)
			event_free(arriving);
		return error_set(-ENOMEM, "out of memory");
	}
	if (joined->arriving)
		event_free(joined->arriving);
	joined->arriving = arriving;
	return 0;
}

/* Returns true if no joiner is expected any more: each has joined or is marked as missed. */
static bool all_told(const struct joined *joined)
{
	for (unsigned rank = 1; rank < joined->job->size; rank++)
		if (joined->workers[rank].pidfd < 0 && !joined->workers[rank].missed)
			return false;
	return true;
}

/* Returns 0 if the path leads to the socket, or no joiner is missing; 1 if the socket was made again; or an error. */
static int restore(struct joined *joined)
{
	struct pollfd waiting = { .events = POLLIN };
	int result = all_told(joined) ? 0 : private_socket_restore(&joined->socket, &waiting.fd);

	if (result <= 0)
		return result;
	/* the connections that wait in the former socket would end with it */
	for (unsigned i = 0; i < joined->job->size && poll(&waiting, 1, 0) == 1; i++)
		on_arrival(waiting.fd, EV_READ, joined);
	if (poll(&waiting, 1, 0) == 1)
		result = error_set(-EAGAIN, "the socket was removed, and is made again when the connections that wait "
					    "in it can be accepted");
	else
		result = arriving_begin(joined);
	if (result) { /* the former socket and its event stay */
		private_socket_undo(&joined->socket, waiting.fd);
		return result;
	}
	close(waiting.fd);
	return 1;
}

static void on_look(evutil_socket_t fd, short what, void *argument)
{
	struct joined *joined = argument;
	int result = restore(joined);

	(void)fd;
	(void)what;
	if (result > 0)
		log_say("somebody removed the socket of the job, which is made again: %s", joined->socket.path);
	else if (result < 0 && !joined->lost)
		log_say("%s", error_text());
	joined->lost = result < 0;
	if (all_told(joined))
		event_del(joined->looking);
}

int joined_begin(struct joined *joined, const struct join_job *job, struct children *children, struct event_base *base)
{
	const struct timeval patience = { .tv_sec = job->patience }, look = { .tv_usec = LOOK_MS * 1000 };
	int error;

	joined->socket.fd = -1;
	joined->job = job;
	joined->base = base;
	joined->children = children;
	joined->running = job->size - 1;
	error = place_take(joined);
	if (error)
		return error;
	joined->workers = calloc(job->size, sizeof *joined->workers);
	if (!joined->workers)
		return error_set(-ENOMEM, "out of memory");
	for (unsigned rank = 0; rank < job->size; rank++)
		joined->workers[rank] =
			(struct joined_worker){ .joined = joined, .rank = rank, .sock = -1, .pidfd = -1 };
	joined->patience = evtimer_new(base, on_patience, joined);
	joined->looking = event_new(base, -1, EV_PERSIST, on_look, joined);
	if (!joined->patience || evtimer_add(joined->patience, &patience) || !joined->looking ||
	    event_add(joined->looking, &look))
		return error_set(-ENOMEM, "out of memory");
	return arriving_begin(joined);
}

void joined_release(struct joined *joined)
{
	joined->released = true;
	for (unsigned rank = 1; joined->workers && rank < joined->job->size; rank++)
		if (joined->workers[rank].sock >= 0)
			worker_release(&joined->workers[rank]);
}

static void tell_waiting(struct joined *joined, const char *text)
{
	for (unsigned rank = 1; joined->workers && rank < joined->job->size; rank++)
		if (joined->workers[rank].sock >= 0) {
			worker_refuse(joined->workers[rank].sock, text);
			joined->workers[rank].sock = -1;
		}
}

void joined_fail(struct joined *joined, const char *text)
{
	const struct timeval linger = { .tv_sec = JOIN_LINGER };

	if (!joined->arriving || !joined->patience)
		return;
	joined->failure = text;
	tell_waiting(joined, text);
	evtimer_add(joined->patience, &linger); /* on_patience() then marks those still missing, which ends the loop */
	while (!all_told(joined))
		if (event_base_loop(joined->base, EVLOOP_ONCE) < 0)
			break;
}

void joined_forget(const struct joined *joined)
{
	const struct arrival *arrival;

	if (!joined->job)
		return;
	for (unsigned rank = 1; joined->workers && rank < joined->job->size; rank++) {
		if (joined->workers[rank].sock >= 0)
			close(joined->workers[rank].sock);
		if (joined->workers[rank].pidfd >= 0)
			close(joined->workers[rank].pidfd);
	}
	DL_FOREACH(joined->arrivals, arrival)
		close(arrival->sock);
	private_socket_close(&joined->socket);
}

void joined_end(struct joined *joined)
{
	struct arrival *arrival, *next;

	if (!joined->job)
		return;
	tell_waiting(joined, "the broker-run of this machine's first process (local rank 0) has ended");
	for (unsigned rank = 1; joined->workers && rank < joined->job->size; rank++) {
		if (joined->workers[rank].death)
			event_free(joined->workers[rank].death);
		if (joined->workers[rank].pidfd >= 0)
			close(joined->workers[rank].pidfd);
	}
	free(joined->workers);
	DL_FOREACH_SAFE(joined->arrivals, arrival, next) {
		close(arrival->sock);
		event_free(arrival->event);
		free(arrival);
	}
	if (joined->arriving)
		event_free(joined->arriving);
	if (joined->patience)
		event_free(joined->patience);
	if (joined->looking)
		event_free(joined->looking);
	private_socket_remove(&joined->socket);
	joined->job = NULL;
}
