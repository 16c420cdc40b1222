/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker-cuda.h - gpubroker.h for programs that use the CUDA runtime: streams are of type cudaStream_t. For C++ it
 * includes gpubroker.hpp.
 *
 * This header is optional: gpubroker.h takes a cudaStream_t as void *, and a lease's ptr is a plain device pointer for
 * any kernel, library or cudaMemcpy. All functions are inline; C11 and C++11, host compiler or nvcc.
 *
 *     gpub::lease u;
 *     if (u.acquire(client, "u", GPUB_READ | GPUB_WRITE))
 *             return fail(gpub_strerror_last());
 *     step<<<grid, block, 0, stream>>>(u.as<float>());      // __global__ void step(gpub::span<float> u)
 *     u.return_on(stream);                                   // the GPU gives it back after step
 *
 * A return in stream order covers what was queued on that one stream before the call. Work on other streams must be
 * ordered before it (cudaStreamWaitEvent), as for cudaFreeAsync.
 */
#ifndef GPUBROKER_CUDA_H
#define GPUBROKER_CUDA_H

#include <cuda_runtime_api.h>

#include "gpubroker.h"

/* gpub_return_on() with a typed stream: returns the lease after all work that is queued on the stream so far. */
static inline int gpub_return_on_stream(gpub_lease *lease, cudaStream_t stream)
{
	return gpub_return_on(lease, (void *)stream);
}

/* gpub_signal_on() with a typed stream: sets the timeline after all work that is queued on the stream so far. */
static inline int gpub_signal_on_stream(const gpub_lease *lease, uint64_t value, cudaStream_t stream)
{
	return gpub_signal_on(lease, value, (void *)stream);
}

/*
 * gpub_wait_on() with a typed stream: all work that is queued on it from now on waits until the timeline is at value.
 */
static inline int gpub_wait_on_stream(const gpub_lease *lease, uint64_t value, cudaStream_t stream)
{
	return gpub_wait_on(lease, value, (void *)stream);
}

/*
 * gpub_stream_create() with a typed stream. *stream is a plain cudaStream_t, which cudaStreamDestroy() destroys as
 * well.
 */
static inline int gpub_cuda_stream_create(gpub_client *client, int device, cudaStream_t *stream)
{
	void *made;
	int   rc = gpub_stream_create(client, device, &made);

	if (!rc)
		*stream = (cudaStream_t)made;
	return rc;
}

#ifdef __cplusplus
#include "gpubroker.hpp"
#endif
#endif
