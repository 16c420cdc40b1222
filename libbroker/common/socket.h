/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - Unix SOCK_SEQPACKET sockets that carry wire messages, each with at most one descriptor.
 *
 * Owns no descriptor: callers close the descriptors that these functions return. Knows nothing of sessions, nor what
 * messages mean.
 */
#ifndef GPUB_SOCKET_H
#define GPUB_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "wire.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

#define SOCKET_ADDRESS_SIZE (sizeof("unix:") + sizeof(((struct sockaddr_un *)0)->sun_path))

/* Converts "unix:PATH" to a socket address. -EINVAL, error message set: the text has another form, or is too long. */
int socket_address(const char *address, struct sockaddr_un *sun);

/*
 * Makes a socket at PATH, where no file may exist, sets the file's mode, and listens. Returns the descriptor, or a
 * negative errno with the error message set.
 */
int socket_listen(const char *path, mode_t mode);

/*
 * Makes the kernel refuse descriptors that are sent to this socket, and to sockets accepted from it. Otherwise the
 * kernel closes each descriptor that the receiver does not take in the receiver's context, where a close may wait:
 * the close of a lingering TCP socket lasts as long as its sender likes. Returns false if the kernel has no such
 * option (before Linux 6.16).
 */
bool socket_refuse_descriptors(int sock);

/*
 * Makes the kernel add the sender's credentials to each message sent to this socket from now on. 0 or negative errno.
 */
int socket_stamp_senders(int sock);

/* Makes a socket and connects it. Returns its descriptor, or a negative errno with the error message set. */
int socket_connect(const struct sockaddr_un *sun);

/*
 * Connects as socket_connect() does, but waits `seconds` at most while the server's queue of connections is full, then
 * returns -ETIMEDOUT. seconds 0: no limit.
 */
int socket_connect_within(const struct sockaddr_un *sun, unsigned seconds);

/* Room for the control message of one descriptor. */
union socket_control {
	struct cmsghdr header;
	char           bytes[CMSG_SPACE(sizeof(int))];
};

/* Puts a copy of the descriptor beside what *msg sends; *control is part of *msg from then on. fd -1: does nothing. */
void socket_attach(struct msghdr *msg, union socket_control *control, int fd);

/*
 * Sends one message, with a descriptor unless fd is -1. -EAGAIN: flags has MSG_DONTWAIT, and the queue is full.
 * -ECONNRESET: the connection has ended, or sendmsg(2) has another error. -ETOOMANYREFS: too many descriptors are on
 * their way. -ENOBUFS, -ENOMEM: the system has no memory for the message.
 * Does not change the thread's error message, because most sends follow an operation whose error message must stay.
 */
int socket_send(int sock, const struct wire_message *message, int fd, int flags);

#define SOCKET_PACKET_MAX 16 /* messages in a packet at most; a packet costs much, each message in it little */
#define SOCKET_SEND_MAX   64 /* messages in one call of socket_send_many() at most */

/*
 * Sends as many of the `count` messages as the kernel accepts in one call, with `packed` messages in each packet
 * (SOCKET_PACKET_MAX at most). Returns the number of messages sent, or -1 with errno set.
 */
int socket_send_many(int sock, const struct wire_message *messages, unsigned count, unsigned packed, int flags);

#define SOCKET_DESCRIPTORS_MAX 253 /* descriptors of one packet at most: the kernel's SCM_MAX_FD */

/* The descriptors and the sender's credentials that were received with a packet. */
struct socket_extra {
	int          fd;          /* the wanted descriptor (close-on-exec), now the caller's; -1: none was sent;
				     -EMFILE: one was sent, but this process has no descriptor left */
	bool         has_sender;  /* whether `sender` is valid */
	struct ucred sender;      /* credentials, from the kernel; only if SO_PASSCRED is set */
	unsigned     unwanted_count;
	int          unwanted[SOCKET_DESCRIPTORS_MAX]; /* descriptors for the caller to close, also after an error */
};

/*
 * Receives one message and checks its form. want_fd true: the peer is trusted, and one descriptor may come with the
 * message; further descriptors are closed here. want_fd false: all descriptors are in extra->unwanted, and the caller
 * closes them, because a close may wait. -EAGAIN: no message yet. -ECONNRESET: the connection has ended, or recvmsg(2)
 * has another error. -EPROTO: the message is malformed.
 */
int socket_receive(int sock, struct wire_message *message, struct socket_extra *extra, bool want_fd, int flags);

/*
 * A packet: the messages that one process sent at once. Too large for a stack. If it lies in memory that outlives this
 * process, another process may take over what was received (socket_packet_again()).
 */
struct socket_packet {
	struct mmsghdr      received; /* of recvmmsg(2): the kernel stores here how much it has received */
	struct iovec        io;
	size_t              length; /* bytes that were received; 0: end of file */
	unsigned            count;  /* number of messages; 1 if length is not that of 1 to SOCKET_PACKET_MAX messages */
	struct socket_extra extra;
	struct wire_message message[SOCKET_PACKET_MAX];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) +
					      CMSG_SPACE(SOCKET_DESCRIPTORS_MAX * sizeof(int))];
};

/* Checks the form of message `index` of the packet: returns the result of wire_check(). */
int socket_packet_check(const struct socket_packet *packet, unsigned index);

/*
 * Receives a packet with its descriptors and credentials, and does not check its messages. want_fd: as for
 * socket_receive(). -EAGAIN: no packet yet. -ECONNRESET: the connection has ended, but packet->extra may have
 * descriptors of a last, empty packet.
 */
int socket_receive_packet(int sock, struct socket_packet *packet, bool want_fd, int flags);

/* Says that nothing is received. socket_receive_packet() does so itself. */
void socket_packet_clear(struct socket_packet *packet);

/*
 * Takes a packet over that another process has received into this memory, or into memory that this is a copy of. The
 * descriptors that came with it are gone. Returns 0; -EAGAIN: it has received none; -EPROTO: there were descriptors.
 */
int socket_packet_again(struct socket_packet *packet);

/* What the next receive from a socket would return. */
enum socket_next {
	SOCKET_NEXT_NONE,        /* nothing yet, or an error */
	SOCKET_NEXT_MESSAGE,     /* a packet without descriptors */
	SOCKET_NEXT_DESCRIPTORS, /* a packet with descriptors */
	SOCKET_NEXT_END          /* end of file */
};

/*
 * Returns what the next receive from the socket would return, without receiving or waiting. The socket must have
 * socket_stamp_senders() to tell an empty packet from the end of file.
 */
enum socket_next socket_next(int sock);

#endif
