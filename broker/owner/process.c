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
#include <sys/syscall.h>
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
	*link = (struct owner_link){ .sock = -1, .pidfd = -1 };
	return pair_make(&link->sock);
}

static int ended(void)
{
	return error_set(-ECONNRESET, "the process that owns the devices ended while they started; a line above may "
				      "say why");
}

/* A new socket is never full. */
static int not_sent(int error)
{
	return error == -EAGAIN ? error_set(-ENOMEM, "the kernel has no memory for the process that owns the devices") :
				  ended();
}

int owner_link_setup(struct owner_link *link, const struct owner_setup *setup)
{
	int error = packet_send(link->sock, setup, sizeof *setup, -1, MSG_DONTWAIT);

	if (error)
		return not_sent(error);
	link->awaited++;
	return 0;
}

/* Makes a lane, and sends the owner its end. */
static int lane_make(struct owner_link *link)
{
	int owners = pair_make(&link->lane[link->lanes]), error;

	if (owners < 0)
		return owners;
	error = packet_send(link->sock, &link->lanes, sizeof link->lanes, owners, MSG_DONTWAIT);
	close(owners);
	if (error) {
		close(link->lane[link->lanes]);
		return not_sent(error);
	}
	link->lanes++;
	link->awaited++;
	return 0;
}

int owner_link_lanes(struct owner_link *link, unsigned count)
{
	int error = 0;

	while (!error && link->lanes < count)
		error = lane_make(link);
	return error;
}

int owner_link_answer(struct owner_link *link, struct owner_facts *facts)
{
	struct owner_answer answer;
	int error, fd;

	while (link->awaited) {
		error = packet_receive(link->sock, &answer, sizeof answer, &fd, MSG_DONTWAIT);
		if (error)
			return error == -EAGAIN ? -EAGAIN : ended();
		if (answer.error)
			return error_set(answer.error, "%s", answer.text);
		if (answer.facts.count)
			*facts = answer.facts;
		link->awaited--;
	}
	return 0;
}

static int wait_for_answers(struct owner_link *link, struct owner_facts *facts)
{
	struct pollfd readable = { .fd = link->sock, .events = POLLIN };
	int error;

	while ((error = owner_link_answer(link, facts)) == -EAGAIN)
		poll(&readable, 1, -1);
	return error;
}

int owner_link_start(struct owner_link *link, const struct owner_setup *setup, struct owner_facts *facts)
{
	int error = owner_link_setup(link, setup);

	if (!error)
		error = wait_for_answers(link, facts);
	if (!error)
		error = owner_link_lanes(link, facts->count + 1);
	return error ? error : wait_for_answers(link, facts);
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
	if (link->pidfd >= 0)
		close(link->pidfd);
	link->pidfd = -1;
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
		return error;
	}
	link->pidfd = (int)syscall(SYS_pidfd_open, link->pid, 0);
	return 0;
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
