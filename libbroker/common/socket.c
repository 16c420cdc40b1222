/* SPDX-License-Identifier: Apache-2.0 */
/* socket.c - see socket.h */
#include "socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "path-refusal.h"

int socket_address(const char *address, struct sockaddr_un *sun)
{
	const char *path = address + 5;

	if (strncmp(address, "unix:", 5) || !*path)
		return error_set(-EINVAL, "'%.100s' is no broker address: write unix:PATH", address);
	if (strlen(path) >= sizeof sun->sun_path)
		return error_set(-EINVAL, "the socket path is longer than %zu bytes: choose a shorter one",
				 sizeof sun->sun_path - 1);
	memset(sun, 0, sizeof *sun);
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, path, strlen(path) + 1);
	return 0;
}

static int new_socket(void)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return sock >= 0 ? sock : error_set(-errno, "no socket could be made: %m");
}

int socket_listen(const char *path, mode_t mode)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock, error;

	if (strlen(path) >= sizeof sun.sun_path)
		return error_set(-ENAMETOOLONG, "the socket path '%.60s...' is too long: choose a shorter one", path);
	memcpy(sun.sun_path, path, strlen(path) + 1);
	sock = new_socket();
	if (sock < 0)
		return sock;
	/* options are set before any client can connect, because a connect(2) fixes them for the accepted socket */
	socket_refuse_descriptors(sock);
	if (socket_stamp_senders(sock) ||
	    bind(sock, (struct sockaddr *)&sun, sizeof sun) || chmod(path, mode) || listen(sock, SOMAXCONN)) {
		error = -errno;
		close(sock);
		return error_set(error, "cannot listen at %s: %s", path, strerror(-error));
	}
	return sock;
}

int socket_stamp_senders(int sock)
{
	int on = 1;

	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ? -errno : 0;
}

bool socket_refuse_descriptors(int sock)
{
	int off = 0;

	return !setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
}

static int connect_refused(const char *path, int error)
{
	char text[ERROR_TEXT_MAX];

	if (!path_refusal(path, text, sizeof text))
		snprintf(text, sizeof text, "%s", strerror(-error));
	if (error == -EACCES)
		return error_set(error, "unix:%s may not be used: %s; ask the user who runs the broker for access",
				 path, text);
	return error_set(error, "no broker answers at unix:%s: %s; start one, or correct the address", path, text);
}

int socket_connect_within(const struct sockaddr_un *sun, unsigned seconds)
{
	const struct timeval patience = { .tv_sec = (time_t)seconds }, none = { 0 };
	int sock = new_socket(), error;

	if (sock < 0)
		return sock;
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	error = connect(sock, (const struct sockaddr *)sun, sizeof *sun) ? -errno : 0;
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
	if (!error)
		return sock;
	close(sock);
	if (error == -EAGAIN)
		return error_set(-ETIMEDOUT,
				 "unix:%s takes no more connections: its server has not accepted those that wait, and "
				 "may be stopped",
				 sun->sun_path);
	return connect_refused(sun->sun_path, error);
}

int socket_connect(const struct sockaddr_un *sun)
{
	return socket_connect_within(sun, 0);
}

void socket_attach(struct msghdr *msg, union socket_control *control, int fd)
{
	if (fd < 0)
		return;
	memset(control, 0, sizeof *control);
	control->header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd),
					    .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control->header), &fd, sizeof fd);
	msg->msg_control = control;
	msg->msg_controllen = sizeof control->bytes;
}

int socket_send(int sock, const struct wire_message *message, int fd, int flags)
{
	union socket_control control;
	struct iovec         io = { .iov_base = (void *)message, .iov_len = WIRE_SIZE };
	struct msghdr        msg = { .msg_iov = &io, .msg_iovlen = 1 };
	ssize_t              sent;

	socket_attach(&msg, &control, fd);
	do
		sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent == WIRE_SIZE)
		return 0;
	if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -EAGAIN;
	if (sent < 0 && (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM))
		return -errno;
	return -ECONNRESET;
}

/* Returns the number of messages in the first `packets` packets of `count` messages, with `packed` in each packet. */
static unsigned packets_hold(unsigned packets, unsigned count, unsigned packed)
{
	return packets * packed < count ? packets * packed : count;
}

int socket_send_many(int sock, const struct wire_message *messages, unsigned count, unsigned packed, int flags)
{
	struct mmsghdr msgs[SOCKET_SEND_MAX];
	struct iovec io[SOCKET_SEND_MAX];
	unsigned packets = 0;
	int sent;

	count = count < SOCKET_SEND_MAX ? count : SOCKET_SEND_MAX;
	for (unsigned i = 0; i < count; i += packed, packets++) {
		unsigned held = count - i < packed ? count - i : packed;

		io[packets] = (struct iovec){ .iov_base = (void *)&messages[i], .iov_len = (size_t)held * WIRE_SIZE };
		msgs[packets] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &io[packets], .msg_iovlen = 1 } };
	}
	do
		sent = sendmmsg(sock, msgs, packets, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? sent : (int)packets_hold((unsigned)sent, count, packed);
}

static void take_descriptor(int fd, struct socket_extra *extra, bool want_fd)
{
	if (!want_fd)
		extra->unwanted[extra->unwanted_count++] = fd;
	else if (extra->fd == -1)
		extra->fd = fd;
	else
		close(fd);
}

/* More descriptors than wanted may come, because the kernel rounds the size of the control buffer up. */
static void take_descriptors(const struct cmsghdr *c, struct socket_extra *extra, bool want_fd)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fd;

	for (size_t i = 0; i < count && extra->unwanted_count < SOCKET_DESCRIPTORS_MAX; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
		take_descriptor(fd, extra, want_fd);
	}
}

static void take_sender(const struct cmsghdr *c, struct socket_extra *extra)
{
	memcpy(&extra->sender, CMSG_DATA(c), sizeof extra->sender);
	extra->has_sender = true;
}

static void take_control(struct msghdr *msg, struct socket_extra *extra, bool want_fd)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof extra->sender)) {
			take_sender(c, extra);
		} else if (c->cmsg_type == SCM_RIGHTS) {
			take_descriptors(c, extra, want_fd);
		}
	}
	if (want_fd && extra->fd == -1 && msg->msg_flags & MSG_CTRUNC)
		extra->fd = -EMFILE;
}

static void extra_init(struct socket_extra *extra)
{
	extra->fd = -1;
	extra->has_sender = false;
	extra->unwanted_count = 0;
}

/*
 * Returns the size of the control buffer for a receive. The kernel closes descriptors that do not fit in the buffer,
 * and the caller would wait for that close. So there is room for all descriptors unless the peer is trusted (want_fd).
 */
static size_t control_size(bool want_fd)
{
	return want_fd ? CMSG_SPACE(sizeof(int)) :
			 CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(SOCKET_DESCRIPTORS_MAX * sizeof(int));
}

/*
 * Receives a packet of *length bytes. Tries again after one ECONNRESET: a peer that closes its socket with unread
 * messages causes one, but messages that the peer sent before can still be received.
 */
static int receive(int sock, struct msghdr *msg, int flags, size_t *length)
{
	ssize_t got;
	int     resets = 0;

	do
		got = recvmsg(sock, msg, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !resets++)));
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -EAGAIN;
	if (got < 0)
		return error_set(-ECONNRESET, "the other side closed the connection");
	*length = (size_t)got;
	return 0;
}

int socket_receive(int sock, struct wire_message *message, struct socket_extra *extra, bool want_fd, int flags)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(SOCKET_DESCRIPTORS_MAX * sizeof(int))];
	} control;
	struct iovec  io = { .iov_base = message, .iov_len = WIRE_SIZE };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control };
	size_t        length;
	int           error;

	msg.msg_controllen = control_size(want_fd);
	error = receive(sock, &msg, flags, &length);
	extra_init(extra);
	if (error)
		return error;
	take_control(&msg, extra, want_fd);
	error = length ? wire_check(message, length) : error_set(-ECONNRESET, "the other side closed the connection");
	if (error && extra->fd >= 0) {
		close(extra->fd);
		extra->fd = -1;
	}
	return error;
}

/* Whether a packet of this length holds 1 to SOCKET_PACKET_MAX messages. */
static bool is_whole(size_t length)
{
	return length && !(length % WIRE_SIZE) && length <= SOCKET_PACKET_MAX * WIRE_SIZE;
}

int socket_packet_check(const struct socket_packet *packet, unsigned index)
{
	return wire_check(&packet->message[index], is_whole(packet->length) ? WIRE_SIZE : packet->length);
}

/* The kernel stores the length when it has copied all messages. */
void socket_packet_clear(struct socket_packet *packet)
{
	packet->received.msg_len = 0;
	packet->message[0].magic = 0;
}

static void packet_measure(struct socket_packet *packet)
{
	packet->length = packet->received.msg_len;
	packet->count = is_whole(packet->length) ? (unsigned)(packet->length / WIRE_SIZE) : 1;
}

/* Like receive(), but the kernel itself stores the length in the packet. */
static int receive_into(int sock, struct socket_packet *packet, int flags)
{
	int got, resets = 0;

	do
		got = recvmmsg(sock, &packet->received, 1, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC, NULL);
	while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !resets++)));
	if (got > 0)
		return 0;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return -EAGAIN;
	return error_set(-ECONNRESET, "the other side closed the connection");
}

int socket_receive_packet(int sock, struct socket_packet *packet, bool want_fd, int flags)
{
	int error;

	socket_packet_clear(packet);
	packet->io = (struct iovec){ .iov_base = packet->message, .iov_len = sizeof packet->message };
	packet->received.msg_hdr = (struct msghdr){ .msg_iov = &packet->io,
						    .msg_iovlen = 1,
						    .msg_control = packet->control,
						    .msg_controllen = control_size(want_fd) };
	error = receive_into(sock, packet, flags);
	extra_init(&packet->extra);
	if (error)
		return error;
	take_control(&packet->received.msg_hdr, &packet->extra, want_fd);
	packet_measure(packet);
	return packet->length ? 0 : error_set(-ECONNRESET, "the other side closed the connection");
}

int socket_packet_again(struct socket_packet *packet)
{
	struct msghdr msg = { .msg_control = packet->control,
			      .msg_controllen = packet->received.msg_hdr.msg_controllen };

	extra_init(&packet->extra);
	if (!packet->received.msg_len || !packet->message[0].magic)
		return -EAGAIN;
	if (msg.msg_controllen > sizeof packet->control)
		return error_set(-EPROTO, "the packet that was in hand is damaged");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			return error_set(-EPROTO, "it sent descriptors, which no client has to send");
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
		    c->cmsg_len == CMSG_LEN(sizeof packet->extra.sender))
			take_sender(c, &packet->extra);
	}
	packet_measure(packet);
	return 0;
}

/* The control buffer has room for credentials only, so the kernel sets MSG_CTRUNC if the packet has descriptors. */
enum socket_next socket_next(int sock)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec  io = { 0 };
	struct msghdr msg = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes
	};
	size_t        length;

	if (receive(sock, &msg, MSG_PEEK | MSG_DONTWAIT, &length))
		return SOCKET_NEXT_NONE;
	if (msg.msg_flags & MSG_CTRUNC)
		return SOCKET_NEXT_DESCRIPTORS;
	return length || CMSG_FIRSTHDR(&msg) ? SOCKET_NEXT_MESSAGE : SOCKET_NEXT_END;
}
