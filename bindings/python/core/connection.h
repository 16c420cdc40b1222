/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.h - one gpub_client, shared by a Client, its leases and their exported arrays.
 *
 * Owns the gpub_client and its idle streams, and the list of all connections of the process. It is no Python object: an array may end on a thread without the interpreter
 * lock. A use keeps it open: each call that is in the library is one, and each exported array. It never closes while there
 * is one, because that would unmap memory that an array shows.
 */
#ifndef GPUB_PYTHON_CONNECTION_H
#define GPUB_PYTHON_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "python.h"

#define STREAMS_IDLE_MAX 8

struct connection {
	gpub_client *client;
	char *address; /* as the caller gave it, NULL: the default */
	pid_t pid;     /* the process that connected: a forked child may do nothing */
	atomic_uint references, uses, exports;
	atomic_bool orphaned; /* its Client was collected: whoever ends the last use disconnects */
	struct idle_stream {
		void *stream;
		int device;
	} idle[STREAMS_IDLE_MAX]; /* under the interpreter lock */
	unsigned idle_count;
	struct connection *previous, *next; /* of all of this process */
};

/* -1: an exception is set. The caller has the first reference. */
int connection_open(const char *address, struct connection **connection);
void connection_get(struct connection *connection);
void connection_put(struct connection *connection);

/* Begins a use. false: it is closed, or this is a forked child. The second one raises an exception then. */
bool connection_enter(struct connection *connection);
bool connection_enter_or_raise(struct connection *connection);
void connection_leave(struct connection *connection);

/* Disconnects, without the interpreter lock. -1: an exception says who uses it. Again is 0. */
int connection_close(struct connection *connection);
/* Its Client is collected: disconnects as soon as there is no use. */
void connection_abandon(struct connection *connection);

/* Whether the broker is there, and the client open. */
bool connection_is_alive(struct connection *connection);

/*
 * The process ends: disconnects all connections without a use. alone: also those whose only uses are arrays, which no thread can
 * use any more. Without the interpreter lock.
 */
void connections_leave(bool alone);

/*
 * A stream on which nothing waits, of the device of such a lease; the caller is in a use. NULL: an exception is set. Give
 * it back when whatever is queued on it ends by itself.
 */
void *connection_stream(struct connection *connection, int device);
void connection_stream_idle(struct connection *connection, int device, void *stream);

#endif
