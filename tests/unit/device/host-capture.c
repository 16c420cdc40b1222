/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-capture.c - see host-capture.h
 *
 * Owns the graphs that are being recorded, with a reference to the stream of each. Recorded tasks hold no kernels: each
 * replay takes references anew, and checks the memory as a direct launch does.
 */
#include "host-capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "device/host-fault.h"
#include "device/host-module.h"
#include "device/host-state.h"
#include "device/host-stream.h"

struct host_graph {
	struct host_task *first, **last;

	/* While it is recorded. */
	struct host_graph  *next;
	struct host_stream *stream;
	bool                blocking, invalid;
};

static struct host_graph *captures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* behind a stream's */

/* ---- what a capture does to calls on its stream, and on the default stream of its device ---- */

static struct host_graph *capture_of(const struct host_stream *stream)
{
	struct host_graph *graph = captures;

	while (graph && graph->stream != stream)
		graph = graph->next;
	return graph;
}

/* A capture ends with its stream, when this file has the last reference. */
static bool is_alive(const struct host_stream *stream)
{
	return atomic_load(&stream->references) > 1;
}

static int refuse(struct host_graph *graph, enum host_use use)
{
	if (use == HOST_UNASKED)
		graph->invalid = true;
	return error_set(-EBUSY, "the stream is captured, or another one that the default stream depends on");
}

static int refuse_implicit(const struct host_stream *stream, enum host_use use)
{
	int rc = 0;

	for (struct host_graph *graph = captures; graph; graph = graph->next)
		if (graph->blocking && stream->is_default && graph->stream->device == stream->device &&
		    is_alive(graph->stream))
			rc = refuse(graph, use);
	return rc;
}

static void record(struct host_graph *graph, struct host_task *list)
{
	for (*graph->last = list; list; list = list->next) {
		if (list->kind == HOST_TASK_KERNEL)
			host_kernel_drop(list->launch.kernel);
		graph->last = &list->next;
	}
}

static int intercept(const struct host_stream *stream, struct host_task *list, enum host_use use)
{
	struct host_graph *graph;
	int rc;

	pthread_mutex_lock(&lock);
	graph = capture_of(stream);
	if (!graph)
		rc = refuse_implicit(stream, use);
	else if (!list || use == HOST_REFUSED)
		rc = refuse(graph, use);
	else
		rc = 1;
	if (rc > 0)
		record(graph, list);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Before any thread, which reads it without a lock. */
__attribute__((constructor)) static void intercept_set(void)
{
	host_capture = intercept;
}

/* ---- captures ---- */

static int capture_add(struct host_stream *stream, bool blocking)
{
	struct host_graph *graph = calloc(1, sizeof *graph);
	bool captured;

	if (!graph)
		return error_set(-ENOMEM, "no memory for a graph");
	pthread_mutex_lock(&lock);
	captured = capture_of(stream);
	if (!captured) {
		*graph = (struct host_graph){
			.last = &graph->first, .next = captures, .stream = stream, .blocking = blocking
		};
		captures = graph;
	}
	pthread_mutex_unlock(&lock);
	if (!captured)
		return 0;
	free(graph);
	return error_set(-EBUSY, "the stream is being captured already");
}

static int capture_begin(void *handle, bool blocking)
{
	struct host_stream *stream;
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	if (!handle)
		return error_set(-EINVAL, "the default stream cannot be captured");
	stream = host_stream_get(handle, 0);
	if (!stream)
		return -EINVAL;
	rc = capture_add(stream, blocking);
	if (rc)
		host_stream_put(stream);
	return rc;
}

int host_capture_begin(void *handle)
{
	return capture_begin(handle, false);
}

int host_capture_begin_blocking(void *handle)
{
	return capture_begin(handle, true);
}

int host_capture_write(void *handle, uint64_t *word, uint64_t value)
{
	struct host_task *task;
	int rc = host_enter(HOST_WRITE);

	if (rc)
		return rc;
	task = host_task_new(HOST_TASK_WRITE, 0);
	if (!task)
		return -ENOMEM;
	task->word.word = word;
	task->word.value = value;
	return host_stream_submit(handle, host_current_device(), task, HOST_RECORDED);
}

int host_capture_sync(void *handle)
{
	return host_stream_await(handle, NULL, NULL, HOST_UNASKED);
}

static struct host_graph *capture_remove(const void *stream)
{
	struct host_graph *graph, **link = &captures;

	pthread_mutex_lock(&lock);
	while (*link && (*link)->stream != stream)
		link = &(*link)->next;
	graph = *link;
	if (graph)
		*link = graph->next;
	pthread_mutex_unlock(&lock);
	return graph;
}

int host_capture_end(void *handle, struct host_graph **graph)
{
	struct host_graph *taken;
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	taken = capture_remove(handle);
	if (!taken)
		return error_set(-EINVAL, "the stream is not being captured");
	host_stream_put(taken->stream);
	taken->stream = NULL;
	if (taken->invalid) {
		host_graph_destroy(taken);
		return error_set(-ECANCELED, "the capture was invalidated by a call that cannot be captured");
	}
	*graph = taken;
	return 0;
}

/* ---- graphs ---- */

static void tasks_free(struct host_task *list)
{
	while (list) {
		struct host_task *task = list;

		list = task->next;
		free(task);
	}
}

void host_graph_destroy(struct host_graph *graph)
{
	if (!graph)
		return;
	tasks_free(graph->first);
	free(graph);
}

/* A copy of the tasks with references to their kernels: all of it, or NULL. */
static int tasks_copy(const struct host_task *list, struct host_task **copy)
{
	struct host_task **last = copy;
	int rc = 0;

	for (*copy = NULL; list && !rc; list = list->next) {
		struct host_task *task = malloc(list->bytes);

		rc = !task ? error_set(-ENOMEM, "no memory for a graph's tasks") :
		     list->kind == HOST_TASK_KERNEL ? host_kernel_hold(list->launch.kernel) : 0;
		if (rc) {
			free(task);
			break;
		}
		memcpy(task, list, list->bytes);
		task->next = NULL;
		*last = task;
		last = &task->next;
	}
	if (rc)
		host_task_free(*copy);
	return rc;
}

int host_graph_launch(struct host_graph *graph, void *handle)
{
	struct host_task *list;
	int rc = host_enter(HOST_LAUNCH);

	if (!rc)
		rc = tasks_copy(graph->first, &list);
	if (rc || !list)
		return rc;
	return host_stream_submit(handle, host_current_device(), list, HOST_UNASKED);
}
