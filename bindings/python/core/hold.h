/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - a lease with what Python's objects share of it: a Lease, and each array that was made of it.
 *
 * Owns the gpub_lease and a reference to its connection. It is no Python object: an array may end on a thread without
 * the interpreter lock. A release signals, and returns the lease if no array lives; else the last array returns it. So
 * does the last reference where nobody released it. All but hold_export_end and hold_put need the interpreter lock.
 */
#ifndef GPUB_PYTHON_HOLD_H
#define GPUB_PYTHON_HOLD_H

#include "arguments.h"
#include "connection.h"
#include "layouts.h"

enum hold_state { HOLD_HELD, HOLD_BUSY /* a thread is in a call that ends it */, HOLD_ENDED };

/* On which streams its arrays are used. */
enum hold_order { ORDER_NONE, ORDER_ONE, ORDER_SEVERAL };

struct hold {
	atomic_uint references, exports;
	struct connection *connection;
	gpub_lease lease;
	gpub_layout layout; /* of bytes, where the buffer has none */
	uint64_t generation;
	enum hold_state state;
	enum hold_order order;
	void *stream;        /* the last one that the work was ordered on */
	bool forsaken;       /* its arrays alone use it: nobody forgot to release it */
	atomic_bool open;    /* the library holds the lease */
	atomic_bool pinned;  /* it was released while arrays live: the last of them returns it */
	struct hold *previous, *next; /* of its connection's that are open */
	bool unordered;      /* somebody may use the memory on a stream that nobody named */
	struct maybe at, signal;
	Py_ssize_t shape[LAYOUT_DIMS], strides[LAYOUT_DIMS]; /* what Py_buffer points to */
	int ndim;
	char name[GPUB_NAME_MAX + 1];  /* empty: redeemed */
	char label[GPUB_NAME_MAX + 3]; /* what messages call it */
};

/* For a lease that is to be acquired. NULL: an exception is set. */
struct hold *hold_new(struct connection *connection, const char *name, struct maybe at, struct maybe signal);
/* hold->lease is held from now on. The caller is in a use. */
void hold_acquired(struct hold *hold);
/* Learns its layout, and on the host device waits for the timeline. -1: the caller puts it. */
int hold_begin(struct hold *hold);
void hold_put(struct hold *hold);

static inline bool hold_is_host(const struct hold *hold)
{
	return hold->lease.device == GPUB_HOST;
}

/*
 * Refuses with an exception what is released, closed, or the parent's. The caller leaves the connection where it is
 * true.
 */
bool hold_enter(struct hold *hold);

/* An array begins: false with an exception. Ends on any thread. */
bool hold_export(struct hold *hold);
void hold_export_end(struct hold *hold);

/*
 * The calling thread waits until the timeline has that value. -1: an exception is set, TimeoutError or OSError
 * EOWNERDEAD too.
 */
int hold_wait(struct hold *hold, uint64_t value, int timeout_ms);

/*
 * Work of this stream comes behind the wait for the timeline from here on; behind that for at, where it is given, from
 * now on instead of the lease's own. On the host device the calling thread waits. -1: an exception is set.
 */
int hold_order(struct hold *hold, void *stream, struct maybe at);

/* Signals behind the work of the stream, or of that of its arrays. -1: an exception is set. */
int hold_signal(struct hold *hold, uint64_t value, const struct maybe *stream);

/*
 * Signals and returns, on the stream that is given, or on that of its arrays. While arrays live, signals and leaves the
 * return to the last of them. Does nothing when that was done. -1: an exception is set, and it is held as before.
 */
int hold_release(struct hold *hold, const struct maybe *stream);
/* The same without the signal, because the work failed. */
void hold_fail(struct hold *hold);
/* Its arrays are used on, and the last of them returns it, without the signal. At once where there is none. */
void hold_leave(struct hold *hold);

/* Returns those of that connection, without their signals, or leaves that to their last arrays. */
void holds_return(struct connection *connection);
/* How many of that buffer were released while arrays live. */
unsigned holds_pinned(struct connection *connection, const char *name);

/* Between memory of the host, or of the lease's device, and the lease's bytes from offset on. */
struct copy {
	uint64_t offset, size;
	void *memory;
};

/*
 * Into the lease, or out of it, behind the wait for the timeline, on the stream of its arrays. They are done when it
 * returns where it waits, or where there is no such stream. -1: an exception is set.
 */
int hold_copy(struct hold *hold, const struct copy *copies, size_t count, bool write, bool waits);

#endif
