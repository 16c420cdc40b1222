/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Where another user's /proc entry cannot be read, the pid that the kernel translated has to do. */
static bool same_pid_namespace(pid_t pid)
{
	char path[40];
	struct stat own, peer;

	snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
	return stat("/proc/self/ns/pid", &own) || stat(path, &peer) || own.st_ino == peer.st_ino;
}

int identity_of_peer(int sock, pid_t *pid, uid_t *uid, gid_t *gid)
{
	struct ucred cred;
	socklen_t size = sizeof cred;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size))
		return error_set(-errno, "the peer cannot be identified: %m");
	if (cred.pid <= 0 || !same_pid_namespace(cred.pid))
		return error_set(-EPERM, "the client runs in another pid namespace than the broker, where CUDA IPC "
					 "does not work: start both in one (a container: --pid=host)");
	*pid = cred.pid;
	*uid = cred.uid;
	*gid = cred.gid;
	return 0;
}

int identity_pidfd(int sock, pid_t pid)
{
	int pidfd;
	socklen_t size = sizeof pidfd;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size))
		return pidfd;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return error_set(-errno, "no pidfd for process %d: %m", pid);
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
	/* whatever the process called itself, it goes to terminals and JSON */
	for (char *c = command; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}
