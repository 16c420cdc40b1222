/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-connection.c - see host-connection.h
 *
 * CUDA maps the streams of a process onto CUDA_DEVICE_MAX_CONNECTIONS hardware queues for each device. Each one is in
 * order: a wait that has not ended holds back everything that was submitted after it on the same connection, whatever its
 * stream (facts.md). The driver may give a stream a free connection, but that is not documented, so the model is strict: a
 * stream has one connection from its creation on, and they are given out in rotation. A running kernel holds back nothing,
 * because it ends by itself.
 *
 * Owns two counts for each connection. Never owns a task: the thread of a stream waits here.
 */
#include "host-connection.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/environment.h"
#include "common/handle.h"

#define CONNECTIONS_USUAL 8
#define CONNECTIONS_MAX   32

/* The waits of a connection end in the order in which they were submitted, so counts can stand for them. */
struct host_connection {
	uint64_t submitted, ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* behind a stream's */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct host_connection connections[DEVICE_MAX][CONNECTIONS_MAX];
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

struct host_connection *host_connection_next(unsigned device)
{
	unsigned next;

	pthread_mutex_lock(&lock);
	next = ++created[device] % count;
	pthread_mutex_unlock(&lock);
	return &connections[device][next];
}

struct host_connection *host_connection_default(unsigned device)
{
	return &connections[device][0];
}

void host_connection_submit(struct host_connection *connection, struct host_task *list)
{
	pthread_mutex_lock(&lock);
	for (; list; list = list->next) {
		list->behind = connection->submitted;
		connection->submitted += host_task_waits(list);
	}
	pthread_mutex_unlock(&lock);
}

void host_connection_enter(const struct host_connection *connection, const struct host_task *task)
{
	pthread_mutex_lock(&lock);
	while (connection->ended < task->behind)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
}

void host_connection_leave(struct host_connection *connection, const struct host_task *task)
{
	if (!host_task_waits(task))
		return;
	pthread_mutex_lock(&lock);
	connection->ended++;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
}
