/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discard.h - closes descriptors that clients sent, on threads of its own.
 *
 * The sender decides how long a close takes: a TCP socket can linger, a file can belong to a file system that the
 * sender serves. The control loop must not wait for it (invariant 5). Linux 6.16 and later refuse such messages at the
 * sender (socket_refuse_descriptors()); there no thread is started. Debian 12 and Ubuntu 24.04 have older kernels, and
 * clients that connected before the broker started can send descriptors on any kernel.
 *
 * Each descriptor that was received and is not closed yet is charged to its sender, who may have `most` of them. Beyond that its
 * packets stay unread. A thread closes for one user at a time, so a close that blocks delays that user's descriptors alone.
 * Sockets of clients that are gone, whose packets stay unread for ever, are closed in a way that does not block, and charged to nobody.
 * Owns the threads and the descriptors. Never waits for a close. All functions belong to the loop's thread.
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
	bool                 needed;     /* descriptors can arrive; if false, no thread runs */
	unsigned             most;       /* descriptors of one user that may wait to be closed */
	unsigned             pending;    /* descriptors that are not closed yet, of all users */
	struct accounting   *accounting;
	struct discard_user *users;      /* those who have some pending, by uid */
	struct discarded    *spare;      /* takes the next packet's descriptors; NULL: there was no memory for it */
	struct closers      *closers;    /* what the threads share with the loop */
	struct event        *closed;     /* the threads have closed something */
};

/*
 * Refuses descriptors on the listener, and on what is accepted from it, if the kernel can. Starts a thread if it cannot, or if
 * a client has connected already. -EAGAIN, -EMFILE, -ENOMEM: the thread cannot be started; the error message is set.
 */
int discard_start(struct discard *discard, struct event_base *base, struct accounting *accounting, int listener);

/* Starts the thread even if the kernel could refuse descriptors. For tests. */
int discard_start_always(struct discard *discard, struct event_base *base, struct accounting *accounting);

/* Refunds all charges, and ends the threads. Waits for them a second at most: one whose close hangs ends with the process. */
void discard_stop(struct discard *discard);

/* Descriptors that can arrive before their sender is charged: the process's limit must leave room for them. */
unsigned discard_uncharged(const struct discard *discard);

/* Whether the next packet of the user's socket may be received. False: it has descriptors, and too many of the user's are pending. */
bool discard_admits(struct discard *discard, uid_t uid, int sock);

/* Takes over descriptors that came with a packet of that user's, at most SOCKET_DESCRIPTORS_MAX. */
void discard_close(struct discard *discard, uid_t uid, const int *fds, unsigned count);

/*
 * Reads a message from the user's socket and discards it with its descriptors. Returns false when no message is left, or
 * the next one is not admitted. The end of file is not a message.
 */
bool discard_message(struct discard *discard, uid_t uid, int sock);

/* Closes a client's socket. If descriptors are left in it, a thread closes it with them. */
void discard_socket(struct discard *discard, int sock);

/* Whether so many such sockets are pending that no connections should be accepted for the moment. */
bool discard_is_behind(const struct discard *discard);

#endif
