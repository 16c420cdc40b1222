/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-connection.h - the connections that the streams of a process share, as on CUDA: a wait blocks all tasks that
 * were submitted after it on the same connection.
 *
 * For each task a stream calls submit when the task is queued, enter before the task runs, and leave when it has run.
 */
#ifndef GPUB_HOST_CONNECTION_H
#define GPUB_HOST_CONNECTION_H

#include "host-task.h"

struct host_connection;

/* Reads CUDA_DEVICE_MAX_CONNECTIONS. Call it before the first stream. */
void host_connections_read(void);

/*
 * Return the connection for a new stream (the device's connections in rotation), and for the device's default stream.
 */
struct host_connection *host_connection_next(unsigned device);
struct host_connection *host_connection_default(unsigned device);

/* Records in each task of the list how many waits were submitted on the connection before it. */
void host_connection_submit(struct host_connection *connection, struct host_task *list);

/* Waits until all waits submitted before the task on its connection have ended. */
void host_connection_enter(const struct host_connection *connection, const struct host_task *task);

/* Counts the task's end, if it is a wait, and wakes the streams that it blocked. */
void host_connection_leave(struct host_connection *connection, const struct host_task *task);

#endif
