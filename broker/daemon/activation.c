/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c - see activation.h */
#include "activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"

#define FIRST      3 /* number of the first passed descriptor */
#define PASSED_MAX 64

/*
 * Returns true if LISTEN_PID is this process. If not, the variables are for a parent, which left them in the
 * environment.
 */
static bool meant_for_us(void)
{
	const char *pid = getenv("LISTEN_PID");

	return pid && strtol(pid, NULL, 10) == getpid();
}

static long passed_count(void)
{
	const char *count = getenv("LISTEN_FDS");

	return count && meant_for_us() ? strtol(count, NULL, 10) : 0;
}

/*
 * Returns the passed descriptor that has the name ACTIVATION_NAME in LISTEN_FDNAMES, a list separated by colons; -1:
 * none.
 */
static int passed_named(long count)
{
	const char *names = getenv("LISTEN_FDNAMES");
	size_t length;

	for (int i = 0; names && i < count; i++, names += length + (names[length] == ':')) {
		length = strcspn(names, ":");
		if (length == strlen(ACTIVATION_NAME) && !memcmp(names, ACTIVATION_NAME, length))
			return FIRST + i;
	}
	return -1;
}

static int option_of(int fd, int option)
{
	int value;
	socklen_t size = sizeof value;

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) ? -1 : value;
}

static int socket_check(int fd)
{
	int on = 1;

	if (option_of(fd, SO_DOMAIN) != AF_UNIX || option_of(fd, SO_TYPE) != SOCK_SEQPACKET ||
	    option_of(fd, SO_ACCEPTCONN) != 1)
		return error_set(-EINVAL, "what was passed in LISTEN_FDS is no listening Unix socket of type "
					  "SOCK_SEQPACKET: write ListenSequentialPacket=PATH into the socket unit");
	/* has the kernel add the sender's credentials to each message, which HELLO needs */
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on))
		return error_set(-EINVAL, "the passed socket cannot be set up: %m");
	return fd;
}

static int passed_choose(long count)
{
	int fd;

	if (count < 0 || count > PASSED_MAX)
		return error_set(-EINVAL, "LISTEN_FDS is %ld: pass one socket", count);
	fd = count == 1 ? FIRST : passed_named(count);
	if (fd < 0)
		return error_set(-EINVAL, "%ld sockets were passed, and none is named " ACTIVATION_NAME ": pass one, "
					  "or write FileDescriptorName=" ACTIVATION_NAME, count);
	for (int other = FIRST; other < FIRST + count; other++) {
		if (fcntl(other, F_SETFD, FD_CLOEXEC))
			return error_set(-EINVAL, "LISTEN_FDS is %ld, but descriptor %d is not open", count, other);
		if (other != fd)
			close(other);
	}
	return socket_check(fd);
}

int activation_take(void)
{
	long count = passed_count();
	int fd = count ? passed_choose(count) : -ENOENT;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return fd;
}
