/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-connection.h - the connections that the streams of a process share, as on CUDA: a wait blocks all tasks that
 * were submitted after it on the same connection.
 *
 * For each task a stream calls host_connection_submit() when the task is queued, host_connection_enter() before the
 * task runs, and host_connection_leave() when it has run.
 */
#ifndef GPUB_HOST_CONNECTION_H
#define GPUB_HOST_CONNECTION_H

#include "host-task.h"

struct host_connection;

/* Sets the number of connections from $CUDA_DEVICE_MAX_CONNECTIONS. Call it before the first stream is made. */
void host_connections_read(void);

/*
 * Return the connection for a new stream, the device's connections in rotation, and that of the device's default
 * stream.
 */
struct host_connection *host_connection_next(unsigned device);
struct host_connection *host_connection_default(unsigned device);

/* Stores in `behind` of each task of the list how many waits were submitted on the connection before the task. */
void host_connection_submit(struct host_connection *connection, struct host_task *list);

/* Waits until all waits that were submitted on the connection before the task have ended. */
void host_connection_enter(const struct host_connection *connection, const struct host_task *task);

/* If the task is a wait, which has ended, counts its end and wakes the streams that the wait blocked. */
void host_connection_leave(struct host_connection *connection, const struct host_task *task);

#endif
