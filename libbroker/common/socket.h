/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - Unix SOCK_SEQPACKET sockets that carry wire messages, with at most one descriptor each.
 *
 * Owns no descriptor: callers close what they got. Knows nothing of sessions or of what messages mean.
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

/* "unix:PATH" to a socket address. -EINVAL with the sentence set. */
int socket_address(const char *address, struct sockaddr_un *sun);

/* Listens at PATH, which must not exist, with that mode. Returns the descriptor. */
int socket_listen(const char *path, mode_t mode);

/*
 * Nobody can send descriptors over it any more, nor over what is accepted from it. What a receiver does not take the
 * kernel closes in its name, and a close may wait: that of a TCP socket that lingers, as long as its sender likes.
 */
bool socket_refuse_descriptors(int sock); /* false: this kernel cannot (before Linux 6.16) */

/* The kernel stamps each message that is sent to this socket from now on with its sender. Negative errno. */
int socket_stamp_senders(int sock);

/* Connects. Returns the descriptor. -ENOENT, -ECONNREFUSED, -EACCES with the sentence set. */
int socket_connect(const struct sockaddr_un *sun);

/*
 * Sends one message, with a descriptor unless fd is -1. -EAGAIN: MSG_DONTWAIT was in flags and the queue is
 * full; -ECONNRESET: the peer is gone; -ETOOMANYREFS, -ENOBUFS, -ENOMEM: the system has no room for it. Sets no sentence: as a
 * rule something is sent on the way of something else, whose sentence must stand.
 */
int socket_send(int sock, const struct wire_message *message, int fd, int flags);

#define SOCKET_PACKET_MAX 16 /* messages: what they cost beside the system call is mostly the packet */
#define SOCKET_SEND_MAX   64 /* messages */

/*
 * Sends the first of them, in packets of so many (SOCKET_PACKET_MAX at most), as much as the kernel takes in one call: how
 * many messages that was, or -1.
 */
int socket_send_many(int sock, const struct wire_message *messages, unsigned count, unsigned packed, int flags);

/* What came beside a packet. */
#define SOCKET_DESCRIPTORS_MAX 253 /* that the kernel lets into one message: SCM_MAX_FD */

struct socket_extra {
	int          fd;          /* -1, or a descriptor (close-on-exec) that is now the caller's; -EMFILE: one was
				     sent and there was no room for it in this process */
	bool         has_sender;
	struct ucred sender;      /* kernel-made; only where SO_PASSCRED is on */
	unsigned     unwanted_count;
	int          unwanted[SOCKET_DESCRIPTORS_MAX]; /* that nobody asked for, now the caller's, also after an error */
};

/*
 * Receives and checks one message. want_fd: whether a descriptor may come with it; more than that, or any where none is
 * wanted, are closed by whom that costs nothing: here, where want_fd says that the peer is trusted, else by the caller.
 * -EAGAIN; -ECONNRESET: the peer is gone; -EPROTO: malformed.
 */
int socket_receive(int sock, struct wire_message *message, struct socket_extra *extra, bool want_fd, int flags);

/* What was sent at once, by one process. Large: not for a stack. */
struct socket_packet {
	size_t              length; /* bytes; 0: the end of file */
	unsigned            count;  /* messages; 1 where the length is that of no whole number of them, or of too many */
	struct socket_extra extra;
	struct wire_message message[SOCKET_PACKET_MAX];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) +
					      CMSG_SPACE(SOCKET_DESCRIPTORS_MAX * sizeof(int))];
};

/* wire_check() of one of its messages. */
int socket_packet_check(const struct socket_packet *packet, unsigned index);

/*
 * Receives one, unchecked, with what came beside it. -EAGAIN; -ECONNRESET: the peer is gone, though descriptors may have come
 * with its last, empty packet.
 */
int socket_receive_packet(int sock, struct socket_packet *packet, bool want_fd, int flags);

#endif
