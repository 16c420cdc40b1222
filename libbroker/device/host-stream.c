/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-stream.c - the host device's streams: a thread each, which runs what is queued in order.
 *
 * Owns the live streams, the gate that all queueing passes, and the count of unfinished tasks. A stream's thread is
 * made when something is first queued, has all signals blocked, and outlives stream_destroy() until its queue is done.
 * Streams are never ordered with each other, the default stream included: CUDA's non-blocking streams. But those of one
 * connection (host-connection.c) wait for each other's waits.
 */
#include "host.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

#define WAIT_SPINS      200
#define WAIT_NAP_NS     2000000 /* the broker may change a word with pwrite(), which wakes nobody */
#define DELAY_MAX_US    200
#define QUEUE_STACK     (1u << 20)

static struct host_stream *streams; /* under host_state.lock: those not destroyed */
static struct host_stream *defaults[DEVICE_MAX];
static uint64_t serial;

static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t busy_none = PTHREAD_COND_INITIALIZER;
static uint64_t busy[DEVICE_MAX]; /* queued or running tasks of the process on that device */

/* ---- the gate ---- */

void host_gate_pass(void)
{
	pthread_rwlock_rdlock(&host_state.gate);
}

void host_gate_leave(void)
{
	pthread_rwlock_unlock(&host_state.gate);
}

void host_gate_close(void)
{
	pthread_rwlock_wrlock(&host_state.gate);
}

void host_gate_open(void)
{
	pthread_rwlock_unlock(&host_state.gate);
}

void host_gate_drain(unsigned device)
{
	pthread_mutex_lock(&busy_lock);
	while (busy[device])
		pthread_cond_wait(&busy_none, &busy_lock);
	pthread_mutex_unlock(&busy_lock);
}

static void busy_add(unsigned device, uint64_t tasks)
{
	pthread_mutex_lock(&busy_lock);
	busy[device] += tasks;
	pthread_mutex_unlock(&busy_lock);
}

static void busy_end(unsigned device)
{
	pthread_mutex_lock(&busy_lock);
	if (!--busy[device])
		pthread_cond_broadcast(&busy_none);
	pthread_mutex_unlock(&busy_lock);
}

/* ---- tasks ---- */

struct host_task *host_task_new(enum host_task_kind kind, size_t params)
{
	struct host_task *task = calloc(1, sizeof *task + params);

	if (!task) {
		error_set(-ENOMEM, "host device: no memory to queue on a stream");
		return NULL;
	}
	task->kind = kind;
	task->bytes = sizeof *task + params;
	return task;
}

void host_task_free(struct host_task *list, bool held)
{
	while (list) {
		struct host_task *task = list;

		list = task->next;
		if (held && task->kind == HOST_TASK_KERNEL)
			host_kernel_drop(task->launch.kernel);
		free(task);
	}
}

/* The kernel's parameters that may be pointers, for any of a pointer's size may be one; how many. */
static unsigned kernel_pointers(const struct host_task *task, const void *pointer[GPUB_HOST_PARAMS])
{
	const uint32_t *size = host_kernel_sizes(task->launch.kernel);
	const uint8_t *param = task->params;
	unsigned count = 0;

	for (int i = 0; i < GPUB_HOST_PARAMS && size[i]; i++) {
		const void *ptr;

		if (size[i] == sizeof ptr) {
			memcpy(&ptr, param, sizeof ptr);
			pointer[count++] = ptr;
		}
		param += (size[i] + 15) & ~15u;
	}
	return count;
}

static int kernel_check(const struct host_task *task, unsigned device)
{
	const void *pointer[GPUB_HOST_PARAMS];
	unsigned count = kernel_pointers(task, pointer);
	int rc = 0;

	for (unsigned i = 0; !rc && i < count; i++)
		rc = host_check_range(pointer[i], 0, device, "a kernel");
	return rc;
}

/* The kernel, and a look behind the buffers that it was given, before anything else of the stream runs. */
static void run_kernel(const struct host_task *task)
{
	const void *pointer[GPUB_HOST_PARAMS];
	unsigned count = kernel_pointers(task, pointer);

	host_kernel_run(task);
	pthread_mutex_lock(&host_state.lock);
	for (unsigned i = 0; i < count; i++)
		host_watch_verify(pointer[i]);
	pthread_mutex_unlock(&host_state.lock);
}

int host_task_check(const struct host_task *task, unsigned device)
{
	int rc;

	switch (task->kind) {
	case HOST_TASK_KERNEL:
		return kernel_check(task, device);
	case HOST_TASK_COPY:
		rc = host_check_range(task->copy.dst, task->copy.size, device, "a copy");
		return rc ? rc : host_check_range(task->copy.src, task->copy.size, device, "a copy");
	default:
		return host_check_word(task->word.word, task->kind == HOST_TASK_WRITE);
	}
}

static void futex(const uint64_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	/* The low half: both supported machines are little-endian. Shared: the other side is another process. */
	if (syscall(SYS_futex, (const uint32_t *)word, operation, value, timeout, NULL, 0) < 0 && errno == EFAULT)
		sched_yield();
}

static void run_write(const struct host_task *task)
{
	__atomic_store_n(task->word.word, task->word.value, __ATOMIC_RELEASE);
	futex(task->word.word, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Runs nothing more. After a sticky error a context does not, either: the writes behind it never come. */
static bool is_dead(const struct host_stream *stream)
{
	return host_sticky() || atomic_load(&host_state.resets[stream->device]) != stream->resets;
}

/* Parks the stream. Signed and cyclic, as CU_STREAM_WAIT_VALUE_GEQ. */
static void run_wait(const struct host_stream *stream, const struct host_task *task)
{
	static const struct timespec nap = { .tv_nsec = WAIT_NAP_NS };

	for (unsigned spins = 0; !is_dead(stream); spins++) {
		uint64_t seen = __atomic_load_n(task->word.word, __ATOMIC_ACQUIRE);

		if ((int64_t)(seen - task->word.value) >= 0)
			return;
		if (spins >= WAIT_SPINS)
			futex(task->word.word, FUTEX_WAIT, (uint32_t)seen, &nap);
	}
}

static void task_run(const struct host_stream *stream, const struct host_task *task)
{
	switch (task->kind) {
	case HOST_TASK_KERNEL:
		run_kernel(task);
		break;
	case HOST_TASK_WRITE:
		run_write(task);
		break;
	case HOST_TASK_WAIT:
		run_wait(stream, task);
		break;
	case HOST_TASK_COPY:
		memmove(task->copy.dst, task->copy.src, task->copy.size);
		break;
	}
}

/* ---- the stream's thread ---- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Lets streams overtake each other in an order that the seed decides. */
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

/* The next task, or NULL when the stream was destroyed and has none left. */
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
	host_task_free(task, true);
	pthread_mutex_lock(&stream->lock);
	stream->finished++;
	pthread_cond_broadcast(&stream->done);
	pthread_mutex_unlock(&stream->lock);
	busy_end(stream->device);
}

static void *stream_main(void *argument)
{
	struct host_stream *stream = argument;
	struct host_task *task;

	while ((task = stream_take(stream))) {
		if (host_state.seeded)
			seeded_delay(stream);
		host_connection_enter(stream, task);
		if (!is_dead(stream))
			task_run(stream, task);
		host_connection_leave(stream, task);
		stream_finish(stream, task);
	}
	host_stream_put(stream);
	return NULL;
}

/* Under the stream's lock. The thread has a reference of its own. */
static int thread_start(struct host_stream *stream)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int error = pthread_attr_init(&attr);

	if (error)
		return error_set(-error, "host device: no thread for a stream: %s", strerror(error));
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, QUEUE_STACK);
	atomic_fetch_add(&stream->refs, 1);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attr, stream_main, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (error) {
		atomic_fetch_sub(&stream->refs, 1);
		return error_set(-error, "host device: no thread for a stream: %s", strerror(error));
	}
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
	stream->refs = 1;
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->done, NULL);
	stream->random = (host_state.seed + ++serial) * 0x9E3779B97F4A7C15ull | 1;
	return stream;
}

void host_stream_put(struct host_stream *stream)
{
	if (atomic_fetch_sub(&stream->refs, 1) != 1)
		return;
	host_graph_destroy(stream->capture);
	pthread_cond_destroy(&stream->done);
	pthread_cond_destroy(&stream->work);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

static struct host_stream *stream_find(const void *handle)
{
	for (struct host_stream *stream = streams; stream; stream = stream->next)
		if (stream == handle)
			return stream;
	error_set(-EINVAL, "%p is no stream of the host device: it was destroyed, or is of another kind", handle);
	return NULL;
}

static struct host_stream *stream_default(unsigned device)
{
	if (!defaults[device])
		defaults[device] = stream_new(device);
	if (defaults[device])
		defaults[device]->is_default = true;
	return defaults[device];
}

struct host_stream *host_stream_get(void *handle, unsigned device)
{
	struct host_stream *stream;

	pthread_mutex_lock(&host_state.lock);
	stream = handle ? stream_find(handle) : stream_default(device);
	if (stream)
		atomic_fetch_add(&stream->refs, 1);
	pthread_mutex_unlock(&host_state.lock);
	return stream;
}

int host_stream_create(int ordinal, void **handle)
{
	struct host_stream *stream;
	int device, rc = host_enter(HOST_STREAM);

	if (rc)
		return rc;
	device = host_device_of(ordinal);
	if (device < 0)
		return device;
	host_device_use((unsigned)device);
	pthread_mutex_lock(&host_state.lock);
	stream = stream_new((unsigned)device);
	if (stream) {
		stream->connection = host_connection_next((unsigned)device);
		stream->next = streams;
		streams = stream;
	}
	pthread_mutex_unlock(&host_state.lock);
	if (!stream)
		return -ENOMEM;
	*handle = stream;
	return 0;
}

static struct host_stream *stream_unlink(const void *handle)
{
	struct host_stream *stream, **link = &streams;

	pthread_mutex_lock(&host_state.lock);
	stream = stream_find(handle);
	while (stream && *link != stream)
		link = &(*link)->next;
	if (stream)
		*link = stream->next;
	pthread_mutex_unlock(&host_state.lock);
	return stream;
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
	stream = stream_unlink(handle);
	if (stream)
		stream_end(stream);
}

/* Any stream of the device that is not destroyed, or NULL; taken out of the list. Under host_state.lock. */
static struct host_stream *stream_of_device(unsigned device)
{
	struct host_stream *stream, **link = &streams;

	while (*link && (*link)->device != device)
		link = &(*link)->next;
	stream = *link;
	if (stream) {
		*link = stream->next;
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

#define ASK_NS 1000000

/* A moment, or until a task is done. Locked; gives the lock up meanwhile. */
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

/* over: NULL, or whom to ask. */
static int sync_locked(struct host_stream *stream, int (*over)(void *), void *context)
{
	uint64_t until = stream->queued;
	int verdict = over ? 0 : 1;

	int rc = host_capture_punish(stream, true);

	if (rc)
		return rc;
	while ((int64_t)(stream->finished - until) < 0 && verdict >= 0)
		if (verdict)
			pthread_cond_wait(&stream->done, &stream->lock);
		else
			verdict = sync_ask(stream, over, context);
	if (verdict < 0)
		return verdict;
	return host_sticky() ? error_set(-EIO, "host device: the work on this stream failed") : 0;
}

static int stream_sync(void *handle, int (*over)(void *), void *context, bool asks_first)
{
	struct host_stream *stream;
	int rc = host_enter(HOST_SYNC);

	if (rc)
		return rc;
	stream = host_stream_get(handle, host_current_device());
	if (!stream)
		return -EINVAL;
	rc = asks_first ? host_capture_refuse(stream, true) : 0;
	pthread_mutex_lock(&stream->lock);
	if (!rc)
		rc = sync_locked(stream, over, context);
	pthread_mutex_unlock(&stream->lock);
	host_stream_put(stream);
	return rc;
}

int host_stream_sync_until(void *handle, int (*over)(void *), void *context)
{
	return stream_sync(handle, over, context, true);
}

int host_stream_sync(void *handle)
{
	return stream_sync(handle, NULL, NULL, true);
}

int host_capture_sync(void *handle)
{
	return stream_sync(handle, NULL, NULL, false);
}

/* ---- queueing ---- */

static uint64_t list_length(const struct host_task *list, struct host_task **last)
{
	uint64_t length = 0;

	for (; list; list = list->next, length++)
		*last = (struct host_task *)list;
	return length;
}

static int queue_locked(struct host_stream *stream, struct host_task *list)
{
	struct host_task *last = list;
	uint64_t length = list_length(list, &last);
	int rc;

	if (stream->capture)
		return host_graph_record(stream->capture, list);
	rc = host_capture_punish(stream, false);
	if (rc)
		return rc;
	rc = stream->running ? 0 : thread_start(stream);
	if (rc)
		return rc;
	busy_add(stream->device, length);
	host_connection_submit(stream, list);
	*stream->tail = list;
	stream->tail = &last->next;
	stream->queued += length;
	pthread_cond_signal(&stream->work);
	return 0;
}

int host_queue(struct host_stream *stream, struct host_task *list)
{
	bool recorded;
	int rc;

	if (!list)
		return 0;
	pthread_mutex_lock(&stream->lock);
	recorded = stream->capture;
	rc = queue_locked(stream, list);
	pthread_mutex_unlock(&stream->lock);
	/* What is recorded is a copy: a graph holds no kernel, each of its launches does. */
	if (rc || recorded)
		host_task_free(list, true);
	return rc;
}

/* Inside the gate. Takes the task over. */
static int task_queue(void *handle, struct host_task *task, bool refuse_capture)
{
	struct host_stream *stream = host_stream_get(handle, host_current_device());
	int rc = stream ? 0 : -EINVAL;

	if (!rc)
		rc = host_capture_refuse(stream, refuse_capture);
	if (!rc)
		rc = host_task_check(task, stream->device);
	if (rc)
		host_task_free(task, false);
	else
		rc = host_queue(stream, task);
	if (stream)
		host_stream_put(stream);
	return rc;
}

static int task_submit(void *handle, struct host_task *task, bool refuse_capture)
{
	int rc;

	host_gate_pass();
	rc = task_queue(handle, task, refuse_capture);
	host_gate_leave();
	return rc;
}

static int word_submit(void *handle, enum host_task_kind kind, uint64_t *word, uint64_t value, bool refuse_capture)
{
	struct host_task *task = host_task_new(kind, 0);

	if (!task)
		return -ENOMEM;
	task->word.word = word;
	task->word.value = value;
	return task_submit(handle, task, refuse_capture);
}

int host_stream_write(void *handle, uint64_t *word, uint64_t value)
{
	int rc = host_enter(HOST_WRITE);

	return rc ? rc : word_submit(handle, HOST_TASK_WRITE, word, value, true);
}

int host_stream_wait(void *handle, const uint64_t *word, uint64_t value)
{
	int rc = host_enter(HOST_WAIT);

	return rc ? rc : word_submit(handle, HOST_TASK_WAIT, (uint64_t *)word, value, true);
}

int host_capture_write(void *handle, uint64_t *word, uint64_t value)
{
	int rc = host_enter(HOST_WRITE);

	return rc ? rc : word_submit(handle, HOST_TASK_WRITE, word, value, false);
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
	return task_submit(handle, task, false);
}
