/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-stream.c - see host-stream.h
 *
 * Owns the live streams. Each stream has a thread that runs the queued tasks in order. The thread starts with the
 * first task, has all signals blocked, and ends after stream_destroy() when the queue is empty. Streams are not
 * ordered with each other, except by stream_after(), not even with the default stream, as CUDA's non-blocking streams.
 * But a wait blocks the other streams of its connection (host-connection.h).
 */
#include "host-stream.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "common/error.h"
#include "common/handle.h"
#include "common/thread.h"
#include "host-connection.h"
#include "host-fault.h"
#include "host-gate.h"
#include "host-state.h"

#define DELAY_MAX_US 200     /* longest seeded delay before a task, in microseconds */
#define ASK_NS       1000000 /* time between two calls of over(), in nanoseconds */

int (*host_capture)(const struct host_stream *stream, struct host_task *list, enum host_use use);

static struct host_stream *streams; /* list of the streams that were made and not destroyed; under host_state.lock */
static struct host_stream *defaults[DEVICE_MAX]; /* default stream of each device; NULL: not used yet */
static uint64_t serial; /* number of streams made so far, which with the seed gives a stream's random delays */

/* ---- the stream's thread ---- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Delays the stream's next task at random, by the seed, so that tests can try other orders among streams. */
static void seeded_delay(struct host_stream *stream)
{
	uint64_t random = next_random(&stream->random) >> 16;

	switch (random % 4) {
	case 0:
		break;
	case 1:
		sched_yield();
		break;
	default:
		usleep((useconds_t)(random / 4 % DELAY_MAX_US));
	}
}

/*
 * Waits for the stream's next task, and removes it from the queue. NULL: the stream was destroyed and its queue is
 * empty.
 */
static struct host_task *stream_take(struct host_stream *stream)
{
	struct host_task *task;

	pthread_mutex_lock(&stream->lock);
	while (!stream->head && !stream->ending)
		pthread_cond_wait(&stream->work, &stream->lock);
	task = stream->head;
	if (task) {
		stream->head = task->next;
		task->next = NULL;
		if (!stream->head)
			stream->tail = &stream->head;
	}
	pthread_mutex_unlock(&stream->lock);
	return task;
}

static void stream_finish(struct host_stream *stream, struct host_task *task)
{
	host_task_free(task);
	pthread_mutex_lock(&stream->lock);
	stream->finished++;
	pthread_cond_broadcast(&stream->done);
	pthread_mutex_unlock(&stream->lock);
	host_gate_finish(stream->device);
}

static void *stream_main(void *argument)
{
	struct host_stream *stream = argument;
	struct host_task *task;

	while ((task = stream_take(stream))) {
		if (host_state.seeded)
			seeded_delay(stream);
		host_connection_enter(stream->connection, task);
		host_task_run(task, stream->device, stream->resets);
		host_connection_leave(stream->connection, task);
		stream_finish(stream, task);
	}
	host_stream_put(stream);
	return NULL;
}

/* Starts the stream's thread, which has a reference to the stream. Call it under stream->lock. */
static int stream_run(struct host_stream *stream)
{
	pthread_t thread;
	int rc;

	atomic_fetch_add(&stream->references, 1);
	rc = thread_start(&thread, stream_main, stream);
	if (rc) {
		atomic_fetch_sub(&stream->references, 1);
		return rc;
	}
	pthread_detach(thread);
	stream->running = true;
	return 0;
}

/* ---- streams ---- */

static struct host_stream *stream_new(unsigned device)
{
	struct host_stream *stream = calloc(1, sizeof *stream);

	if (!stream) {
		error_set(-ENOMEM, "host device: no memory for a stream");
		return NULL;
	}
	stream->device = device;
	stream->resets = atomic_load(&host_state.resets[device]);
	stream->tail = &stream->head;
	stream->references = 1;
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->done, NULL);
	stream->random = (host_state.seed + ++serial) * 0x9E3779B97F4A7C15ull | 1;
	return stream;
}

void host_stream_put(struct host_stream *stream)
{
	if (atomic_fetch_sub(&stream->references, 1) != 1)
		return;
	pthread_cond_destroy(&stream->done);
	pthread_cond_destroy(&stream->work);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

/* Returns the stream with this handle, or NULL with the error message set. Call it under host_state.lock. */
static struct host_stream *stream_find(const void *handle)
{
	struct host_stream *stream;

	LL_FOREACH(streams, stream)
		if (stream == handle)
			return stream;
	error_set(-EINVAL, "%p is no stream of the host device: it was destroyed, or is of another kind", handle);
	return NULL;
}

static struct host_stream *stream_default(unsigned device)
{
	struct host_stream *stream = defaults[device];

	if (stream)
		return stream;
	stream = defaults[device] = stream_new(device);
	if (stream) {
		stream->connection = host_connection_default(device);
		stream->is_default = true;
	}
	return stream;
}

struct host_stream *host_stream_get(void *handle, unsigned device)
{
	struct host_stream *stream;

	pthread_mutex_lock(&host_state.lock);
	stream = handle ? stream_find(handle) : stream_default(device);
	if (stream)
		atomic_fetch_add(&stream->references, 1);
	pthread_mutex_unlock(&host_state.lock);
	return stream;
}

int host_stream_create(int ordinal, int priority, void **handle)
{
	struct host_stream *stream;
	int device = host_enter_device(HOST_STREAM, ordinal);

	(void)priority;
	if (device < 0)
		return device;
	atomic_store(&host_state.in_use[device], true);
	pthread_mutex_lock(&host_state.lock);
	stream = stream_new((unsigned)device);
	if (stream) {
		stream->connection = host_connection_next((unsigned)device);
		LL_PREPEND(streams, stream);
	}
	pthread_mutex_unlock(&host_state.lock);
	if (!stream)
		return -ENOMEM;
	*handle = stream;
	return 0;
}

static void stream_end(struct host_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->ending = true;
	pthread_cond_signal(&stream->work);
	pthread_mutex_unlock(&stream->lock);
	host_stream_put(stream);
}

void host_stream_destroy(void *handle)
{
	struct host_stream *stream;

	if (!handle || host_enter(HOST_OTHER))
		return;
	pthread_mutex_lock(&host_state.lock);
	stream = stream_find(handle);
	if (stream)
		LL_DELETE(streams, stream);
	pthread_mutex_unlock(&host_state.lock);
	if (stream)
		stream_end(stream);
}

/*
 * Removes a stream of the device from its list, the default stream last, and returns it. NULL: the device has no stream
 * any more. Call it under host_state.lock.
 */
static struct host_stream *stream_of_device(unsigned device)
{
	struct host_stream *stream;

	LL_SEARCH_SCALAR(streams, stream, device, device);
	if (stream) {
		LL_DELETE(streams, stream);
	} else {
		stream = defaults[device];
		defaults[device] = NULL;
	}
	return stream;
}

void host_streams_end(unsigned device)
{
	struct host_stream *stream;

	atomic_fetch_add(&host_state.resets[device], 1);
	host_gate_drain(device);
	pthread_mutex_lock(&host_state.lock);
	while ((stream = stream_of_device(device)))
		stream_end(stream);
	pthread_mutex_unlock(&host_state.lock);
}

/* ---- waiting for a stream ---- */

/*
 * Waits for ASK_NS, or until a task has ended, then returns the result of over(). Call it under stream->lock, which is
 * released during over().
 */
static int sync_ask(struct host_stream *stream, int (*over)(void *), void *context)
{
	struct timespec until;
	int verdict;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ASK_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&stream->done, &stream->lock, &until);
	pthread_mutex_unlock(&stream->lock);
	verdict = over(context);
	pthread_mutex_lock(&stream->lock);
	return verdict;
}

/* Waits until the tasks that are queued now have ended, or over() ends the wait. Call it under stream->lock. */
static int sync_locked(struct host_stream *stream, int (*over)(void *), void *context)
{
	uint64_t until = stream->queued;
	int verdict = over ? 0 : 1;

	while ((int64_t)(stream->finished - until) < 0 && verdict >= 0)
		if (verdict)
			pthread_cond_wait(&stream->done, &stream->lock);
		else
			verdict = sync_ask(stream, over, context);
	return verdict < 0 ? verdict : host_sticky_error();
}

int host_stream_await(void *handle, int (*over)(void *), void *context, enum host_use use)
{
	struct host_stream *stream;
	int rc = host_enter(HOST_SYNC);

	if (rc)
		return rc;
	stream = host_stream_get(handle, host_current_device());
	if (!stream)
		return -EINVAL;
	pthread_mutex_lock(&stream->lock);
	rc = host_capture ? host_capture(stream, NULL, use) : 0;
	if (!rc)
		rc = sync_locked(stream, over, context);
	pthread_mutex_unlock(&stream->lock);
	host_stream_put(stream);
	return rc;
}

int host_stream_sync_until(void *handle, int (*over)(void *), void *context)
{
	return host_stream_await(handle, over, context, HOST_REFUSED);
}

int host_stream_sync(void *handle)
{
	return host_stream_await(handle, NULL, NULL, HOST_REFUSED);
}

/* ---- queueing ---- */

/* Queues the tasks of the list, and starts the stream's thread if it has none. Call it under stream->lock. */
static int queue_locked(struct host_stream *stream, struct host_task *list)
{
	struct host_task **end = &list;
	uint64_t length = 0;
	int rc = stream->running ? 0 : stream_run(stream);

	if (rc)
		return rc;
	for (; *end; end = &(*end)->next)
		length++;
	host_gate_add(stream->device, length);
	host_connection_submit(stream->connection, list);
	*stream->tail = list;
	stream->tail = end;
	stream->queued += length;
	pthread_cond_signal(&stream->work);
	return 0;
}

static int list_check(const struct host_stream *stream, unsigned device, const struct host_task *list)
{
	int rc = 0;

	for (; list && !rc; list = list->next)
		if (list->kind == HOST_TASK_KERNEL && stream->device != device)
			rc = error_set(-EINVAL, "the stream is of host device %u, the launch of host device %u",
				       stream->device, device);
		else
			rc = host_task_check(list, stream->device);
	return rc;
}

/*
 * Checks and queues the tasks of the list. Returns 0 if it has taken over the list; else the caller frees the list. The
 * caller has called host_gate_pass().
 */
static int list_queue(struct host_stream *stream, unsigned device, struct host_task *list, enum host_use use)
{
	int rc = list_check(stream, device, list);

	if (rc)
		return rc;
	pthread_mutex_lock(&stream->lock);
	rc = host_capture ? host_capture(stream, list, use) : 0;
	if (!rc)
		rc = queue_locked(stream, list);
	pthread_mutex_unlock(&stream->lock);
	return rc < 0 ? rc : 0;
}

int host_stream_submit(void *handle, unsigned device, struct host_task *list, enum host_use use)
{
	struct host_stream *stream;
	int rc;

	host_gate_pass();
	stream = host_stream_get(handle, device);
	rc = stream ? list_queue(stream, device, list, use) : -EINVAL;
	if (rc)
		host_task_free(list);
	host_gate_leave();
	if (stream)
		host_stream_put(stream);
	return rc;
}

/* Queues one task for each word, or after an error no task. */
static int words_submit(void *handle, enum host_task_kind kind, const struct device_word *words, unsigned count)
{
	struct host_task *list = NULL, *task;

	for (unsigned i = count; i-- > 0;) {
		task = host_task_new(kind, 0);
		if (!task) {
			host_task_free(list);
			return -ENOMEM;
		}
		task->word = words[i];
		LL_PREPEND(list, task);
	}
	return host_stream_submit(handle, host_current_device(), list, HOST_REFUSED);
}

int host_stream_write_many(void *handle, const struct device_word *words, unsigned count)
{
	int rc = host_enter(HOST_WRITE);

	return rc ? rc : words_submit(handle, HOST_TASK_WRITE, words, count);
}

int host_stream_wait_many(void *handle, const struct device_word *words, unsigned count)
{
	int rc = host_enter(HOST_WAIT);

	return rc ? rc : words_submit(handle, HOST_TASK_WAIT, words, count);
}

int host_stream_write(void *handle, uint64_t *word, uint64_t value)
{
	return host_stream_write_many(handle, &(struct device_word){ word, value }, 1);
}

int host_stream_wait(void *handle, const uint64_t *word, uint64_t value)
{
	return host_stream_wait_many(handle, &(struct device_word){ (uint64_t *)word, value }, 1);
}

/*
 * If the second host_stream_submit() fails, `other` keeps a HOST_TASK_MARK for which no stream waits, which does no
 * harm.
 */
int host_stream_after(void *handle, void *other)
{
	struct host_task *mark, *after;
	int rc = host_enter(HOST_WAIT);

	if (!rc)
		rc = host_task_new_mark(&mark, &after);
	if (rc)
		return rc;
	rc = host_stream_submit(other, host_current_device(), mark, HOST_REFUSED);
	if (!rc)
		return host_stream_submit(handle, host_current_device(), after, HOST_REFUSED);
	host_task_free(after);
	return rc;
}

int host_copy(void *handle, void *dst, const void *src, uint64_t size)
{
	struct host_task *task;
	int rc = host_enter(HOST_COPY);

	if (rc)
		return rc;
	task = host_task_new(HOST_TASK_COPY, 0);
	if (!task)
		return -ENOMEM;
	task->copy.dst = dst;
	task->copy.src = src;
	task->copy.size = size;
	return host_stream_submit(handle, host_current_device(), task, HOST_RECORDED);
}
