/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - a client's session: its socket, and what the service thread sleeps on.
 *
 * The program may close these descriptors and open files of its own under their numbers (owned-fd.h). So each function
 * that uses one asks first whether it is still the library's, and touches nothing of the program's. A link that was
 * lost in this way ends as one whose broker is gone, with a message of its own. The check costs a system call, where
 * one is made anyway. The service thread is woken when all descriptors are closed. Owns the descriptors.
 */
#ifndef GPUB_LINK_H
#define GPUB_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/owned-fd.h"

struct link {
	struct owned_fd sock;
	struct owned_fd trip[2]; /* ends of a socket pair: who sleeps on the first wakes when the second closes */
	int             watch;   /* an epoll that has the socket alone; -1: none */
	atomic_bool     lost;    /* the program has closed a descriptor; for good */
	int             look_ms; /* the service thread's: how long its next sleep may last */
	bool            fresh;   /* the reader's: it has checked the socket, and nothing since took long */
};

/* No session yet. */
void link_init(struct link *link);

/*
 * Makes the rest for a socket that is connected; messages wake the service thread. Negative errno, error message set.
 */
int link_watch(struct link *link);

/* 0 if the socket is still the library's; else -ECONNRESET with the error message set. */
int link_check(struct link *link);

/*
 * For the reader: the same as link_check(), at most once in a short exchange with the broker, which takes 11 us (a
 * check takes 0.3 us). The reader clears fresh when it begins, and whenever it has slept or opened memory. False: it is
 * lost.
 */
bool link_is_fresh(struct link *link);

/* Whether the socket, the watch and the end on which the service thread sleeps are still the library's. */
bool link_stands(struct link *link);

/*
 * Which events wake the service thread from now on. False: the program closed the watch, or the kernel is short of
 * memory. The caller has checked the socket.
 */
bool link_watch_for(struct link *link, uint32_t events);

/* Sleeps at most so many milliseconds (-1: without limit). True: an event has come. The caller has checked the link. */
bool link_sleep(struct link *link, int timeout_ms);

/* The same for the reader, who sleeps on the socket. True: a message is there, or the broker has hung up. */
bool link_await(struct link *link, int timeout_ms);

/* The events that have come. The caller has checked the link. */
uint32_t link_events(const struct link *link);

/* Shuts the socket down, which wakes the service thread; that wakes also where the program closed the socket alone. */
void link_shutdown(struct link *link, int how);

/* Closes what is still the library's. Async-signal-safe: also for a forked child. */
void link_close(struct link *link);

/*
 * Why there is no session any more: the program's deed, or the broker's. Sets the error message. Returns -ECONNRESET.
 */
int link_lost_error(const struct link *link);
const char *link_lost_text(const struct link *link);

#endif
