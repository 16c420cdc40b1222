/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker-cuda.h - gpubroker.h for programs that use the CUDA runtime: streams typed; for C++ with gpubroker.hpp.
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

/* gpub_return_on(): gives the hold back after everything queued on stream so far. */
static inline int gpub_return_on_stream(gpub_lease *lease, cudaStream_t stream)
{
	return gpub_return_on(lease, (void *)stream);
}

/* gpub_signal_on(): sets the buffer's timeline after everything queued on stream so far. */
static inline int gpub_signal_on_stream(const gpub_lease *lease, uint64_t value, cudaStream_t stream)
{
	return gpub_signal_on(lease, value, (void *)stream);
}

/* gpub_wait_on(): everything queued on stream from now on waits until the timeline is at least value. */
static inline int gpub_wait_on_stream(const gpub_lease *lease, uint64_t value, cudaStream_t stream)
{
	return gpub_wait_on(lease, value, (void *)stream);
}

/* gpub_stream_create() with its type. It is a plain cudaStream_t: cudaStreamDestroy() ends it as well. */
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
