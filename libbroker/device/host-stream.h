/* SPDX-License-Identifier: Apache-2.0 */
/* host-stream.h - the host device's streams. Functions that are also in struct device are described in device.h. */
#ifndef GPUB_HOST_STREAM_H
#define GPUB_HOST_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "host-task.h"

struct host_stream {
	struct host_stream     *next;
	unsigned                device;
	struct host_connection *connection;
	uint64_t                resets; /* host_state.resets of the device at the time when the stream was made */
	uint64_t                random; /* state of the stream's random delays */
	bool                    is_default; /* the stream is the legacy default stream of its device */
	atomic_uint             references;
	pthread_mutex_t         lock; /* protects the members below */
	pthread_cond_t          work, done; /* work: a task was queued, or `ending` was set; done: a task has ended */
	struct host_task       *head, **tail; /* queue of the tasks that have not begun to run */
	uint64_t                queued, finished; /* how many tasks were queued, and have ended, on the stream so far */
	bool                    running; /* the stream has a thread */
	bool                    ending;  /* the stream was destroyed; its thread ends after the queued tasks */
};

/*
 * Takes a reference to a stream and returns the stream, or NULL with the error message set. handle NULL: the default
 * stream of the device. host_stream_put() drops the reference.
 */
struct host_stream *host_stream_get(void *handle, unsigned device);
void                host_stream_put(struct host_stream *stream);

int  host_stream_create(int ordinal, int priority, void **stream); /* ignores the priority */
void host_stream_destroy(void *stream);
int  host_stream_write(void *stream, uint64_t *word, uint64_t value);
int  host_stream_wait(void *stream, const uint64_t *word, uint64_t value);
int  host_stream_write_many(void *stream, const struct device_word *words, unsigned count);
int  host_stream_wait_many(void *stream, const struct device_word *words, unsigned count);
int  host_stream_after(void *stream, void *other);
int  host_stream_sync(void *stream);
int  host_stream_sync_until(void *stream, int (*over)(void *), void *context);
int  host_copy(void *stream, void *dst, const void *src, uint64_t size);

/* How a call on a stream behaves if the stream is being captured into a graph. */
enum host_use {
	HOST_RECORDED, /* the call becomes part of the graph */
	HOST_REFUSED,  /* the call checks for a capture first, fails, and leaves the capture valid */
	HOST_UNASKED,  /* the call does not check for a capture, and so invalidates it */
};

/*
 * A function that tests set, to model captures; a program cannot capture a stream of the host device. NULL: there are
 * no captures. Called under the stream's lock with the tasks to queue, or with a NULL list before a wait for the
 * stream. Returns 0 to go on, 1 if it has taken over the tasks into its graph, or a negative errno.
 */
extern int (*host_capture)(const struct host_stream *stream, struct host_task *list, enum host_use use);

/*
 * Checks the tasks of the list and queues all of them on the stream, or frees them and returns an error. handle NULL:
 * the default stream of the device.
 */
int host_stream_submit(void *handle, unsigned device, struct host_task *list, enum host_use use);

/* Waits until the tasks that are queued on the stream now have ended. over: NULL, or as for stream_sync_until(). */
int host_stream_await(void *handle, int (*over)(void *), void *context, enum host_use use);

/*
 * Resets the device's streams: drops queued tasks, waits for running ones, destroys the streams. The caller has closed
 * the gate (host-gate.h).
 */
void host_streams_end(unsigned device);

#endif
