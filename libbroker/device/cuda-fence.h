/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fence.h - fences, which mark a module's launches, so that the module is unloaded only after all launches have
 * ended.
 */
#ifndef GPUB_CUDA_FENCE_H
#define GPUB_CUDA_FENCE_H

#include <pthread.h>
#include <stdbool.h>

#include "device/cuda.h"

/* The fences of one module. */
struct fences {
	pthread_mutex_t lock; /* protects the list of fences; never held during a launch or a wait */
	struct fence   *first; /* the list of fences */
	unsigned        count; /* length of the list of fences */
};

/*
 * Call cuda_fence_take() before a launch and cuda_fence_put() after the launch, in the stream's context, because an
 * event and its stream must have the same context. launched: true if the launch succeeded; cuda_fence_put() then marks
 * the launch by an event.
 */
int  cuda_fence_take(struct fences *fences, int ordinal, CUstream stream, struct fence **fence);
void cuda_fence_put(struct fence *fence, CUstream stream, bool launched);

/*
 * Waits until all launches of the module have ended. The caller makes sure that no kernel of it is launched any more.
 * Returns an error if a kernel failed, or if a launch could not be marked, so that its end is unknown.
 */
int  cuda_fences_wait(const struct fences *fences);
void cuda_fences_free(struct fences *fences);

#endif
