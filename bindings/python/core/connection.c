/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c - see connection.h */
#include "connection.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "module.h"
#include "patience.h"

#define CLOSED        (1u << 31) /* in uses */
#define CLOSE_TRIES   1000
#define LEAVE_SECONDS 12         /* a disconnect waits ten for signals to land */

/* ---- all of them ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t none_leaves = PTHREAD_COND_INITIALIZER;
static pthread_once_t watched = PTHREAD_ONCE_INIT;
static struct connection *all;
static unsigned leaving; /* threads that disconnect */

/* A child can use none of its parent's, and another thread may have had the lock. */
static void forget_all(void)
{
	pthread_mutex_init(&list_lock, NULL);
	pthread_cond_init(&none_leaves, NULL);
	all = NULL;
	leaving = 0;
}

/* The interpreter is gone: no thread that disconnects needs it. Their arrays were collected last. */
static void await_leaving(void)
{
	struct timespec last;

	clock_gettime(CLOCK_REALTIME, &last);
	last.tv_sec += LEAVE_SECONDS;
	connections_lock();
	while (leaving && !pthread_cond_timedwait(&none_leaves, &list_lock, &last))
		;
	connections_unlock();
}

static void watch_process(void)
{
	pthread_atfork(NULL, NULL, forget_all);
	Py_AtExit(await_leaving);
}

void connections_lock(void)
{
	pthread_mutex_lock(&list_lock);
}

void connections_unlock(void)
{
	pthread_mutex_unlock(&list_lock);
}

static void list_add(struct connection *connection)
{
	pthread_once(&watched, watch_process);
	connections_lock();
	connection->next = all;
	if (all)
		all->previous = connection;
	all = connection;
	connections_unlock();
}

static void list_remove(struct connection *connection)
{
	if (getpid() != connection->pid)
		return;
	connections_lock();
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		all = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	connections_unlock();
}

/* ---- its life ---- */

static pid_t connected; /* the process that did, perhaps the parent; under the interpreter lock */

/* No device works in a child of a process that has used it. */
static bool parent_has_connected(void)
{
	return connected && connected != getpid();
}

int connection_open(const char *address, struct connection **connection)
{
	struct connection *made = calloc(1, sizeof *made);
	int error;

	if (made && address)
		made->address = strdup(address);
	if (!made || (address && !made->address)) {
		free(made);
		PyErr_NoMemory();
		return -1;
	}
	PATIENTLY(error, gpub_connect(&made->client, address));
	if (!error && PyErr_Occurred())
		gpub_disconnect(made->client);
	if (error || PyErr_Occurred()) {
		raise_os(error == -ENOTSUP && parent_has_connected() ? -ECHILD : error);
		free(made->address);
		free(made);
		return -1;
	}
	gpub_set_flags(made->client, GPUB_BACKGROUND_CLOSE); /* nobody trims when an array is collected */
	made->pid = connected = getpid();
	made->references = 1;
	list_add(made);
	*connection = made;
	return 0;
}

void connection_get(struct connection *connection)
{
	atomic_fetch_add(&connection->references, 1);
}

void connection_put(struct connection *connection)
{
	if (atomic_fetch_sub(&connection->references, 1) != 1)
		return;
	list_remove(connection);
	free(connection->address);
	free(connection);
}

/* ---- uses ---- */

bool connection_enter(struct connection *connection)
{
	if (getpid() != connection->pid)
		return false;
	if (!(atomic_fetch_add(&connection->uses, 1) & CLOSED))
		return true;
	atomic_fetch_sub(&connection->uses, 1);
	return false;
}

bool connection_enter_or_raise(struct connection *connection)
{
	if (connection_enter(connection))
		return true;
	if (getpid() != connection->pid)
		raise_os_text(-ECHILD, "this client belongs to the parent of this process: start the child with exec "
				       "(multiprocessing: 'spawn' or 'forkserver'), and connect there");
	else
		PyErr_SetString(PyExc_ValueError, "the client is closed");
	return false;
}

void connection_held(struct connection *connection)
{
	atomic_fetch_add(&connection->held, 1);
}

void connection_held_end(struct connection *connection)
{
	atomic_fetch_sub(&connection->held, 1);
	connection_leave(connection);
}

static void disconnect(struct connection *connection)
{
	while (connection->idle_count)
		gpub_stream_destroy(connection->idle[--connection->idle_count].stream);
	gpub_disconnect(connection->client);
}

/*
 * True: it has no other uses than leases and arrays, and no new one begins. An array that ends just now is waited for.
 */
static bool close_begin(struct connection *connection)
{
	unsigned uses;

	for (int tries = 0; tries < CLOSE_TRIES; tries++) {
		uses = atomic_load(&connection->exports) + atomic_load(&connection->held);
		if (atomic_compare_exchange_strong(&connection->uses, &uses, uses | CLOSED))
			return true;
		sched_yield();
	}
	return false;
}

/* True for the one caller that disconnects: there is no use. */
static bool end_begin(struct connection *connection)
{
	unsigned uses = atomic_load(&connection->uses);

	if (getpid() != connection->pid || uses & ~CLOSED)
		return false;
	return atomic_compare_exchange_strong(&connection->uses, &uses, CLOSED) &&
	       !atomic_exchange(&connection->gone, true);
}

static void leaving_add(int count)
{
	connections_lock();
	leaving += (unsigned)count;
	if (!leaving)
		pthread_cond_broadcast(&none_leaves);
	connections_unlock();
}

static void *disconnect_thread(void *connection)
{
	disconnect(connection);
	connection_put(connection);
	leaving_add(-1);
	return NULL;
}

/*
 * The last array of a collected Client has ended, on a thread that may hold the interpreter lock or any lock of a
 * framework: another thread waits for the device, and the process's end for that thread. Without one, the process's end
 * disconnects.
 */
static void disconnect_later(struct connection *connection)
{
	pthread_t thread;

	if (!end_begin(connection))
		return;
	connection_get(connection);
	leaving_add(1);
	if (!pthread_create(&thread, NULL, disconnect_thread, connection)) {
		pthread_detach(thread);
		return;
	}
	leaving_add(-1);
	connection_put(connection);
}

void connection_leave(struct connection *connection)
{
	unsigned uses = atomic_fetch_sub(&connection->uses, 1);

	if ((uses & ~CLOSED) == 1 && atomic_load(&connection->orphaned))
		disconnect_later(connection);
}

/* ---- the end ---- */

int connection_close(struct connection *connection)
{
	if (getpid() != connection->pid || atomic_load(&connection->uses) & CLOSED)
		return 0;
	if (close_begin(connection))
		return 0;
	raise_os_text(-EBUSY, "another thread is in a call of this client: close it when that has returned");
	return -1;
}

void connection_abandon(struct connection *connection)
{
	atomic_store(&connection->orphaned, true);
	if (!end_begin(connection))
		return;
	Py_BEGIN_ALLOW_THREADS
	disconnect(connection);
	Py_END_ALLOW_THREADS
}

bool connection_is_alive(struct connection *connection)
{
	bool alive;
	int count;

	if (!connection_enter(connection))
		return false;
	alive = !gpub_device_count(connection->client, &count);
	connection_leave(connection);
	return alive;
}

/* Whether it has only uses of which nobody makes use any more; the caller then disconnects it. */
static bool claim(struct connection *connection, bool alone)
{
	unsigned exports = atomic_load(&connection->exports), uses = atomic_load(&connection->uses);

	if ((uses & ~CLOSED) != exports + atomic_load(&connection->held) || (exports && !alone))
		return false;
	return atomic_compare_exchange_strong(&connection->uses, &uses, uses | CLOSED) &&
	       !atomic_exchange(&connection->gone, true);
}

/* One that is to be disconnected, with a reference to it. NULL: there is none. */
static struct connection *claim_any(bool alone)
{
	struct connection *connection;

	connections_lock();
	for (connection = all; connection && !claim(connection, alone); connection = connection->next)
		;
	if (connection)
		connection_get(connection);
	connections_unlock();
	return connection;
}

void connections_leave(bool alone)
{
	struct connection *connection;

	while ((connection = claim_any(alone))) {
		disconnect(connection);
		connection_put(connection);
	}
}

/* ---- streams ---- */

void *connection_stream(struct connection *connection, int device)
{
	void *stream;
	int error;

	for (unsigned i = 0; i < connection->idle_count; i++)
		if (connection->idle[i].device == device) {
			stream = connection->idle[i].stream;
			connection->idle[i] = connection->idle[--connection->idle_count];
			return stream;
		}
	Py_BEGIN_ALLOW_THREADS
	error = gpub_stream_create(connection->client, device == GPUB_HOST ? GPUB_CURRENT : device, &stream);
	Py_END_ALLOW_THREADS
	return error ? raise_os(error), NULL : stream;
}

void connection_stream_idle(struct connection *connection, int device, void *stream)
{
	if (connection->idle_count < STREAMS_IDLE_MAX)
		connection->idle[connection->idle_count++] = (struct idle_stream){ .stream = stream, .device = device };
	else
		gpub_stream_destroy(stream);
}
