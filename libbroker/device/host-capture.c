/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-capture.c - graphs: what a captured stream recorded, and their replays.
 *
 * Owns recorded tasks, and the list of captures that the default streams depend on. Test-only: it models what a user's
 * own stream capture does to a program that holds leases. A graph holds no kernel; each launch takes the holds anew, and
 * checks the memory as a direct launch does.
 *
 * CUDA's rule: whoever waits for a captured stream, or uses the legacy default stream while a blocking stream of its device is
 * captured, is refused and invalidates the capture. Only to ask whether it is captured is harmless. So each call asks first
 * (host_capture_refuse), and what was not asked about is punished where the stream is used (host_capture_punish).
 */
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

struct host_graph {
	struct host_task *first, **last;
	atomic_bool       spoiled;

	/* While it is captured on a blocking stream of that device, under blocking_lock. */
	struct host_graph *next;
	unsigned           device;
};

static struct host_graph *blocking; /* the captures of blocking streams */
static pthread_mutex_t blocking_lock = PTHREAD_MUTEX_INITIALIZER; /* behind a stream's */

static struct host_graph *graph_new(void)
{
	struct host_graph *graph = calloc(1, sizeof *graph);

	if (!graph)
		error_set(-ENOMEM, "host device: no memory for a graph");
	else
		graph->last = &graph->first;
	return graph;
}

static void blocking_add(struct host_graph *graph, unsigned device)
{
	pthread_mutex_lock(&blocking_lock);
	graph->device = device;
	graph->next = blocking;
	blocking = graph;
	pthread_mutex_unlock(&blocking_lock);
}

static void blocking_remove(const struct host_graph *graph)
{
	struct host_graph **link = &blocking;

	pthread_mutex_lock(&blocking_lock);
	while (*link && *link != graph)
		link = &(*link)->next;
	if (*link)
		*link = graph->next;
	pthread_mutex_unlock(&blocking_lock);
}

void host_graph_destroy(struct host_graph *graph)
{
	if (!graph)
		return;
	blocking_remove(graph);
	host_task_free(graph->first, false);
	free(graph);
}

/* Whether the stream is a default one on which a capture depends; spoil: invalidates those captures. */
static bool is_implicit(const struct host_stream *stream, bool spoil)
{
	bool found = false;

	if (!stream->is_default)
		return false;
	pthread_mutex_lock(&blocking_lock);
	for (struct host_graph *graph = blocking; graph; graph = graph->next) {
		if (graph->device != stream->device)
			continue;
		found = true;
		if (spoil)
			graph->spoiled = true;
	}
	pthread_mutex_unlock(&blocking_lock);
	return found;
}

static int refuse_implicit(void)
{
	return error_set(-EBUSY, "a blocking stream of the device is being captured into a graph, and the default stream cannot "
				 "be used meanwhile: take another stream");
}

int host_capture_refuse(struct host_stream *stream, bool also_captured)
{
	bool captured;

	pthread_mutex_lock(&stream->lock);
	captured = stream->capture;
	pthread_mutex_unlock(&stream->lock);
	if (captured && also_captured)
		return error_set(-EBUSY, "the stream is being captured into a graph: do this after the graph's launch");
	return is_implicit(stream, false) ? refuse_implicit() : 0;
}

int host_capture_punish(const struct host_stream *stream, bool also_captured)
{
	if (stream->capture && also_captured) {
		stream->capture->spoiled = true;
		return error_set(-EBUSY, "the stream is being captured, and to wait for it spoils the capture");
	}
	return is_implicit(stream, true) ? refuse_implicit() : 0;
}

/* A copy of the tasks, or NULL for want of memory. */
static struct host_task *tasks_copy(const struct host_task *list)
{
	struct host_task *first = NULL, **last = &first;

	for (; list; list = list->next) {
		struct host_task *task = malloc(list->bytes);

		if (!task) {
			error_set(-ENOMEM, "host device: no memory for a graph's tasks");
			host_task_free(first, false);
			return NULL;
		}
		memcpy(task, list, list->bytes);
		task->next = NULL;
		*last = task;
		last = &task->next;
	}
	return first;
}

int host_graph_record(struct host_graph *graph, struct host_task *list)
{
	struct host_task *copy = tasks_copy(list);

	if (!copy)
		return -ENOMEM;
	*graph->last = copy;
	while (*graph->last)
		graph->last = &(*graph->last)->next;
	return 0;
}

static int capture_set(struct host_stream *stream, struct host_graph *graph, bool as_blocking)
{
	int rc = 0;

	pthread_mutex_lock(&stream->lock);
	if (stream->capture)
		rc = error_set(-EBUSY, "the stream is being captured already");
	else
		stream->capture = graph;
	if (!rc && as_blocking)
		blocking_add(graph, stream->device);
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

static int capture_begin(void *handle, bool as_blocking)
{
	struct host_stream *stream;
	struct host_graph *graph;
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	if (!handle)
		return error_set(-EINVAL, "the default stream cannot be captured");
	stream = host_stream_get(handle, 0);
	if (!stream)
		return -EINVAL;
	graph = graph_new();
	rc = graph ? capture_set(stream, graph, as_blocking) : -ENOMEM;
	if (rc)
		host_graph_destroy(graph);
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

static struct host_graph *capture_take(struct host_stream *stream)
{
	struct host_graph *graph;

	pthread_mutex_lock(&stream->lock);
	graph = stream->capture;
	stream->capture = NULL;
	pthread_mutex_unlock(&stream->lock);
	if (graph)
		blocking_remove(graph);
	return graph;
}

int host_capture_end(void *handle, struct host_graph **graph)
{
	struct host_stream *stream;
	struct host_graph *taken;
	int rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	stream = host_stream_get(handle, 0);
	if (!stream)
		return -EINVAL;
	taken = capture_take(stream);
	host_stream_put(stream);
	if (!taken)
		return error_set(-EINVAL, "the stream is not being captured");
	if (taken->spoiled) {
		host_graph_destroy(taken);
		return error_set(-ECANCELED, "the capture was spoiled by a call that cannot be captured");
	}
	*graph = taken;
	return 0;
}

/* Holds every kernel of the list, or none. */
static int tasks_hold(struct host_task *list)
{
	for (struct host_task *task = list; task; task = task->next) {
		int rc = task->kind == HOST_TASK_KERNEL ? host_kernel_hold(task->launch.kernel) : 0;

		if (!rc)
			continue;
		for (; list != task; list = list->next)
			if (list->kind == HOST_TASK_KERNEL)
				host_kernel_drop(list->launch.kernel);
		return rc;
	}
	return 0;
}

static int tasks_check(const struct host_task *list, unsigned device)
{
	int rc = 0;

	for (; !rc && list; list = list->next)
		rc = host_task_check(list, device);
	return rc;
}

static int graph_queue(const struct host_graph *graph, struct host_stream *stream)
{
	struct host_task *list = tasks_copy(graph->first);
	int rc;

	if (!list)
		return graph->first ? -ENOMEM : 0;
	rc = tasks_hold(list);
	if (rc) {
		host_task_free(list, false);
		return rc;
	}
	rc = tasks_check(list, stream->device);
	if (rc) {
		host_task_free(list, true);
		return rc;
	}
	return host_queue(stream, list);
}

int host_graph_launch(struct host_graph *graph, void *handle)
{
	struct host_stream *stream;
	int rc = host_enter(HOST_LAUNCH);

	if (rc)
		return rc;
	stream = host_stream_get(handle, host_current_device());
	if (!stream)
		return -EINVAL;
	host_gate_pass();
	rc = graph_queue(graph, stream);
	host_gate_leave();
	host_stream_put(stream);
	return rc;
}
