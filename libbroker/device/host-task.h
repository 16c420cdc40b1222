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
	/* does nothing; its end releases the HOST_TASK_AFTER with the same host_mark, on another stream */
	HOST_TASK_MARK,
	HOST_TASK_AFTER, /* waits until the HOST_TASK_MARK with the same host_mark has ended */
};

struct host_kernel;
struct host_mark;

struct host_task {
	struct host_task   *next;
	enum host_task_kind kind;
	size_t              bytes;  /* size of this struct with its parameters, for tests that copy the task as bytes */
	uint64_t            behind; /* number of waits that were submitted before the task on its connection */
	union {
		struct device_word word;
		struct {
			void       *dst;
			const void *src;
			uint64_t    size;
		} copy;
		struct host_mark *mark; /* the task has a reference to the mark */
		struct {
			struct host_kernel *kernel; /* the task has a reference to the kernel */
			gpub_launch_config  config;
		} launch;
	};
	_Alignas(16) uint8_t params[]; /* the values of a kernel's parameters, at the offsets in host_kernel.offset */
};

/* Returns a new task with room for `params` bytes of parameters. NULL: no memory; the error message is set. */
struct host_task *host_task_new(enum host_task_kind kind, size_t params);

/* Makes a HOST_TASK_MARK for one stream, and the HOST_TASK_AFTER by which another stream waits for it. -ENOMEM. */
int host_task_new_mark(struct host_task **mark, struct host_task **after);

/*
 * Whether the task waits for another stream or process, and so may block later tasks of its connection without limit.
 */
static inline bool host_task_waits(const struct host_task *task)
{
	return task->kind == HOST_TASK_WAIT || task->kind == HOST_TASK_AFTER;
}

/*
 * Frees the tasks of a list. Drops their references to kernels, and releases streams that wait for a HOST_TASK_MARK of
 * the list.
 */
void host_task_free(struct host_task *list);

/*
 * Checks the task's memory accesses. Aborts if CUDA would not detect that an access is wrong. -EINVAL: CUDA would
 * refuse an access.
 */
int host_task_check(const struct host_task *task, unsigned device);

/*
 * Runs the task. Drops the task instead after a sticky error, or if the device was reset since the task's stream was
 * made. resets: host_stream.resets of the task's stream. A HOST_TASK_WAIT ends when its word has reached the value, or
 * when the task is dropped.
 */
void host_task_run(const struct host_task *task, unsigned device, uint64_t resets);

#endif
