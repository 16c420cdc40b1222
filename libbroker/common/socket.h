/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - Unix SOCK_SEQPACKET sockets that carry wire messages, with at most one descriptor each.
 *
 * Owns no descriptor: callers close those that they get. Knows nothing of sessions or of the meaning of messages.
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

/* "unix:PATH" to a socket address. -EINVAL with the error message set. */
int socket_address(const char *address, struct sockaddr_un *sun);

/* Listens at PATH, which must not exist, with that mode. Returns the descriptor. */
int socket_listen(const char *path, mode_t mode);

/*
 * Refuses descriptors on this socket, and on those that are accepted from it. The kernel closes a descriptor that a receiver
 * does not take in the receiver's context, and a close may wait: that of a lingering TCP socket as long as its sender likes.
 */
bool socket_refuse_descriptors(int sock); /* false: this kernel cannot (before Linux 6.16) */

/* From now on the kernel adds its sender to each message that is sent to this socket. Negative errno. */
int socket_stamp_senders(int sock);

/* Connects. Returns the descriptor. -ENOENT, -ECONNREFUSED, -EACCES with the error message set. */
int socket_connect(const struct sockaddr_un *sun);

/* The same. -ETIMEDOUT: so many seconds long the server's queue was full; 0: it may be for ever. */
int socket_connect_within(const struct sockaddr_un *sun, unsigned seconds);

/*
 * Sends one message, with a descriptor unless fd is -1. -EAGAIN: MSG_DONTWAIT was in flags and the queue is full;
 * -ECONNRESET: the peer is gone; -ETOOMANYREFS, -ENOBUFS, -ENOMEM: the system has no memory for it. Sets no error
 * message: most sends are part of something else, whose message must stay.
 */
int socket_send(int sock, const struct wire_message *message, int fd, int flags);

#define SOCKET_PACKET_MAX 16 /* messages: most of the cost of a message is its packet */
#define SOCKET_SEND_MAX   64 /* messages */

/*
 * Sends as many of the messages as the kernel accepts in one call, in packets of packed messages (SOCKET_PACKET_MAX at
 * most). Returns their number, or -1.
 */
int socket_send_many(int sock, const struct wire_message *messages, unsigned count, unsigned packed, int flags);

/* What came with a packet. */
#define SOCKET_DESCRIPTORS_MAX 253 /* the kernel's limit for one message: SCM_MAX_FD */

struct socket_extra {
	int          fd;          /* -1, or a descriptor (close-on-exec) that is now the caller's; -EMFILE: one was
				     sent, and this process has no descriptor left */
	bool         has_sender;
	struct ucred sender;      /* kernel-made; only where SO_PASSCRED is on */
	unsigned     unwanted_count;
	int          unwanted[SOCKET_DESCRIPTORS_MAX]; /* unrequested ones, now the caller's, also after an error */
};

/*
 * Receives and checks one message. want_fd: one descriptor may come with it, and the peer is trusted: other descriptors
 * are closed here. Else the caller closes what came, because a close may wait. -EAGAIN; -ECONNRESET: the peer is gone;
 * -EPROTO: malformed.
 */
int socket_receive(int sock, struct wire_message *message, struct socket_extra *extra, bool want_fd, int flags);

/* A packet: what one process sent at once. Large: not for a stack. */
struct socket_packet {
	size_t              length; /* bytes; 0: the end of file */
	unsigned            count;  /* messages; 1 if the length is not a whole number of them, or too large */
	struct socket_extra extra;
	struct wire_message message[SOCKET_PACKET_MAX];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) +
					      CMSG_SPACE(SOCKET_DESCRIPTORS_MAX * sizeof(int))];
};

/* wire_check() of one of its messages. */
int socket_packet_check(const struct socket_packet *packet, unsigned index);

/*
 * Receives a packet, unchecked, and what came with it. -EAGAIN; -ECONNRESET: the peer is gone, but descriptors may have
 * come with its last, empty packet.
 */
int socket_receive_packet(int sock, struct socket_packet *packet, bool want_fd, int flags);

/* What a receive from the socket would bring. */
enum socket_next {
	SOCKET_NEXT_NONE,        /* nothing yet, or the socket failed */
	SOCKET_NEXT_MESSAGE,     /* a packet without descriptors */
	SOCKET_NEXT_DESCRIPTORS, /* a packet with some */
	SOCKET_NEXT_END          /* the end of file */
};

/* Looks without receiving and without waiting. Only a socket that stamps its senders tells an empty packet from the end of file. */
enum socket_next socket_next(int sock);

#endif
