/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discard.h - closes descriptors that clients sent, on a thread of its own.
 *
 * The sender decides how long a close takes: a TCP socket can linger, a file can belong to a file system that the
 * sender serves. The control loop must not wait for it (invariant 5). Linux 6.16 and later refuse such messages at the
 * sender (socket_refuse_descriptors()); there the thread is not started. Debian 12 and Ubuntu 24.04 have older kernels,
 * and a close on the loop's thread would stop every client for as long as one client likes
 * (tests/hostile/descriptors.c). Owns the thread, and the pipe through which descriptors reach it. Never waits for a
 * close.
 */
#ifndef GPUB_DISCARD_H
#define GPUB_DISCARD_H

#include <pthread.h>
#include <stdbool.h>

struct discard {
	bool      needed;  /* descriptors can arrive; if false, no thread runs */
	pthread_t thread;
	int       pipe;    /* write end; the thread reads numbers of descriptors to close */
	unsigned  enough;  /* descriptors in the pipe, beyond which none are fetched from sockets */
};

/*
 * listener: descriptors are refused on it, and on what is accepted from it, if the kernel can. -EAGAIN, -EMFILE: the
 * thread cannot be started.
 */
int discard_start(struct discard *discard, int listener);

/* Starts the thread even if the kernel could refuse descriptors. For tests. */
int discard_start_always(struct discard *discard);

/* Waits for the thread, but not long: if a close hangs, the thread ends with the process. */
void discard_stop(struct discard *discard);

/* About how many descriptors may wait to be closed. The process's limit must leave room for them. */
unsigned discard_most(const struct discard *discard);

/* So many descriptors wait to be closed that no more are fetched. */
bool discard_is_full(const struct discard *discard);

/* Takes the descriptors over. */
void discard_close(struct discard *discard, const int *fds, unsigned count);

/*
 * Reads a message from the socket and discards it with its descriptors. Returns false when no message is left, or
 * where discard_is_full(). The end of file is not a message.
 */
bool discard_message(struct discard *discard, int sock);

/* Closes a client's socket, after the messages that are left in it are discarded. */
void discard_socket(struct discard *discard, int sock);

#endif
