/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joined.h - broker-run --join in the first process of a job on its machine: answers the others (joiner.h), and knows how many of them
 * still run.
 *
 * Owns the directory where they meet, and a pidfd for each process that joined: their exit status is their launcher's
 * business. Trusts nothing that they send.
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
	struct event         *arriving, *patience;
	struct private_socket socket;
	struct joined_worker *workers;  /* by rank; that of rank 0 is not used */
	struct arrival       *arrivals; /* have not said who they are */
	struct children      *children; /* their settings are also those of who joins */
	unsigned              running;  /* of the others: those that have not ended; those that may still come count */
	bool                  released;
	const char           *failure;  /* the message for who joins from now on; NULL: there is none */
	/* a worker is about to be released; 0 or negative errno with the error message */
	int                 (*place)(void *context, unsigned rank, pid_t pid);
	void                (*ended)(void *context); /* running has become 0 */
	void                 *context;
};

/*
 * Listens for the others. job and children must stay. The caller has set place, ended and context. Returns 0 or negative errno with
 * the error message: -EADDRINUSE: a broker-run of this job is this machine's first already. joined_end() follows in either case.
 */
int joined_begin(struct joined *joined, const struct join_job *job, struct children *children, struct event_base *base);

/* Those who have joined, and who will, run their commands. */
void joined_release(struct joined *joined);

/*
 * The broker has failed: who waits gets that message, and so does who comes within the next JOIN_LINGER seconds: without it they would
 * wait for a first process that has ended. Those who run go on. Runs the event loop until all have been told.
 */
#define JOIN_LINGER 5
void joined_fail(struct joined *joined, const char *text);

/*
 * Looks whether those who join still find the socket. 0: they do, or all have joined. 1: it was removed, and is there
 * again. Negative errno with the error message: it is not.
 */
int joined_restore(struct joined *joined);

void joined_end(struct joined *joined);

#endif
