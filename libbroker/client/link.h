/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - a client's session: its socket, and the descriptors on which the service thread sleeps.
 *
 * The program may close these descriptors and open files of its own under their numbers (owned-fd.h). So each
 * function checks that a number still names the library's file before it uses the number, or its caller has checked
 * that. A link whose descriptors the program has closed ends as if the broker had ended, with another error message. A
 * check costs a system call. If the program closes all descriptors, the service thread wakes. Owns the descriptors.
 */
#ifndef GPUB_LINK_H
#define GPUB_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/owned-fd.h"

struct link {
	struct owned_fd sock;    /* the connection to the broker */
	struct owned_fd trip[2]; /* a socket pair: a thread that sleeps on trip[0] wakes when trip[1] closes */
	int             watch;   /* the epoll on which the service thread sleeps, with `sock` alone in it; -1: none */
	atomic_bool     lost;    /* the program has closed one of these descriptors; stays true until link_init() */
	int             look_ms; /* limit, in milliseconds, on the service thread's next sleep that has no timeout */
	/* used only by the reader: it has checked `sock`, and done nothing that takes long since */
	bool            fresh;
};

/* Makes *link a link without descriptors. */
void link_init(struct link *link);

/*
 * Makes link->watch and link->trip for the connected socket link->sock, whose messages wake the service thread from now
 * on. Returns 0, or a negative errno with the error message set.
 */
int link_watch(struct link *link);

/*
 * Checks that link->sock still names the library's socket. Returns 0; else marks the link as lost, and returns
 * -ECONNRESET with the error message set.
 */
int link_check(struct link *link);

/*
 * For the reader: makes link_check() unless link->fresh is set, and sets link->fresh. So a short exchange with the
 * broker (11 us) has one check (0.3 us). The reader clears link->fresh when it begins, and when it has slept or opened
 * memory. False: the link is lost.
 */
bool link_is_fresh(struct link *link);

/*
 * Whether link->sock, and link->watch and link->trip[0], on which the service thread sleeps, still name the library's
 * files. If not, or if the kernel stays short of memory, marks the link as lost.
 */
bool link_stands(struct link *link);

/*
 * Sets which events of the socket wake the service thread from now on, in the epoll that it sleeps on (link->watch).
 * False: the program that uses the library has closed the epoll, or the kernel is short of memory. Call it only after
 * link_check() has found the socket to be the library's.
 */
bool link_watch_for(struct link *link, uint32_t events);

/*
 * For the service thread: sleeps until link->watch reports an event, or for at most timeout_ms milliseconds
 * (-1: link->look_ms). Returns whether there is an event. Call it only after link_stands().
 */
bool link_sleep(struct link *link, int timeout_ms);

/*
 * For the reader: sleeps until the socket can be read, for at most timeout_ms milliseconds. True: the socket has a
 * message, or the broker has hung up.
 */
bool link_await(struct link *link, int timeout_ms);

/* Returns the events of the socket that link->watch reports now, without a wait. Call it only after link_stands(). */
uint32_t link_events(const struct link *link);

/*
 * Shuts the socket down, as shutdown(2) with `how`, or trip[1] if the program has closed the socket. Either wakes the
 * service thread.
 */
void link_shutdown(struct link *link, int how);

/*
 * Closes the link's descriptors that still name the library's files. Async-signal-safe: a forked child calls it, too.
 */
void link_close(struct link *link);

/*
 * link_lost_text() returns why the session has ended: the program closed a descriptor of the link, or the broker has
 * ended or disconnected. link_lost_error() sets this text as the error message and returns -ECONNRESET.
 */
int link_lost_error(const struct link *link);
const char *link_lost_text(const struct link *link);

#endif
