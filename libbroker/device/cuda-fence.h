/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fence.h - fences, which mark a module's launches, so that the module is unloaded only after all of them ended.
 */
#ifndef GPUB_CUDA_FENCE_H
#define GPUB_CUDA_FENCE_H

#include <pthread.h>
#include <stdbool.h>

#include "device/cuda.h"

/* The fences of one module. */
struct fences {
	pthread_mutex_t lock; /* of the list; never held during a launch or a wait */
	struct fence   *first;
	unsigned        count; /* length of the list */
};

/*
 * Call cuda_fence_take() before a launch and cuda_fence_put() after it, in the stream's context, because an event and
 * its stream must have the same context. launched: the launch succeeded, and put marks it by an event.
 */
int  cuda_fence_take(struct fences *fences, int ordinal, CUstream stream, struct fence **fence);
void cuda_fence_put(struct fence *fence, CUstream stream, bool launched);

/*
 * Waits until all launches of the module have ended. The caller makes sure that nothing more is launched. Returns an
 * error if a kernel failed, or if a launch could not be marked, so that its end is unknown.
 */
int  cuda_fences_wait(const struct fences *fences);
void cuda_fences_free(struct fences *fences);

#endif
