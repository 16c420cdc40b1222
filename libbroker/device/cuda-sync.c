/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-sync.c - closes of memory, and waits for what a context has queued; neither disturbs a graph capture.
 *
 * To synchronise a context would end any capture in it, even in relaxed mode (facts.md). To open a handle that is already
 * open, and to close it again, waits for the same work and disturbs nobody. CUDA does not document that, and a buffer's
 * memory serves another buffer because of it. So this file tries it once on each device before it relies on it: it blocks a
 * private stream by a wait, and a close that returns before that stream is released does not wait for work. On such a device
 * cuda_sync() gives -ENOTSUP from then on, and each last close is tried in the same way. If the program resets the device
 * during a trial, the trial has no verdict.
 *
 * Owns the verdicts, and a page with the words on which streams wait. Blocks no stream for longer than PARKED_US, and none
 * in a program that returns all its leases in stream order. Never reports a close as done that the driver did not report as
 * done: the caller then keeps the grant for ever (design.md, "close").
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/error.h"
#include "common/now.h"
#include "common/thread.h"
#include "device/cuda.h"
#include "device/page.h"

#define PAGE_BYTES 4096

#define PARKED_US 2000 /* hundreds of times what a close takes that has nothing to wait for (facts.md) */
#define WAITS     3    /* so many closes must wait */
#define TRIALS    12   /* so many are tried at most: some have no verdict */

enum verdict { UNKNOWN = 0, CLOSES_WAIT, CLOSES_RETURN };

static _Atomic(enum verdict) verdicts[DEVICE_MAX];
static pthread_mutex_t       trial_lock = PTHREAD_MUTEX_INITIALIZER; /* held over a trial; words */
static uint64_t             *words;     /* one for each device */

_Static_assert(DEVICE_MAX * sizeof(uint64_t) <= PAGE_BYTES, "a page has a word for each device");

/* ---- a trial ---- */

struct trial {
	uint64_t      *word, value; /* the stream waits for this value there */
	CUstream       stream;
	unsigned long long context;
	pthread_t      thread;
	atomic_bool    begun, released;
	_Atomic int64_t released_ns; /* just before */
	int64_t        begun_ns;     /* just before the close */
};

static void *release_later(void *argument)
{
	struct trial *trial = argument;

	while (!atomic_load(&trial->begun))
		sched_yield();
	usleep(PARKED_US);
	atomic_store(&trial->released_ns, (int64_t)now_ns(CLOCK_MONOTONIC));
	atomic_store(&trial->released, true);
	__atomic_store_n(trial->word, trial->value, __ATOMIC_RELEASE);
	return NULL;
}

static int reset_between(const struct trial *trial, int ordinal)
{
	return cuda_context_id() == trial->context ? 0 : cuda_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "a trial on device %d", ordinal);
}

/* A stream of a context that was reset is freed memory (facts.md). */
static void stream_end(const struct trial *trial)
{
	if (cuda_context_id() == trial->context)
		(void)cuda.StreamDestroy(trial->stream);
}

static void trial_end(struct trial *trial)
{
	atomic_store(&trial->begun, true);
	pthread_join(trial->thread, NULL);
	if (cuda_context_id() == trial->context)
		(void)cuda.StreamSynchronize(trial->stream);
	stream_end(trial);
}

/* Starts the thread before the wait is queued: no stream waits without a thread that releases it. */
static int trial_begin(struct trial *trial, int ordinal)
{
	void *page = words;
	int   rc = page ? 0 : page_map(cuda_page_register, PAGE_BYTES, -1, true, &page);

	if (rc)
		return rc;
	words = page;
	trial->word = &words[ordinal];
	trial->value = *trial->word + 1;
	rc = cuda_error(cuda.StreamCreate(&trial->stream, CU_STREAM_NON_BLOCKING), "making a stream on device %d", ordinal);
	if (rc)
		return rc;
	rc = thread_start(&trial->thread, release_later, trial);
	if (rc)
		goto destroy_stream;
	rc = reset_between(trial, ordinal);
	if (!rc)
		rc = cuda_error(cuda.StreamWaitValue64(trial->stream, cuda_address(trial->word), trial->value,
						       CU_STREAM_WAIT_VALUE_GEQ),
				"parking a stream on device %d", ordinal);
	if (rc)
		trial_end(trial);
	return rc;
destroy_stream:
	stream_end(trial);
	return rc;
}

/* UNKNOWN: this thread was delayed before the close, and the stream was released by then. */
static enum verdict trial_verdict(struct trial *trial, bool released)
{
	if (!released)
		return CLOSES_RETURN;
	return atomic_load(&trial->released_ns) - trial->begun_ns < PARKED_US * 500ll ? UNKNOWN : CLOSES_WAIT;
}

/* Closes it while a stream waits. Where that cannot be done, closes it and returns that error. In that context, locked. */
static int close_in_trial(int ordinal, const void *ptr, unsigned long long context, enum verdict *verdict)
{
	struct trial trial = { .context = context };
	CUresult     result;
	bool         released;
	int          rc = trial_begin(&trial, ordinal);

	if (rc) {
		(void)cuda.IpcCloseMemHandle(cuda_address(ptr));
		return rc;
	}
	atomic_store(&trial.begun, true);
	trial.begun_ns = (int64_t)now_ns(CLOCK_MONOTONIC);
	result = cuda.IpcCloseMemHandle(cuda_address(ptr));
	released = atomic_load(&trial.released);
	trial_end(&trial);
	*verdict = trial_verdict(&trial, released);
	rc = reset_between(&trial, ordinal);
	return rc ? rc : cuda_error(result, "closing a buffer on device %d", ordinal);
}

/* ---- verdicts ---- */

static int try_once(int ordinal, const struct device_handle *handle, uint64_t size, unsigned long long context,
		    enum verdict *verdict)
{
	void *again;
	int   rc = cuda_open(ordinal, handle, size, &again);

	return rc ? rc : close_in_trial(ordinal, again, context, verdict);
}

/* One close that returns at once is enough for CLOSES_RETURN. CLOSES_WAIT takes several, and is not assumed. */
static int closes_try(int ordinal, const struct device_handle *handle, uint64_t size, unsigned long long context)
{
	enum verdict verdict = UNKNOWN;
	int          waits = 0, rc = 0;

	for (int i = 0; i < TRIALS && waits < WAITS && verdict != CLOSES_RETURN && !rc; i++) {
		rc = try_once(ordinal, handle, size, context, &verdict);
		waits += verdict == CLOSES_WAIT;
	}
	if (!rc)
		atomic_store(&verdicts[ordinal], waits == WAITS ? CLOSES_WAIT : CLOSES_RETURN);
	return rc;
}

/*
 * Tries closes that are not the last: keeps the handle open meanwhile, because a reset may have closed the caller's.
 * Locked.
 */
static int closes_try_open(int ordinal, const struct device_handle *handle, uint64_t size)
{
	unsigned long long context = cuda_context_id();
	void              *kept;
	int                rc = cuda_open(ordinal, handle, size, &kept);

	if (rc)
		return rc;
	rc = closes_try(ordinal, handle, size, context);
	(void)cuda.IpcCloseMemHandle(cuda_address(kept));
	return rc;
}

static int verdict_get(int ordinal, const struct device_handle *handle, uint64_t size, enum verdict *verdict)
{
	int rc = 0;
	CUDA_SCOPE(scope);

	*verdict = atomic_load(&verdicts[ordinal]);
	if (*verdict != UNKNOWN)
		return 0;
	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	pthread_mutex_lock(&trial_lock);
	if (atomic_load(&verdicts[ordinal]) == UNKNOWN)
		rc = closes_try_open(ordinal, handle, size);
	*verdict = atomic_load(&verdicts[ordinal]);
	pthread_mutex_unlock(&trial_lock);
	return rc;
}

/* ---- closes ---- */

bool cuda_closes_return(int ordinal)
{
	return atomic_load(&verdicts[ordinal]) == CLOSES_RETURN;
}

/* In the device's context. */
static int close_tried(int ordinal, const void *ptr)
{
	enum verdict verdict = UNKNOWN;
	int          rc;

	pthread_mutex_lock(&trial_lock);
	rc = close_in_trial(ordinal, ptr, cuda_context_id(), &verdict);
	pthread_mutex_unlock(&trial_lock);
	if (!rc && verdict != CLOSES_WAIT)
		rc = error_set(-EIO, "a close on device %d did not wait for the work there: its memory is kept until this process "
			       "ends", ordinal);
	return rc;
}

int cuda_close(int ordinal, void *ptr)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	if (cuda_closes_return(ordinal))
		return close_tried(ordinal, ptr);
	return cuda_error(cuda.IpcCloseMemHandle(cuda_address(ptr)), "closing a buffer on device %d", ordinal);
}

int cuda_sync(int ordinal, const struct device_handle *handle, uint64_t size)
{
	enum verdict verdict;
	void        *again;
	int          rc = cuda_check_ordinal(ordinal);

	if (!rc)
		rc = verdict_get(ordinal, handle, size, &verdict);
	if (rc)
		return rc;
	if (verdict == CLOSES_RETURN)
		return error_set(-ENOTSUP, "this driver's cuIpcCloseMemHandle does not wait for the work on device %d: return "
				 "leases in stream order (gpub_return_on), or their memory is kept until all of it is closed", ordinal);
	rc = cuda_open(ordinal, handle, size, &again);
	return rc ? rc : cuda_close(ordinal, again);
}
