/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c - see hold.h */
#include "hold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "module.h"
#include "patience.h"

/* ---- references ---- */

struct hold *hold_new(struct connection *connection, const char *name, struct maybe at, struct maybe signal)
{
	struct hold *hold = calloc(1, sizeof *hold);

	if (!hold)
		return (struct hold *)PyErr_NoMemory();
	connection_get(connection);
	hold->connection = connection;
	hold->references = 1;
	hold->state = HOLD_ENDED; /* until it is acquired */
	hold->at = at;
	hold->signal = signal;
	snprintf(hold->name, sizeof hold->name, "%s", name);
	snprintf(hold->label, sizeof hold->label, *name ? "'%s'" : "a redeemed buffer", hold->name);
	return hold;
}

/* ---- what the library holds ---- */

void hold_acquired(struct hold *hold)
{
	struct connection *connection = hold->connection;

	hold->state = HOLD_HELD;
	atomic_store(&hold->open, true);
	connection_enter(connection); /* it is open: the caller is in a use */
	connection_held(connection);
	connections_lock();
	hold->next = connection->holds;
	if (hold->next)
		hold->next->previous = hold;
	connection->holds = hold;
	connections_unlock();
}

/* The library does not hold it any more. */
static void hold_returned(struct hold *hold)
{
	connections_lock();
	if (hold->previous)
		hold->previous->next = hold->next;
	else
		hold->connection->holds = hold->next;
	if (hold->next)
		hold->next->previous = hold->previous;
	connections_unlock();
	connection_held_end(hold->connection);
}

/*
 * Without an order, which is right here too: the library frees only what the device has done with. Once, on any thread.
 */
static void hold_return(struct hold *hold)
{
	if (getpid() != hold->connection->pid || !atomic_exchange(&hold->open, false))
		return;
	gpub_return(&hold->lease);
	hold_returned(hold);
}

void hold_put(struct hold *hold)
{
	if (atomic_fetch_sub(&hold->references, 1) != 1)
		return;
	hold_return(hold);
	connection_put(hold->connection);
	free(hold);
}

/* It was released: the last array returns it, or this call where there is none. */
static void hold_pin(struct hold *hold)
{
	hold->state = HOLD_ENDED;
	atomic_store(&hold->pinned, true);
	if (!atomic_load(&hold->exports))
		hold_return(hold);
}

/* One that is held, with a reference. NULL: none. */
static struct hold *hold_held(struct connection *connection)
{
	struct hold *hold;

	connections_lock();
	for (hold = connection->holds; hold && hold->state != HOLD_HELD; hold = hold->next)
		;
	if (hold)
		atomic_fetch_add(&hold->references, 1);
	connections_unlock();
	return hold;
}

void holds_return(struct connection *connection)
{
	struct hold *hold;

	while (getpid() == connection->pid && (hold = hold_held(connection))) {
		hold_pin(hold);
		hold_put(hold);
	}
}

unsigned holds_pinned(struct connection *connection, const char *name)
{
	unsigned count = 0;

	if (getpid() != connection->pid)
		return 0;
	connections_lock();
	for (const struct hold *hold = connection->holds; hold; hold = hold->next)
		count += atomic_load(&hold->pinned) && !strcmp(hold->name, name);
	connections_unlock();
	return count;
}

/* ---- uses ---- */

bool hold_enter(struct hold *hold)
{
	if (hold->state == HOLD_HELD)
		return connection_enter_or_raise(hold->connection);
	PyErr_Format(PyExc_ValueError, "the lease on %s was released", hold->label);
	return false;
}

bool hold_export(struct hold *hold)
{
	if (!hold_enter(hold))
		return false;
	atomic_fetch_add(&hold->references, 1);
	atomic_fetch_add(&hold->exports, 1);
	atomic_fetch_add(&hold->connection->exports, 1);
	return true;
}

/* The use ends last: until then the connection stays open for the return. */
void hold_export_end(struct hold *hold)
{
	struct connection *connection = hold->connection;
	bool here = getpid() == connection->pid;

	connection_get(connection);
	if (atomic_fetch_sub(&hold->exports, 1) == 1 && atomic_load(&hold->pinned))
		hold_return(hold);
	hold_put(hold);
	atomic_fetch_sub(&connection->exports, 1);
	if (here)
		connection_leave(connection);
	connection_put(connection);
}

/* ---- the timeline ---- */

int hold_wait(struct hold *hold, uint64_t value, int timeout_ms)
{
	int error;

	PATIENTLY(error, gpub_timeline_wait(&hold->lease, value, timeout_ms, NULL));
	if (error)
		raise_os_of(hold->label, error);
	return error || PyErr_Occurred() ? -1 : 0;
}

static int wait_on(const struct hold *hold, uint64_t value, void *stream)
{
	int error;

	Py_BEGIN_ALLOW_THREADS
	error = gpub_wait_on(&hold->lease, value, stream);
	Py_END_ALLOW_THREADS
	return error ? raise_os_of(hold->label, error), -1 : 0;
}

/* Now, not at the end of the block, where it would be too late. */
static int check_timeline(const struct hold *hold)
{
	uint64_t value;
	int error;

	if (!hold->at.given && !hold->signal.given)
		return 0;
	error = gpub_timeline(&hold->lease, &value);
	if (error && error != -EOWNERDEAD)
		return raise_os_of(hold->label, error), -1;
	if (!hold->signal.given || hold->lease.rights & GPUB_WRITE)
		return 0;
	PyErr_SetString(PyExc_ValueError, "a lease that signals needs the right to write: acquire it with 'w' or 'rw'");
	return -1;
}

static int learn_layout(struct hold *hold)
{
	int64_t shape[LAYOUT_DIMS], strides[LAYOUT_DIMS];
	int error = gpub_lease_layout(&hold->lease, &hold->layout);

	if (!error)
		error = gpub_lease_generation(&hold->lease, &hold->generation);
	if (error)
		return raise_os_of(hold->label, error), -1;
	if (!hold->layout.lanes)
		hold->layout = layout_of_bytes(hold->lease.size);
	hold->ndim = layout_dims(&hold->layout, shape, strides);
	for (int i = 0; i < hold->ndim; i++) {
		hold->shape[i] = (Py_ssize_t)shape[i];
		hold->strides[i] = (Py_ssize_t)strides[i];
	}
	return 0;
}

int hold_begin(struct hold *hold)
{
	if (learn_layout(hold) || check_timeline(hold))
		return -1;
	return hold_is_host(hold) && hold->at.given ? hold_wait(hold, hold->at.value, -1) : 0;
}

static bool is_ordered_on(const struct hold *hold, void *stream)
{
	return hold->order != ORDER_NONE && hold->stream == stream;
}

int hold_order(struct hold *hold, void *stream, struct maybe at)
{
	if (hold_is_host(hold))
		return at.given ? hold_wait(hold, at.value, -1) : 0; /* for its own it waited when it was acquired */
	if (!at.given && !is_ordered_on(hold, stream))
		at = hold->at;
	if (at.given && wait_on(hold, at.value, stream))
		return -1;
	if (at.given && !(hold->at.given && hold->at.value > at.value))
		hold->at = at;
	if (!is_ordered_on(hold, stream)) /* also if another thread has done so meanwhile */
		hold->order = hold->order == ORDER_NONE ? ORDER_ONE : ORDER_SEVERAL;
	hold->stream = stream;
	return 0;
}

/* ---- release ---- */

/*
 * The stream behind all work on the buffer; *own: none is known, and none was used. signals: a signal is to stand
 * behind that.
 */
static int choose_stream(const struct hold *hold, const struct maybe *given, bool signals, void **stream, bool *own)
{
	const char *problem = NULL;

	*own = false;
	*stream = given->given ? (void *)(uintptr_t)given->value : hold->stream; /* NOLINT(performance-no-int-to-ptr) */
	if (given->given)
		return 0;
	if (hold_is_host(hold) || (hold->order == ORDER_NONE && !hold->unordered))
		*own = true;
	else if (hold->order == ORDER_SEVERAL)
		problem = "its arrays are used on several streams";
	else if (hold->order == ORDER_NONE && signals)
		problem = "nothing says on which stream its memory was used";
	if (!problem)
		return 0;
	PyErr_Format(PyExc_ValueError,
		     "%s cannot be released or signalled: %s. Give stream=..., the one that is behind all work on it",
		     hold->label, problem);
	return -1;
}

static int signal_on(const struct hold *hold, const struct maybe *signal, void *stream)
{
	return signal->given ? gpub_signal_on(&hold->lease, signal->value, stream) : 0;
}

/* A second release, after a failed return, must not signal again. */
static int signal_and_return(struct hold *hold, bool ordered, void *stream)
{
	int error = signal_on(hold, &hold->signal, stream);

	if (error)
		return error;
	hold->signal.given = 0;
	return ordered ? gpub_return_on(&hold->lease, stream) : gpub_return(&hold->lease);
}

/*
 * On a stream that carried no work: what was done is done, so nobody has to synchronise before an unlinked buffer is
 * freed. A signal stands behind the wait, which may be parked: nobody else is to stand behind that. returns: the signal
 * is the lease's own.
 */
static int signal_on_own(struct hold *hold, const struct maybe *signal, bool returns)
{
	bool waits = signal->given && hold->at.given && !hold_is_host(hold);
	void *stream = connection_stream(hold->connection, hold->lease.device);
	uint64_t at = hold->at.value;
	int error;

	if (!stream)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	error = waits ? gpub_wait_on(&hold->lease, at, stream) : 0;
	if (!error)
		error = returns ? signal_and_return(hold, true, stream) : signal_on(hold, signal, stream);
	Py_END_ALLOW_THREADS
	if (error)
		raise_os_of(hold->label, error);
	if (waits)
		gpub_stream_destroy(stream);
	else
		connection_stream_idle(hold->connection, hold->lease.device, stream);
	return error ? -1 : 0;
}

/* Without an order only if nothing is known of one: the library then frees nothing before the device has done all. */
static int return_behind(struct hold *hold, const struct maybe *given, void *stream)
{
	bool ordered = given->given || hold->order != ORDER_NONE;
	int error;

	Py_BEGIN_ALLOW_THREADS
	error = signal_and_return(hold, ordered, stream);
	Py_END_ALLOW_THREADS
	return error ? raise_os_of(hold->label, error), -1 : 0;
}

/* The caller is in a use. */
static int signal_and_pin(struct hold *hold, const struct maybe *given)
{
	if (hold->signal.given && hold_signal(hold, hold->signal.value, given))
		return -1;
	hold->signal.given = 0;
	hold_pin(hold);
	return 0;
}

/* The caller is in a use. */
static int finish(struct hold *hold, const struct maybe *given)
{
	void *stream;
	bool own;
	int result;

	if (atomic_load(&hold->exports))
		return signal_and_pin(hold, given);
	if (choose_stream(hold, given, hold->signal.given, &stream, &own))
		return -1;
	hold->state = HOLD_BUSY;
	result = own ? signal_on_own(hold, &hold->signal, true) : return_behind(hold, given, stream);
	hold->state = result ? HOLD_HELD : HOLD_ENDED;
	if (!result && atomic_exchange(&hold->open, false))
		hold_returned(hold);
	return result;
}

int hold_release(struct hold *hold, const struct maybe *given)
{
	int result;

	if (hold->state == HOLD_ENDED)
		return 0;
	if (!hold_enter(hold))
		return -1;
	result = finish(hold, given);
	connection_leave(hold->connection);
	return result;
}

/* What cannot be returned in order is returned without one. */
void hold_fail(struct hold *hold)
{
	const struct maybe none = { 0 };

	hold->signal.given = 0;
	if (hold->state != HOLD_HELD || !connection_enter(hold->connection))
		return;
	if (finish(hold, &none)) {
		PyErr_Clear();
		hold->state = HOLD_ENDED;
		hold_return(hold);
	}
	connection_leave(hold->connection);
}

void hold_leave(struct hold *hold)
{
	hold->forsaken = true;
	hold->signal.given = 0;
	if (!atomic_load(&hold->exports))
		hold_fail(hold);
}

/* ---- a signal while it is held ---- */

static int signal_behind(const struct hold *hold, const struct maybe *signal, void *stream)
{
	int error;

	Py_BEGIN_ALLOW_THREADS
	error = signal_on(hold, signal, stream);
	Py_END_ALLOW_THREADS
	return error ? raise_os_of(hold->label, error), -1 : 0;
}

int hold_signal(struct hold *hold, uint64_t value, const struct maybe *given)
{
	const struct maybe signal = { .value = value, .given = 1 };
	void *stream;
	bool own;

	if (choose_stream(hold, given, true, &stream, &own))
		return -1;
	return own ? signal_on_own(hold, &signal, false) : signal_behind(hold, &signal, stream);
}

/* ---- copies ---- */

static int copy_on(struct hold *hold, const struct copy *copies, size_t count, bool write, void *stream)
{
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		char *there = (char *)hold->lease.ptr + copies[i].offset;

		if (copies[i].size) /* nothing may have no address */
			error = gpub_copy_on(hold->lease.client, write ? there : copies[i].memory,
					     write ? copies[i].memory : there, copies[i].size, stream);
	}
	return error;
}

/*
 * Until what comes before the copies is done: a signal may end this wait, but not that for the copies, which use the
 * caller's memory.
 */
static int wait_for_turn(struct hold *hold, bool own, bool waits, void *stream)
{
	int error = 0;

	if (own)
		return hold->at.given && !hold_is_host(hold) ? hold_wait(hold, hold->at.value, -1) : 0;
	if (waits)
		PATIENTLY(error, gpub_stream_sync(stream));
	if (error)
		raise_os_of(hold->label, error);
	return error || PyErr_Occurred() ? -1 : 0;
}

static int copy_and_wait(struct hold *hold, const struct copy *copies, size_t count, bool write, bool waits,
			 void *stream)
{
	int error, synced = 0;

	Py_BEGIN_ALLOW_THREADS
	error = copy_on(hold, copies, count, write, stream);
	if (waits)
		synced = gpub_stream_sync(stream);
	Py_END_ALLOW_THREADS
	error = error ? error : synced;
	if (error)
		raise_os_of(hold->label, error);
	return error ? -1 : 0;
}

int hold_copy(struct hold *hold, const struct copy *copies, size_t count, bool write, bool waits)
{
	bool own = hold->order == ORDER_NONE;
	void *stream = own ? connection_stream(hold->connection, hold->lease.device) : hold->stream;
	int result;

	if (own && !stream)
		return -1;
	result = wait_for_turn(hold, own, waits, stream);
	if (!result)
		result = copy_and_wait(hold, copies, count, write, own || waits, stream);
	if (own)
		connection_stream_idle(hold->connection, hold->lease.device, stream);
	return result;
}
