/* SPDX-License-Identifier: Apache-2.0 */
/* host-stream.h - the host device's streams; device.h says what the calls do. */
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
	uint64_t                resets; /* of the device, when the stream was made */
	uint64_t                random;
	bool                    is_default; /* the legacy stream of its device */
	atomic_uint             references;
	pthread_mutex_t         lock; /* over what follows */
	pthread_cond_t          work, done;
	struct host_task       *head, **tail;
	uint64_t                queued, finished;
	bool                    running; /* it has a thread */
	bool                    ending;  /* it was destroyed */
};

/* The stream with a reference, or NULL with the error set. NULL names the default stream of that device. */
struct host_stream *host_stream_get(void *handle, unsigned device);
void                host_stream_put(struct host_stream *stream);

int  host_stream_create(int ordinal, int priority, void **stream); /* there are no priorities */
void host_stream_destroy(void *stream);
int  host_stream_write(void *stream, uint64_t *word, uint64_t value);
int  host_stream_wait(void *stream, const uint64_t *word, uint64_t value);
int  host_stream_write_many(void *stream, const struct device_word *words, unsigned count);
int  host_stream_wait_many(void *stream, const struct device_word *words, unsigned count);
int  host_stream_after(void *stream, void *other);
int  host_stream_sync(void *stream);
int  host_stream_sync_until(void *stream, int (*over)(void *), void *context);
int  host_copy(void *stream, void *dst, const void *src, uint64_t size);

/*
 * What a call does about the capture of a stream into a graph. A program cannot capture a stream of the host device. Tests
 * can: they set host_capture, which is called under the stream's lock with the tasks to queue, or with NULL before a wait
 * for the stream. It returns 0 to go on, 1 when it has recorded the tasks and taken them over, or the error.
 */
enum host_use {
	HOST_RECORDED, /* becomes part of the graph */
	HOST_REFUSED,  /* cannot be captured: it asks first, and the capture stays valid */
	HOST_UNASKED,  /* does not ask, and so invalidates the capture that it disturbs */
};

extern int (*host_capture)(const struct host_stream *stream, struct host_task *list, enum host_use use);

/* Checks the tasks of the list, and queues them on the stream, or frees them. NULL is the default stream of that device. */
int host_stream_submit(void *handle, unsigned device, struct host_task *list, enum host_use use);

/* over: NULL, or as for host_stream_sync_until(). */
int host_stream_await(void *handle, int (*over)(void *), void *context, enum host_use use);

/* At a reset, with the gate closed: drops what is queued on the device, waits for what runs, and ends its streams. */
void host_streams_end(unsigned device);

#endif
