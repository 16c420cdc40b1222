/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-capture.c - graphs: what a captured stream recorded, and their replays.
 *
 * Owns recorded tasks. Test-only: it models what a user's own stream capture does to a program that holds leases. A
 * graph holds no kernel; each launch takes the holds anew, and checks the memory as a direct launch does.
 */
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

struct host_graph {
	struct host_task *first, **last;
	bool              spoiled;
};

static struct host_graph *graph_new(void)
{
	struct host_graph *graph = calloc(1, sizeof *graph);

	if (!graph)
		error_set(-ENOMEM, "host device: no memory for a graph");
	else
		graph->last = &graph->first;
	return graph;
}

void host_graph_destroy(struct host_graph *graph)
{
	if (!graph)
		return;
	host_task_free(graph->first, false);
	free(graph);
}

void host_graph_spoil(struct host_graph *graph)
{
	graph->spoiled = true;
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

static int capture_set(struct host_stream *stream, struct host_graph *graph)
{
	int rc = 0;

	pthread_mutex_lock(&stream->lock);
	if (stream->capture)
		rc = error_set(-EBUSY, "the stream is being captured already");
	else
		stream->capture = graph;
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

int host_capture_begin(void *handle)
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
	rc = graph ? capture_set(stream, graph) : -ENOMEM;
	if (rc)
		host_graph_destroy(graph);
	host_stream_put(stream);
	return rc;
}

static struct host_graph *capture_take(struct host_stream *stream)
{
	struct host_graph *graph;

	pthread_mutex_lock(&stream->lock);
	graph = stream->capture;
	stream->capture = NULL;
	pthread_mutex_unlock(&stream->lock);
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
