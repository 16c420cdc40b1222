/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "packet.h"
#include "serve.h"

#define NAME "gpubroker-owner" /* 15 bytes: the kernel keeps no more */
#define SOCK 3                 /* the owner's end, behind the standard streams */

/* ---- the broker's side ---- */

/* Makes a socket pair. Stores the broker's end and returns the owner's, or a negative errno with the error message. */
static int pair_make(int *brokers)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_set(-errno, "no sockets for the process that owns the devices: %m");
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	*brokers = pair[0];
	return pair[1];
}

int owner_link_open(struct owner_link *link)
{
	*link = (struct owner_link){ .sock = -1 };
	return pair_make(&link->sock);
}

static int ask(const struct owner_link *link, const void *bytes, size_t size, int descriptor,
	       struct owner_answer *answer)
{
	struct pollfd readable = { .fd = link->sock, .events = POLLIN };
	int error = packet_send(link->sock, bytes, size, descriptor, 0), fd;

	while (!error && (error = packet_receive(link->sock, answer, sizeof *answer, &fd, MSG_DONTWAIT)) == -EAGAIN)
		error = poll(&readable, 1, -1) < 0 && errno != EINTR ? -errno : 0;
	if (error)
		return error_set(-ECONNRESET, "the process that owns the devices ended while they started; a line "
					      "above may say why");
	return answer->error ? error_set(answer->error, "%s", answer->text) : 0;
}

static int lane_make(struct owner_link *link)
{
	struct owner_answer answer;
	int owners = pair_make(&link->lane[link->lanes]), error;

	if (owners < 0)
		return owners;
	error = ask(link, &link->lanes, sizeof link->lanes, owners, &answer);
	close(owners);
	if (error)
		close(link->lane[link->lanes]);
	else
		link->lanes++;
	return error;
}

int owner_link_lanes(struct owner_link *link, unsigned count)
{
	int error = 0;

	while (!error && link->lanes < count)
		error = lane_make(link);
	return error;
}

int owner_link_start(struct owner_link *link, const struct owner_setup *setup, struct owner_facts *facts)
{
	struct owner_answer answer;
	int error = ask(link, setup, sizeof *setup, -1, &answer);

	if (error)
		return error;
	*facts = answer.facts;
	return owner_link_lanes(link, facts->count + 1);
}

void owner_link_close(struct owner_link *link)
{
	struct pollfd readable = { .fd = link->sock, .events = POLLIN };
	char rest[64];
	ssize_t got;

	/* the close of a socket with unread answers would end the owner's receives before it has read all orders */
	for (unsigned i = 0; i < link->lanes; i++)
		shutdown(link->lane[i], SHUT_WR);
	shutdown(link->sock, SHUT_WR);
	while ((got = recv(link->sock, rest, sizeof rest, 0)) > 0 ||
	       (got < 0 && (errno == EAGAIN || errno == EINTR)))
		if (got < 0)
			poll(&readable, 1, -1);
	while (link->lanes)
		close(link->lane[--link->lanes]);
	close(link->sock);
	link->sock = -1;
}

/* ---- the owner's process ---- */

/* Leaves the process the socket and standard error alone. Standard input and output become /dev/null. */
static int descriptors_keep(int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || (sock != SOCK && dup2(sock, SOCK) < 0))
		return -errno;
	return close_range(SOCK + 1, ~0u, 0) ? -errno : 0;
}

static void owner_main(int sock, pid_t broker)
{
	static struct service service;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, NAME);
	/* the owner ends with the broker, also while a device call hangs */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != broker || descriptors_keep(sock))
		_exit(EXIT_FAILURE);
	owner_serve(&service, SOCK);
	exit(EXIT_SUCCESS); /* with the checks that the host device makes at the exit of an owner */
}

static int process_begin(struct owner_link *link)
{
	pid_t broker = getpid();
	int sock = owner_link_open(link), error;

	if (sock < 0)
		return sock;
	link->pid = fork();
	error = link->pid < 0 ? error_set(-errno, "the process that owns the devices cannot be forked: %m") : 0;
	if (!link->pid)
		owner_main(sock, broker);
	close(sock);
	if (error) {
		close(link->sock);
		link->sock = -1;
	}
	return error;
}

static void process_end(struct owner_link *link)
{
	int status = 0;

	if (link->sock < 0)
		return;
	owner_link_close(link);
	/* the program may have reaped it, with other children */
	while (waitpid(link->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	link->crashed = status;
}

const struct owner_place owner_process = { process_begin, process_end };
