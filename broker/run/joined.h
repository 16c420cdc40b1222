/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joined.h - broker-run --join in the first process (local rank 0) of a job on its machine: answers the job's other
 * processes (joiner.h), the joiners, and counts those that still run.
 *
 * Owns the directory with the socket "join", which it makes again if somebody removes it, and a pidfd for each joiner.
 * A joiner's exit status goes to its launcher. Trusts nothing that a joiner sends.
 */
#ifndef GPUB_RUN_JOINED_H
#define GPUB_RUN_JOINED_H

#include <stdbool.h>

#include <event2/event.h>

#include "children.h"
#include "job.h"
#include "private-socket.h"

struct arrival;
struct joined_worker;

struct joined {
	const struct join_job *job;
	struct event_base    *base;
	struct event         *arriving; /* event: a connection waits to be accepted at the socket */
	struct event         *patience; /* timer: ends the wait for processes that have not joined */
	/* timer: while joiners are missing, checks that the socket's path leads to it, and makes it again if not */
	struct event         *looking;
	bool                  lost;     /* the last check failed, and the log says why */
	struct private_socket socket;
	struct joined_worker *workers;  /* array by rank; the element of rank 0 is not used */
	struct arrival       *arrivals; /* list of connections that have not sent their request yet */
	struct children      *children; /* has the environment variables that joiners get, too */
	unsigned              running;  /* number of joiners that have not ended, those expected to join included */
	bool                  released; /* joined_release() was called */
	const char           *failure;  /* error message for later joiners; NULL: the broker has not failed */
	/*
	 * called before a joiner is released; returns 0, or negative errno with the error message that the joiner gets
	 */
	int                 (*place)(void *context, unsigned rank, pid_t pid);
	void                (*ended)(void *context); /* called when `running` has become 0, but not after a failure */
	void                 *context;  /* first argument of place() and ended() */
};

/*
 * Makes the socket and listens for joiners. job and children must outlive joined. The caller has set place, ended and
 * context. Returns 0 or negative errno with the error message. -EADDRINUSE: another process is rank 0 of this job on
 * this machine. joined_end() follows in either case.
 */
int joined_begin(struct joined *joined, const struct join_job *job, struct children *children, struct event_base *base);

/* Lets all joiners run their commands: those that wait now, and those that join later at once. */
void joined_release(struct joined *joined);

/*
 * After a failure of the broker: sends text to each joiner that waits, and to each that joins within the next
 * JOIN_LINGER seconds, so that none waits for a process that has ended. Released joiners are not affected. Runs the
 * event loop until each joiner has joined or got the message, or the time is over. text must outlive joined.
 */
#define JOIN_LINGER 5 /* seconds */
void joined_fail(struct joined *joined, const char *text);

/* In another process that broker-run has forked: closes all descriptors. Does nothing before joined_begin(). */
void joined_forget(const struct joined *joined);

void joined_end(struct joined *joined);

#endif
