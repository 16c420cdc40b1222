/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fence.c - see cuda-fence.h
 *
 * Owns an event for each stream on which a module is busy. It is recorded after every launch, and unloading waits for these
 * events: a synchronisation of the whole context would wait for the work of others, and is not allowed while any of its
 * streams is being captured (CUDA programming guide, "Prohibited and Unhandled Operations").
 */
#include "device/cuda-fence.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <utlist.h>

#include "common/error.h"

#define FENCES_FRESH 16 /* so many events are made before idle ones are looked for */

/*
 * The last launch on one stream, which is known by its id: the driver uses handles again, and the per-thread stream has one
 * handle for many streams. So is its context: after a reset of the device another one has the same handle, and the event of
 * a context that is gone must not be touched (facts.md).
 */
struct fence {
	struct fence      *next;
	unsigned long long stream, context;
	int                ordinal;
	CUevent            event;
	atomic_uint        users;    /* launches that have yet to record it: it stays theirs */
	_Atomic(CUresult)  unmarked; /* why a launch could not be marked: nobody knows when that one ends */
};

static struct fence *fence_find(struct fences *fences, unsigned long long context, unsigned long long stream)
{
	struct fence *fence = fences->first;

	while (fence && (fence->stream != stream || fence->context != context))
		fence = fence->next;
	return fence;
}

/* One whose launches are all complete: a program that makes many streams needs few events. */
static struct fence *fence_find_idle(struct fences *fences, unsigned long long context)
{
	struct fence *fence = fences->count < FENCES_FRESH ? NULL : fences->first;

	while (fence && (fence->context != context || atomic_load(&fence->users) ||
			 atomic_load(&fence->unmarked) != CUDA_SUCCESS || cuda.EventQuery(fence->event) != CUDA_SUCCESS))
		fence = fence->next;
	return fence;
}

/* In the stream's context: event and stream must be of one. */
static int fence_make(struct fences *fences, int ordinal, struct fence **made)
{
	struct fence *fence = calloc(1, sizeof(*fence));
	int           rc;

	if (!fence)
		return error_set(-ENOMEM, "no memory for a launch");
	rc = cuda_error(cuda.EventCreate(&fence->event, CU_EVENT_DISABLE_TIMING), "making an event");
	if (rc) {
		free(fence);
		return rc;
	}
	fence->ordinal = ordinal;
	LL_PREPEND(fences->first, fence);
	fences->count++;
	*made = fence;
	return 0;
}

static int take_locked(struct fences *fences, int ordinal, unsigned long long stream, struct fence **fence)
{
	unsigned long long context = cuda_context_id();
	int                rc = 0;

	*fence = fence_find(fences, context, stream);
	if (!*fence)
		*fence = fence_find_idle(fences, context);
	if (!*fence)
		rc = fence_make(fences, ordinal, fence);
	if (rc)
		return rc;
	(*fence)->context = context;
	(*fence)->stream = stream;
	atomic_fetch_add(&(*fence)->users, 1);
	return 0;
}

int cuda_fence_take(struct fences *fences, int ordinal, CUstream stream, struct fence **fence)
{
	unsigned long long id;
	int                rc = cuda_error(cuda.StreamGetId(stream, &id), "looking at the stream");

	if (rc)
		return rc;
	pthread_mutex_lock(&fences->lock);
	rc = take_locked(fences, ordinal, id, fence);
	pthread_mutex_unlock(&fences->lock);
	return rc;
}

/*
 * No lock around launch and record: a launch can block on a full queue, and another thread's launch may be what
 * empties it. Each thread records after its own launch, so the last record is behind all of them. What was launched is
 * launched, so the call succeeds also where it cannot be marked; then the module stays loaded (fence_wait).
 */
void cuda_fence_put(struct fence *fence, CUstream stream, bool launched)
{
	CUresult result = launched ? cuda.EventRecord(fence->event, stream) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		atomic_store(&fence->unmarked, result);
	atomic_fetch_sub(&fence->users, 1);
}

/* An event that was never recorded counts as complete. What ran in a context that was reset has ended. */
static int fence_wait(struct fence *fence)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, fence->ordinal);
	if (rc || cuda_context_id() != fence->context)
		return rc;
	rc = cuda_error(cuda.EventSynchronize(fence->event), "a kernel of the module");
	return rc ? rc : cuda_error(atomic_load(&fence->unmarked), "marking a launch of the module");
}

int cuda_fences_wait(const struct fences *fences)
{
	int rc = 0;

	for (struct fence *fence = fences->first; fence; fence = fence->next) {
		int one = fence_wait(fence);

		rc = rc ? rc : one;
	}
	return rc;
}

static void fence_free(struct fence *fence)
{
	CUDA_SCOPE(scope);

	if (!cuda_enter(&scope, fence->ordinal) && cuda_context_id() == fence->context)
		(void)cuda.EventDestroy(fence->event);
	free(fence);
}

void cuda_fences_free(struct fences *fences)
{
	struct fence *fence;

	while ((fence = fences->first)) {
		fences->first = fence->next;
		fence_free(fence);
	}
	pthread_mutex_destroy(&fences->lock);
}
