/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-connection.c - the host device's connections: the queues in hardware that the streams of a process share.
 *
 * CUDA maps the streams of a process onto CUDA_DEVICE_MAX_CONNECTIONS connections for each device. Each one is in order: a wait
 * that has not ended holds back everything that was submitted after it on the same connection, whatever its stream (facts.md).
 * Where a connection is free, the driver may choose it for a stream. That is not documented, so the model is strict: a stream has
 * one connection from its creation on, and they are given out in rotation. A kernel that runs holds back nothing: it ends by itself.
 *
 * Owns two counts for each connection. Never owns a task: the thread of a stream waits here.
 */
#include "host.h"

#include <stdlib.h>

#include "common/environment.h"

#define CONNECTIONS_USUAL 8
#define CONNECTIONS_MAX   32

/* The waits of a connection end in the order in which they were submitted, so counts can stand for them. */
struct connection {
	uint64_t submitted, ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* behind a stream's */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct connection connections[DEVICE_MAX][CONNECTIONS_MAX];
static unsigned created[DEVICE_MAX];
static unsigned count;

/* A value that is no count is ignored. */
void host_connections_read(void)
{
	const char *text = environment_get("CUDA_DEVICE_MAX_CONNECTIONS");
	unsigned long value;
	char *end;

	count = CONNECTIONS_USUAL;
	if (!text || *text < '0' || *text > '9')
		return;
	value = strtoul(text, &end, 10);
	if (!*end && value >= 1 && value <= CONNECTIONS_MAX)
		count = (unsigned)value;
}

unsigned host_connection_next(unsigned device)
{
	unsigned next;

	pthread_mutex_lock(&lock);
	next = ++created[device] % count;
	pthread_mutex_unlock(&lock);
	return next;
}

void host_connection_submit(const struct host_stream *stream, struct host_task *list)
{
	struct connection *connection = &connections[stream->device][stream->connection];

	pthread_mutex_lock(&lock);
	for (; list; list = list->next) {
		list->behind = connection->submitted;
		connection->submitted += list->kind == HOST_TASK_WAIT;
	}
	pthread_mutex_unlock(&lock);
}

void host_connection_enter(const struct host_stream *stream, const struct host_task *task)
{
	const struct connection *connection = &connections[stream->device][stream->connection];

	pthread_mutex_lock(&lock);
	while (connection->ended < task->behind)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
}

void host_connection_leave(const struct host_stream *stream, const struct host_task *task)
{
	if (task->kind != HOST_TASK_WAIT)
		return;
	pthread_mutex_lock(&lock);
	connections[stream->device][stream->connection].ended++;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
}
