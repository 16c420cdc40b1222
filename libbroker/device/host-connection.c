/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-connection.c - see host-connection.h
 *
 * CUDA maps the streams of a process onto CUDA_DEVICE_MAX_CONNECTIONS hardware queues for each device, the
 * connections. A wait that has not ended blocks everything that was submitted after it on the same connection, on any
 * stream (facts.md). The driver may move a stream to a free connection, but does not document this. So the model is
 * strict: a stream keeps the connection that it gets at its creation, and new streams get the connections in
 * rotation. A running kernel blocks nothing in the model, because it ends without the help of other streams.
 *
 * Owns two counts for each connection. Never owns a task. Blocks the thread of the stream that calls it.
 */
#include "host-connection.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/environment.h"
#include "common/handle.h"

#define CONNECTIONS_USUAL 8
#define CONNECTIONS_MAX   32

/* How many waits were submitted, and have ended, so far. A connection's waits end in the order of their submission. */
struct host_connection {
	uint64_t submitted, ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all counts; taken after a stream's lock */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* a wait has ended on some connection */
static struct host_connection connections[DEVICE_MAX][CONNECTIONS_MAX];
static unsigned created[DEVICE_MAX]; /* number of streams made on each device so far */
static unsigned count; /* number of connections of each device */

/* Ignores a value of the variable that is not a number from 1 to CONNECTIONS_MAX. */
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
