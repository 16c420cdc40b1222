/* SPDX-License-Identifier: Apache-2.0 */
/* parent.c - see parent.h */
#include "parent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "forked.h"
#include "packet.h"
#include "serve.h"

#define PARENT_NAME "owner-parent"

static void on_child(int number)
{
	(void)number; /* interrupts ppoll(2) */
}

/* Waits until the owner has ended, and ends it if the broker asks for that. Returns its status. */
static int wait_for(pid_t owner)
{
	struct pollfd readable = { .fd = FORKED_SOCK, .events = POLLIN };
	enum parent_order order;
	sigset_t but_child;
	int status, none;
	pid_t ended;

	sigfillset(&but_child);
	sigdelset(&but_child, SIGCHLD);
	while (!(ended = waitpid(owner, &status, WNOHANG)))
		if (ppoll(&readable, 1, NULL, &but_child) > 0) {
			(void)packet_receive(FORKED_SOCK, &order, sizeof order, &none, 0);
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
		forked_owner(owners, parent);
	if (owner < 0)
		owner_refuse(owners, error_set(-errno, "the process that owns the devices cannot be forked: %m"));
	close(owners);
	return owner < 0 ? -1 : wait_for(owner);
}

void parent_main(int sock, pid_t broker)
{
	enum parent_order order;
	int owners, status;

	forked_become(PARENT_NAME, sock, broker);
	signal(SIGCHLD, on_child);
	while (!packet_receive(FORKED_SOCK, &order, sizeof order, &owners, 0)) {
		if (order == PARENT_KILL)
			continue; /* the owner has ended by itself */
		status = owners < 0 ? -1 : run_owner(owners);
		packet_send(FORKED_SOCK, &status, sizeof status, -1, 0);
	}
	exit(EXIT_SUCCESS);
}
