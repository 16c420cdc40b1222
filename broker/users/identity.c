/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

/*
 * Sets the supplementary groups of the identity to those of the peer: none on a kernel that does not report them
 * (before 4.13). Returns 0, or -ENOMEM with the error message set.
 */
static int groups_of_peer(int sock, struct identity *identity)
{
	socklen_t size = 0;
	gid_t *groups;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) || errno != ERANGE)
		return 0;
	groups = malloc(size);
	if (!groups)
		return error_set(-ENOMEM, "the broker is out of memory");
	if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, groups, &size)) {
		free(groups);
		return 0;
	}
	identity->groups = groups;
	identity->group_count = size / (unsigned)sizeof *groups;
	return 0;
}

static int credentials_of_peer(int sock, struct ucred *cred)
{
	socklen_t size = sizeof *cred;

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, cred, &size) ?
		       error_set(-errno, "the peer cannot be identified: %m") : 0;
}

int identity_user(int sock, uid_t *uid)
{
	struct ucred cred;
	int error = credentials_of_peer(sock, &cred);

	if (!error)
		*uid = cred.uid;
	return error;
}

int identity_of_peer(int sock, pid_t *pid, struct identity *identity)
{
	struct identity peer = { 0 };
	struct ucred cred;
	int error = credentials_of_peer(sock, &cred);

	if (error)
		return error;
	if (cred.pid <= 0)
		return error_set(-EPERM, "the broker runs in a container, and cannot see the client's process, which "
					 "is outside of it: start the broker outside of all its clients' containers, "
					 "and give each its socket's directory");
	peer.uid = cred.uid;
	peer.gid = cred.gid;
	error = groups_of_peer(sock, &peer);
	if (error)
		return error;
	*pid = cred.pid;
	*identity = peer;
	return 0;
}

void identity_clear(struct identity *identity)
{
	free(identity->groups);
	identity->groups = NULL;
	identity->group_count = 0;
}

bool identity_in_group(const struct identity *identity, gid_t group)
{
	if (identity->gid == group)
		return true;
	for (unsigned i = 0; i < identity->group_count; i++)
		if (identity->groups[i] == group)
			return true;
	return false;
}

bool identity_is_admin(const struct identity *identity)
{
	return !identity->uid || identity->uid == geteuid();
}

/*
 * Returns a pidfd of the peer: from the socket, or else made from the pid. Returns -1 with errno set by pidfd_open(2).
 */
static int pidfd_make(int sock, pid_t pid)
{
	int pidfd;
	socklen_t size = sizeof pidfd;

	return getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) ? (int)syscall(SYS_pidfd_open, pid, 0) : pidfd;
}

int identity_check_system(void)
{
	int pair[2], pidfd, error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_set(-errno, "no socket could be made: %m");
	pidfd = pidfd_make(pair[0], getpid());
	error = pidfd < 0 ? -errno : 0;
	if (pidfd >= 0)
		close(pidfd);
	close(pair[0]);
	close(pair[1]);
	if (!error)
		return 0;
	return error_set(error, "pidfd_open(2) fails: %s; a broker learns by it that a client is dead, so it needs "
				"Linux 5.3 or newer and, in a container, a seccomp profile that allows pidfd_open",
			 strerror(-error));
}

int identity_pidfd(int sock, pid_t pid)
{
	int pidfd = pidfd_make(sock, pid);

	if (pidfd < 0)
		return error_set(-errno, "no pidfd for process %d: %m", pid);
	fcntl(pidfd, F_SETFL, O_NONBLOCK); /* libevent's debug mode requires this; the pidfd is never read */
	return pidfd;
}

bool identity_alive(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

void identity_command(pid_t pid, char command[16])
{
	char path[40];
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, command, 15);
		close(fd);
	}
	if (got <= 0)
		command[0] = '?', got = 1;
	command[got] = 0;
	command[strcspn(command, "\n")] = 0;
	/* the process chose this name, which goes to terminals and JSON */
	for (char *c = command; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}
