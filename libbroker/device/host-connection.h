/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-connection.h - the connections that the streams of a process share, as on CUDA: a wait holds back what comes behind it.
 *
 * For each task a stream calls submit when it is queued, enter before it runs, and leave when it has run.
 */
#ifndef GPUB_HOST_CONNECTION_H
#define GPUB_HOST_CONNECTION_H

#include "host-task.h"

struct host_connection;

/* Reads CUDA_DEVICE_MAX_CONNECTIONS. Call it before the first stream. */
void host_connections_read(void);

/* For a stream that was created, or for a device's default stream. */
struct host_connection *host_connection_next(unsigned device);
struct host_connection *host_connection_default(unsigned device);

void host_connection_submit(struct host_connection *connection, struct host_task *list);
void host_connection_enter(const struct host_connection *connection, const struct host_task *task); /* waits */
void host_connection_leave(struct host_connection *connection, const struct host_task *task);

#endif
