/* SPDX-License-Identifier: Apache-2.0 */
/* host-task.h - tasks, which are queued on streams of the host device: kernels, copies, writes, waits and marks. */
#ifndef GPUB_HOST_TASK_H
#define GPUB_HOST_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "gpubroker.h"

enum host_task_kind {
	HOST_TASK_KERNEL,
	HOST_TASK_WRITE,
	HOST_TASK_WAIT,
	HOST_TASK_COPY,
	HOST_TASK_MARK,  /* does nothing; its end releases the AFTER of another stream */
	HOST_TASK_AFTER, /* waits until the MARK with the same host_mark has ended */
};

struct host_kernel;
struct host_mark;

struct host_task {
	struct host_task   *next;
	enum host_task_kind kind;
	size_t              bytes;  /* of this struct with its parameters, to copy the task as bytes */
	uint64_t            behind; /* number of waits that were submitted before the task on its connection */
	union {
		struct device_word word;
		struct {
			void       *dst;
			const void *src;
			uint64_t    size;
		} copy;
		struct host_mark *mark; /* a reference */
		struct {
			struct host_kernel *kernel; /* a reference */
			gpub_launch_config  config;
		} launch;
	};
	_Alignas(16) uint8_t params[]; /* parameters of a kernel, at host_kernel.offset */
};

/* Returns a new task with room for `params` bytes of parameters. NULL: no memory; the error message is set. */
struct host_task *host_task_new(enum host_task_kind kind, size_t params);

/* Makes a MARK for one stream, and the AFTER by which another stream waits for the MARK. -ENOMEM. */
int host_task_new_mark(struct host_task **mark, struct host_task **after);

/*
 * Whether the task waits for another stream or process, and so may block later tasks of its connection without limit.
 */
static inline bool host_task_waits(const struct host_task *task)
{
	return task->kind == HOST_TASK_WAIT || task->kind == HOST_TASK_AFTER;
}

/* Frees the tasks of a list. Drops the references to kernels, and releases streams that wait for a MARK in the list. */
void host_task_free(struct host_task *list);

/* Checks the task's memory accesses. Aborts on one that CUDA would not detect. -EINVAL: one that CUDA refuses. */
int host_task_check(const struct host_task *task, unsigned device);

/*
 * Runs the task. Drops the task instead after a sticky error, or if the device was reset since the task's stream was
 * made. resets: host_stream.resets of the task's stream. A wait returns when its word has reached the value, or when
 * it is dropped.
 */
void host_task_run(const struct host_task *task, unsigned device, uint64_t resets);

#endif
