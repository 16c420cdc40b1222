/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - a client's session: its socket, and the descriptors on which the service thread sleeps.
 *
 * The program may close these descriptors and open files of its own under their numbers (owned-fd.h). So each
 * function checks that a number still names the library's file before it uses the number, or its caller has checked
 * that. A link that was lost in this way ends as if the broker had ended, with another error message. A check costs a
 * system call. If the program closes all descriptors, the service thread wakes. Owns the descriptors.
 */
#ifndef GPUB_LINK_H
#define GPUB_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/owned-fd.h"

struct link {
	struct owned_fd sock;
	struct owned_fd trip[2]; /* a socket pair: a thread that sleeps on the first wakes when the second closes */
	int             watch;   /* an epoll that has only the socket in it; -1: none */
	atomic_bool     lost;    /* the program has closed one of the descriptors; stays true until link_init() */
	int             look_ms; /* limit in ms of the service thread's next sleep that has no timeout */
	bool            fresh;   /* used by the reader: it has checked the socket, and did nothing long since */
};

/* Sets a link without descriptors. */
void link_init(struct link *link);

/*
 * Makes the watch and the socket pair for a connected socket: messages wake the service thread from now on. Returns
 * 0, or a negative errno with the error message set.
 */
int link_watch(struct link *link);

/* Returns 0 if the socket is still the library's; else -ECONNRESET with the error message set, and the link is lost. */
int link_check(struct link *link);

/*
 * For the reader: link_check(), unless fresh is set; then fresh is set. So a short exchange with the broker (11 us)
 * has one check (0.3 us). The reader clears fresh when it begins, and when it has slept or opened memory. False: the
 * link is lost.
 */
bool link_is_fresh(struct link *link);

/* Whether socket, watch and trip[0], on which the service thread sleeps, are the library's. If not: lost. */
bool link_stands(struct link *link);

/*
 * Sets which events of the socket wake the service thread from now on, in the epoll that it sleeps on (link->watch).
 * False: the program that uses the library has closed the epoll, or the kernel is short of memory. Call it only after
 * link_check() has found the socket to be the library's.
 */
bool link_watch_for(struct link *link, uint32_t events);

/*
 * For the service thread: sleeps at most timeout_ms (-1: look_ms) or until the watch has an event. Returns whether it
 * has one. The caller has checked the link.
 */
bool link_sleep(struct link *link, int timeout_ms);

/* For the reader: sleeps at most timeout_ms. True: the socket has a message, or the broker has hung up. */
bool link_await(struct link *link, int timeout_ms);

/* Returns the events of the socket that link->watch reports now, without a wait. Call it only after link_stands(). */
uint32_t link_events(const struct link *link);

/* Shuts the socket down or, if the program closed the socket, trip[1]. Either wakes the service thread. */
void link_shutdown(struct link *link, int how);

/* Closes the descriptors that are still the library's. Async-signal-safe: also for a forked child. */
void link_close(struct link *link);

/*
 * Why the session has ended: the program closed a descriptor, or the broker has ended or disconnected.
 * link_lost_error() sets that text as the error message and returns -ECONNRESET.
 */
int link_lost_error(const struct link *link);
const char *link_lost_text(const struct link *link);

#endif
