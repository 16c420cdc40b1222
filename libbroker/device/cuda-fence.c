/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fence.c - see cuda-fence.h
 *
 * Owns a fence, with an event, for each stream on which kernels of a module run. The event is recorded after every
 * launch, and the unload of the module waits for the events. To synchronise the context instead would wait for
 * unrelated work, and is not allowed while a stream of the context is being captured (CUDA programming guide,
 * "Prohibited and Unhandled Operations").
 */
#include "device/cuda-fence.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <utlist.h>

#include "common/error.h"

#define FENCES_FRESH 16 /* number of a module's fences below which a new fence is made, not an idle one used again */

/*
 * Marks the last launch on one stream. Stream and context are identified by ids: the driver reuses stream handles,
 * and the per-thread stream has one handle for many streams. After a reset of the device the new context has the old
 * handle, and the event of the old context must not be used (facts.md).
 */
struct fence {
	struct fence      *next;
	unsigned long long stream, context; /* the ids of the stream and of its context */
	int                ordinal;
	CUevent            event;    /* recorded on the stream after the last launch */
	/* number of launches that have not recorded the event yet; the fence stays with its stream while it is not 0 */
	atomic_uint        users;
	_Atomic(CUresult)  unmarked; /* error of a launch that could not be marked, so that its end is unknown */
};

static struct fence *fence_find(struct fences *fences, unsigned long long context, unsigned long long stream)
{
	struct fence *fence = fences->first;

	while (fence && (fence->stream != stream || fence->context != context))
		fence = fence->next;
	return fence;
}

/*
 * Returns a fence of the context whose launches have all ended, or NULL. A fence that is used again for another stream
 * saves an event in a program with many streams.
 */
static struct fence *fence_find_idle(struct fences *fences, unsigned long long context)
{
	struct fence *fence = fences->count < FENCES_FRESH ? NULL : fences->first;

	while (fence &&
	       (fence->context != context || atomic_load(&fence->users) ||
		atomic_load(&fence->unmarked) != CUDA_SUCCESS || cuda.EventQuery(fence->event) != CUDA_SUCCESS))
		fence = fence->next;
	return fence;
}

/*
 * Makes a fence with an event, and adds it to the list. Call it in the stream's context, because an event and its
 * stream must have the same context.
 */
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
 * No lock is held around the launch and the record of its event, because a launch can block on a full queue until
 * another thread's launch lets it proceed. Each thread records the event after its own launch, so the last record comes
 * after all launches. A launch that cannot be marked succeeds nevertheless, because it cannot be undone. Then the
 * module is not unloaded (fence_wait()), unless the device is reset.
 */
void cuda_fence_put(struct fence *fence, CUstream stream, bool launched)
{
	CUresult result = launched ? cuda.EventRecord(fence->event, stream) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		atomic_store(&fence->unmarked, result);
	atomic_fetch_sub(&fence->users, 1);
}

/*
 * Waits until the fence's launches have ended. An event that was never recorded counts as complete. If the device was
 * reset since, all launches have ended.
 */
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
