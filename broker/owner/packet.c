/* SPDX-License-Identifier: Apache-2.0 */
/* packet.c - see packet.h */
#include "packet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/socket.h"

#define NAP_NS 1000000 /* before another attempt, where no event tells when the kernel has room again */

static bool is_short_of_room(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS;
}

/* Sleeps before another attempt, and returns true; false: the caller must not wait. Keeps errno. */
static bool naps(int flags)
{
	static const struct timespec nap = { .tv_nsec = NAP_NS };
	int error = errno;

	if (!(flags & MSG_DONTWAIT))
		nanosleep(&nap, NULL);
	errno = error;
	return !(flags & MSG_DONTWAIT);
}

int packet_send(int sock, const void *bytes, size_t size, int fd, int flags)
{
	union socket_control control;
	struct iovec io = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };

	socket_attach(&msg, &control, fd);
	while (sendmsg(sock, &msg, flags | MSG_NOSIGNAL) < 0) {
		if (errno == EINTR)
			continue;
		if (!is_short_of_room(errno))
			return -ECONNRESET;
		if (!naps(flags))
			return -EAGAIN;
	}
	return 0;
}

/* Returns the descriptor of a packet; -1: it has none; -EMFILE: it had one, which the kernel has closed. */
static int descriptor_of(struct msghdr *msg)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int fd;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fd))
		return msg->msg_flags & MSG_CTRUNC ? -EMFILE : -1;
	memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

int packet_receive(int sock, void *bytes, size_t size, int *fd, int flags)
{
	union socket_control control;
	struct iovec io = { .iov_base = bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control };
	int resets = 0;
	ssize_t got;

	/* a side that ended with unread packets causes one ECONNRESET, before what it had sent can be received */
	do {
		msg.msg_controllen = CMSG_LEN(sizeof *fd); /* room for one: the kernel closes further ones */
		got = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	} while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !resets++) ||
			     (is_short_of_room(errno) && naps(flags))));
	*fd = -1;
	if (got < 0)
		return is_short_of_room(errno) ? -EAGAIN : -ECONNRESET;
	*fd = descriptor_of(&msg);
	if ((size_t)got == size)
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return got ? -EPROTO : -ECONNRESET;
}
