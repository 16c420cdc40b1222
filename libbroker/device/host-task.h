/* SPDX-License-Identifier: Apache-2.0 */
/* host-task.h - what is queued on a stream of the host device: a kernel, a write, a wait, a copy, or a mark for another stream. */
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
	HOST_TASK_MARK,  /* does nothing: that it is over is what another stream waits for */
	HOST_TASK_AFTER, /* waits until a mark is over */
};

struct host_kernel;
struct host_mark;

struct host_task {
	struct host_task   *next;
	enum host_task_kind kind;
	size_t              bytes;  /* of this struct with its parameters: a task can be copied as bytes */
	uint64_t            behind; /* how many waits were submitted before it on its connection */
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
	_Alignas(16) uint8_t params[]; /* of a kernel */
};

/* NULL: no memory, and the error is set. */
struct host_task *host_task_new(enum host_task_kind kind, size_t params);

/* A mark for one stream, and what makes another one wait for it. -ENOMEM. */
int host_task_new_mark(struct host_task **mark, struct host_task **after);

/* It may hold up the tasks behind it for as long as others like: those of the same connection, too. */
static inline bool host_task_waits(const struct host_task *task)
{
	return task->kind == HOST_TASK_WAIT || task->kind == HOST_TASK_AFTER;
}

/* Frees the list, drops its kernels, and ends its marks, whether they have run or not. */
void host_task_free(struct host_task *list);

/* Aborts where CUDA would not notice that the task touches what it must not; -EINVAL where CUDA would refuse. */
int host_task_check(const struct host_task *task, unsigned device);

/*
 * Runs the task, or drops it: after a sticky error nothing runs any more, nor after a reset. resets: of the device when the
 * task's stream was made. A wait returns when its word is reached or the task is dropped.
 */
void host_task_run(const struct host_task *task, unsigned device, uint64_t resets);

#endif
