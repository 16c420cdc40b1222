/* SPDX-License-Identifier: Apache-2.0 */
/* cuda-fence.h - which launches of a module still run, so that it can be unloaded behind them. */
#ifndef GPUB_CUDA_FENCE_H
#define GPUB_CUDA_FENCE_H

#include <pthread.h>
#include <stdbool.h>

#include "device/cuda.h"

struct fences {
	pthread_mutex_t lock; /* never held over a launch or a wait */
	struct fence   *first;
	unsigned        count;
};

/* Around a launch, in the stream's context: event and stream must be of one. */
int  cuda_fence_take(struct fences *fences, int ordinal, CUstream stream, struct fence **fence);
void cuda_fence_put(struct fence *fence, CUstream stream, bool launched);

/* The caller launches nothing more. An error: a kernel failed, or it is not known when one ends. */
int  cuda_fences_wait(const struct fences *fences);
void cuda_fences_free(struct fences *fences);

#endif
