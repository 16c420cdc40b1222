/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discard.h - closes descriptors that clients sent, on a thread of its own.
 *
 * A close can take as long as whoever sent the descriptor likes: a TCP socket that lingers, a file of a file system
 * that the sender serves. The control loop must not be the one who waits (invariant 5). Linux 6.16 and later refuse
 * such messages at the sender (socket_refuse_descriptors()); for the kernels before that this is the way. Owns the thread and
 * what it was given.
 */
#ifndef GPUB_DISCARD_H
#define GPUB_DISCARD_H

#include <pthread.h>
#include <stdbool.h>

struct discard {
	bool            needed; /* descriptors can come: false, and nothing else here is used */
	pthread_t       thread;
	pthread_mutex_t lock;
	pthread_cond_t  work;
	bool            stopping;
	int            *fds; /* to be closed */
	unsigned        count, room, enough;
};

/* listener: refuses descriptors on it, and on what is accepted from it, where the kernel can. -EAGAIN: no thread. */
int discard_start(struct discard *discard, int listener);

/* The same where the kernel could refuse them, for tests. */
int discard_start_always(struct discard *discard);

/* Does not wait long for a close that hangs: that thread ends with the process. */
void discard_stop(struct discard *discard);

/* How many descriptors may wait to be closed, about: the process's limit has to leave room for them. */
unsigned discard_most(const struct discard *discard);

/* Takes them. */
void discard_close(struct discard *discard, const int *fds, unsigned count);

/*
 * Throws away a message that waits on the socket, with what came in it. False: none is left, or so many descriptors wait
 * to be closed that no more are taken. An end of file is not a message.
 */
bool discard_message(struct discard *discard, int sock);

/* Closes a client's socket, whatever still waits in it. */
void discard_socket(struct discard *discard, int sock);

#endif
