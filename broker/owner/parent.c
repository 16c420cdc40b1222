/* SPDX-License-Identifier: Apache-2.0 */
/* parent.c - see parent.h */
#include "parent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "packet.h"
#include "serve.h"

#define PARENT_NAME "owner-parent"
#define OWNER_NAME  "gpubroker-owner" /* 15 bytes: the kernel keeps no more */
#define SOCK        3                 /* of either process, behind the standard streams */

/*
 * Leaves this process the socket, as SOCK, and standard error alone, and no signal. Standard input and output become
 * /dev/null. The process ends with `parent`, also while a device call hangs.
 */
static void become(const char *name, int sock, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, name);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || null < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || (sock != SOCK && dup3(sock, SOCK, O_CLOEXEC) < 0) || close_range(SOCK + 1, ~0u, 0))
		_exit(EXIT_FAILURE);
}

static _Noreturn void owner_main(int sock, pid_t parent)
{
	static struct service service;

	become(OWNER_NAME, sock, parent);
	owner_serve(&service, SOCK);
	exit(EXIT_SUCCESS); /* with the checks that the host device makes at the exit of an owner */
}

static void on_child(int number)
{
	(void)number; /* interrupts ppoll(2) */
}

/* Waits until the owner has ended, and ends it if the broker asks for that. Returns its status. */
static int wait_for(pid_t owner)
{
	struct pollfd readable = { .fd = SOCK, .events = POLLIN };
	enum parent_order order;
	sigset_t but_child;
	int status, none;
	pid_t ended;

	sigfillset(&but_child);
	sigdelset(&but_child, SIGCHLD);
	while (!(ended = waitpid(owner, &status, WNOHANG)))
		if (ppoll(&readable, 1, NULL, &but_child) > 0) {
			(void)packet_receive(SOCK, &order, sizeof order, &none, 0);
			kill(owner, SIGKILL);
			ended = waitpid(owner, &status, 0);
			break;
		}
	return ended == owner ? status : -1;
}

/* Runs an owner that serves the socket, which is closed here. Returns what the broker is told of its end. */
static int run_owner(int owners)
{
	pid_t parent = getpid(), owner = fork();

	if (!owner)
		owner_main(owners, parent);
	if (owner < 0)
		owner_refuse(owners, error_set(-errno, "the process that owns the devices cannot be forked: %m"));
	close(owners);
	return owner < 0 ? -1 : wait_for(owner);
}

void parent_main(int sock, pid_t broker)
{
	enum parent_order order;
	int owners, status;

	become(PARENT_NAME, sock, broker);
	signal(SIGCHLD, on_child);
	while (!packet_receive(SOCK, &order, sizeof order, &owners, 0)) {
		if (order == PARENT_KILL)
			continue; /* the owner has ended by itself */
		status = owners < 0 ? -1 : run_owner(owners);
		packet_send(SOCK, &status, sizeof status, -1, 0);
	}
	exit(EXIT_SUCCESS);
}
