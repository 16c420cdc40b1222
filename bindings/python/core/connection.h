/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.h - one gpub_client, shared by a Client, its leases and their exported arrays.
 *
 * Owns the gpub_client and its idle streams, and the list of all connections of the process. It is no Python object: an
 * array may end on a thread without the interpreter lock. A use keeps it open: each call that is in the library is one,
 * and each lease that the library holds, and each exported array. It never disconnects while there is one, because that
 * would unmap memory that an array shows.
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
	atomic_uint references, uses;
	atomic_uint exports, held; /* of the uses: arrays, and leases */
	atomic_bool orphaned; /* its Client is closed or was collected: whoever ends the last use disconnects */
	atomic_bool gone;     /* somebody disconnects it */
	struct hold *holds;   /* hold.c's, under connections_lock() */
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

/* A lease is held from now on, or not any more: a use of the caller's goes over to it, or ends. */
void connection_held(struct connection *connection);
void connection_held_end(struct connection *connection);

/* No new use begins. -1: an exception says that a thread is in a call. Again is 0. */
int connection_close(struct connection *connection);
/*
 * Its Client is closed or collected: disconnects as soon as there is no use, without the interpreter lock if that is
 * now.
 */
void connection_abandon(struct connection *connection);

/* Around the lists of connections and of their holds. Nothing else is called meanwhile. */
void connections_lock(void);
void connections_unlock(void);

/* Whether the broker is there, and the client open. */
bool connection_is_alive(struct connection *connection);

/*
 * The process ends: disconnects all connections that only leases use. alone: and arrays, which no thread can use any
 * more. Without the interpreter lock.
 */
void connections_leave(bool alone);

/*
 * A stream on which nothing waits, of the device of such a lease; the caller is in a use. NULL: an exception is set.
 * Give it back when whatever is queued on it ends by itself.
 */
void *connection_stream(struct connection *connection, int device);
void connection_stream_idle(struct connection *connection, int device, void *stream);

#endif
