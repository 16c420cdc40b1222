/* SPDX-License-Identifier: Apache-2.0 */
/* forked.c - see forked.h */
#include "forked.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "serve.h"

#define OWNER_NAME "gpubroker-owner" /* 15 bytes: the kernel keeps no more */
#define OWNER_SOCK 3                 /* the number of the socket afterwards, behind the standard streams */

/* Takes all steps up to the service. */
static void become(int sock, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, OWNER_NAME);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || null < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || (sock != OWNER_SOCK && dup3(sock, OWNER_SOCK, O_CLOEXEC) < 0) ||
	    close_range(OWNER_SOCK + 1, ~0u, 0))
		_exit(EXIT_FAILURE);
}

/* Ends the process before the handlers run that the forking process has registered: they are about that one. */
static void leave(int status, void *none)
{
	(void)none;
	fflush(NULL);
	_exit(status);
}

void forked_owner(int sock, pid_t parent)
{
	static struct service service;

	become(sock, parent);
	on_exit(leave, NULL);
	owner_serve(&service, OWNER_SOCK);
	exit(EXIT_SUCCESS); /* with the checks that the host device makes at the exit of an owner */
}
