/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discard.h - closes descriptors that clients sent, on threads of its own.
 *
 * The sender decides how long the close of a descriptor takes: a TCP socket can linger, a file can belong to a file
 * system that the sender serves. The control loop must not wait for a close (invariant 5). Linux 6.16 and later refuse
 * messages with descriptors at the sender (socket_refuse_descriptors()), so no thread is started. Debian 12 and Ubuntu
 * 24.04 have older kernels, and clients that connected before the broker started can send descriptors on any kernel.
 *
 * Each descriptor that was received and is not closed yet is charged to the user who sent it. A user may have `most` of
 * these; packets that could bring more stay unread. A thread closes for one user at a time, so a close that blocks
 * delays only the descriptors of that user, until the largest number of threads is reached. The socket of a client that
 * is gone may still have unread packets with descriptors; a thread closes such a socket, from Linux 5.9 on in a way
 * that does not block, and nobody is charged for it. Owns the threads and the descriptors. Only discard_stop() waits
 * for a close. All functions are called by the loop's thread.
 */
#ifndef GPUB_DISCARD_H
#define GPUB_DISCARD_H

#include <stdbool.h>
#include <sys/types.h>

struct accounting;
struct closers;
struct discard_user;
struct discarded;
struct event;
struct event_base;

struct discard {
	/* true: clients can send descriptors. False: the kernel refuses them, and no thread runs */
	bool                 needed;
	unsigned             most;       /* largest number of descriptors of one user that may be pending */
	unsigned             pending;    /* number of descriptors, of all users, that are not closed yet */
	struct accounting   *accounting;
	struct discard_user *users;      /* users with pending descriptors, by uid */
	/* allocated beforehand, for the next packet's descriptors; NULL, or not empty: there was no memory */
	struct discarded    *spare;
	int                 *held;       /* sockets that wait for discard_let_close() */
	unsigned             held_count, held_room; /* number of these sockets, and of places in `held` */
	unsigned             marked;     /* number of the first of them that the next discard_let_close() closes */
	bool                 holds;      /* sockets wait for discard_let_close() */
	struct closers      *closers;    /* what the threads share with the loop */
	struct event        *closed;     /* libevent's event; a thread that has closed a descriptor triggers it */
};

/*
 * Has the kernel refuse descriptors on the listener and on the sockets that are accepted from it. Starts a thread if
 * the kernel cannot do so, or if a client has connected already. -EAGAIN, -EMFILE, -ENFILE, -ENOMEM: the thread cannot
 * be started; the error message is set.
 */
int discard_start(struct discard *discard, struct event_base *base, struct accounting *accounting, int listener);

/* Like discard_start(), but starts the thread even if the kernel could refuse descriptors. For tests. */
int discard_start_always(struct discard *discard, struct event_base *base, struct accounting *accounting);

/*
 * Refunds all charges and ends the threads. Waits at most 1 s; a thread whose close still hangs then ends after the
 * close, or with the process.
 */
void discard_stop(struct discard *discard);

/*
 * Returns how many descriptors may arrive before they are charged: those of one packet. The broker keeps as many below
 * its limit of open files.
 */
unsigned discard_uncharged(const struct discard *discard);

/*
 * Returns true if the next packet in the user's socket may be received. Returns false if the packet has descriptors and
 * the user has too many pending, or its quota or share of descriptors has no room, or the broker has no memory to note
 * them.
 */
bool discard_admits(struct discard *discard, uid_t uid, int sock);

/*
 * Takes over the descriptors of a packet that discard_admits() has admitted, SOCKET_DESCRIPTORS_MAX at most. A thread
 * closes them; without memory, when the next packet is to be admitted.
 */
void discard_close(struct discard *discard, uid_t uid, const int *fds, unsigned count);

/*
 * Reads a message that discard_admits() has admitted from the user's socket, and discards it with its descriptors.
 * Returns false if no message is left. The end of file is not a message.
 */
bool discard_message(struct discard *discard, uid_t uid, int sock);

/*
 * Closes a client's socket. If the socket has unread descriptors, a thread closes it, unless the broker has no memory
 * to note it. While sockets are held, it waits in a list, unless the broker has no memory for that.
 */
void discard_socket(struct discard *discard, int sock);

/* Begins, or ends, to hold sockets back, until another process has closed its duplicates: the last close is here. */
void discard_hold(struct discard *discard, bool holds);

/* Whether sockets are held back. */
bool discard_holds_any(const struct discard *discard);

/* Says that the sockets that wait by now need no more than what that process has been asked by now. */
void discard_mark(struct discard *discard);

/* Closes the sockets that were marked. */
void discard_let_close(struct discard *discard);

/*
 * Returns true if so many sockets with unread descriptors wait to be closed that the broker should accept no
 * connections.
 */
bool discard_is_behind(const struct discard *discard);

#endif
