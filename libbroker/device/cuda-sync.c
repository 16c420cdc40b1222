/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-sync.c - closes of memory, and waits for what a context has queued; neither disturbs a graph capture.
 *
 * To synchronise a context would end any capture in it, even in relaxed mode (facts.md). Two other calls wait for the same work and
 * disturb nobody: to open a handle that is already open, and to close it again; and, where memory is opened by a descriptor, whose close
 * waits for nothing, to register a page of host memory and to unregister it. CUDA does not document that, and a buffer's
 * memory serves another buffer because of it. So this file tries such a call, a barrier, on each device before it relies on it: it blocks
 * a private stream by a wait, and a barrier that returns before that stream is released does not wait for work. On such a device
 * cuda_sync() gives -ENOTSUP from then on, and each last close of a handle is tried in the same way. If the program resets the device
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
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/now.h"
#include "common/thread.h"
#include "device/cuda.h"
#include "device/page.h"

#define PAGE_BYTES 4096

#define PARKED_US 2000 /* hundreds of times what a close takes that has nothing to wait for (facts.md) */
#define WAITS     3    /* so many barriers must wait */
#define TRIALS    12   /* so many are tried at most: some have no verdict */

enum verdict { UNKNOWN = 0, BARRIERS_WAIT, BARRIERS_RETURN };

static _Atomic(enum verdict) verdicts[EXPORT_KINDS][DEVICE_MAX];
static pthread_mutex_t       trial_lock = PTHREAD_MUTEX_INITIALIZER; /* held over a trial; words */
static uint64_t             *words;     /* one for each device */

_Static_assert(DEVICE_MAX * sizeof(uint64_t) <= PAGE_BYTES, "a page has a word for each device");

/* ---- a barrier ---- */

/* The end of an open of that handle, which is open meanwhile; or, without one, of a registration. */
struct barrier {
	const struct device_handle *handle;
	uint64_t                    size;
	void                       *at; /* what was opened or registered */
};

static int page_new(void **page)
{
	void *mapped = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		return error_set(-ENOMEM, "no memory for a page: %m");
	*page = mapped;
	return 0;
}

/* In the device's context, as the end is. */
static int barrier_begin(struct barrier *barrier, int ordinal)
{
	int rc;

	if (barrier->handle)
		return cuda_open(ordinal, barrier->handle, barrier->size, &barrier->at);
	rc = page_new(&barrier->at);
	if (rc)
		return rc;
	rc = cuda_error(cuda.MemHostRegister(barrier->at, PAGE_BYTES, 0), "registering a page on device %d", ordinal);
	if (rc)
		munmap(barrier->at, PAGE_BYTES);
	return rc;
}

/* A page that the driver keeps registered stays mapped: what came to its address would be taken for it. */
static CUresult barrier_end(const struct barrier *barrier)
{
	CUresult result;

	if (barrier->handle)
		return cuda.IpcCloseMemHandle(cuda_address(barrier->at));
	result = cuda.MemHostUnregister(barrier->at);
	if (result == CUDA_SUCCESS)
		munmap(barrier->at, PAGE_BYTES);
	return result;
}

/* ---- a trial ---- */

struct trial {
	uint64_t      *word, value; /* the stream waits for this value there */
	CUstream       stream;
	unsigned long long context;
	pthread_t      thread;
	atomic_bool    begun, released;
	_Atomic int64_t released_ns; /* just before */
	int64_t        begun_ns;     /* just before the barrier's end */
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

/* UNKNOWN: this thread was delayed before the barrier, and the stream was released by then. */
static enum verdict trial_verdict(struct trial *trial, bool released)
{
	if (!released)
		return BARRIERS_RETURN;
	return atomic_load(&trial->released_ns) - trial->begun_ns < PARKED_US * 500ll ? UNKNOWN : BARRIERS_WAIT;
}

/* Ends it while a stream waits. Where that cannot be done, ends it and returns that error. In that context, locked. */
static int barrier_try(int ordinal, const struct barrier *barrier, unsigned long long context, enum verdict *verdict)
{
	struct trial trial = { .context = context };
	CUresult     result;
	bool         released;
	int          rc = trial_begin(&trial, ordinal);

	if (rc) {
		(void)barrier_end(barrier);
		return rc;
	}
	atomic_store(&trial.begun, true);
	trial.begun_ns = (int64_t)now_ns(CLOCK_MONOTONIC);
	result = barrier_end(barrier);
	released = atomic_load(&trial.released);
	trial_end(&trial);
	*verdict = trial_verdict(&trial, released);
	rc = reset_between(&trial, ordinal);
	return rc ? rc : cuda_error(result, "closing a buffer on device %d", ordinal);
}

/* ---- verdicts ---- */

static _Atomic(enum verdict) *verdict_of(int ordinal, const struct device_handle *handle)
{
	return &verdicts[handle ? EXPORT_IPC : EXPORT_VMM][ordinal];
}

static int try_once(int ordinal, struct barrier *barrier, unsigned long long context, enum verdict *verdict)
{
	int rc = barrier_begin(barrier, ordinal);

	return rc ? rc : barrier_try(ordinal, barrier, context, verdict);
}

/* One barrier that returns at once is enough for BARRIERS_RETURN. BARRIERS_WAIT takes several, and is not assumed. */
static int barriers_try(int ordinal, struct barrier *barrier, unsigned long long context)
{
	enum verdict verdict = UNKNOWN;
	int          waits = 0, rc = 0;

	for (int i = 0; i < TRIALS && waits < WAITS && verdict != BARRIERS_RETURN && !rc; i++) {
		rc = try_once(ordinal, barrier, context, &verdict);
		waits += verdict == BARRIERS_WAIT;
	}
	if (!rc)
		atomic_store(verdict_of(ordinal, barrier->handle), waits == WAITS ? BARRIERS_WAIT : BARRIERS_RETURN);
	return rc;
}

/*
 * Tries closes that are not the last: keeps the handle open meanwhile, because a reset may have closed the caller's.
 * Locked.
 */
static int barriers_try_open(int ordinal, struct barrier *barrier)
{
	unsigned long long context = cuda_context_id();
	void              *kept;
	int                rc;

	if (!barrier->handle)
		return barriers_try(ordinal, barrier, context);
	rc = cuda_open(ordinal, barrier->handle, barrier->size, &kept);
	if (rc)
		return rc;
	rc = barriers_try(ordinal, barrier, context);
	(void)cuda.IpcCloseMemHandle(cuda_address(kept));
	return rc;
}

static int verdict_get(int ordinal, struct barrier *barrier, enum verdict *verdict)
{
	_Atomic(enum verdict) *known = verdict_of(ordinal, barrier->handle);
	int                    rc = 0;
	CUDA_SCOPE(scope);

	*verdict = atomic_load(known);
	if (*verdict != UNKNOWN)
		return 0;
	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	pthread_mutex_lock(&trial_lock);
	if (atomic_load(known) == UNKNOWN)
		rc = barriers_try_open(ordinal, barrier);
	*verdict = atomic_load(known);
	pthread_mutex_unlock(&trial_lock);
	return rc;
}

/* ---- closes ---- */

bool cuda_closes_return(int ordinal)
{
	return atomic_load(&verdicts[EXPORT_IPC][ordinal]) == BARRIERS_RETURN;
}

/* In the device's context. Any handle: only the address says what is closed. */
static int close_tried(int ordinal, void *ptr)
{
	static const struct device_handle any;
	const struct barrier              barrier = { .handle = &any, .at = ptr };
	enum verdict                      verdict = UNKNOWN;
	int                               rc;

	pthread_mutex_lock(&trial_lock);
	rc = barrier_try(ordinal, &barrier, cuda_context_id(), &verdict);
	pthread_mutex_unlock(&trial_lock);
	if (!rc && verdict != BARRIERS_WAIT)
		rc = error_set(-EIO, "a close on device %d did not wait for the work there: its memory is kept until this process "
			       "ends", ordinal);
	return rc;
}

static int ipc_close(int ordinal, void *ptr)
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

/* To unmap memory that a kernel uses would end that kernel. */
int cuda_close(int ordinal, void *ptr)
{
	int rc;

	if (!cuda_vmm_has(ptr))
		return ipc_close(ordinal, ptr);
	rc = cuda_sync(ordinal, NULL, 0);
	return rc ? rc : cuda_vmm_unmap(ordinal, ptr);
}

static int sync_unsupported(int ordinal, const struct device_handle *handle)
{
	return error_set(-ENOTSUP, "this driver's %s does not wait for the work on device %d: return leases in stream order "
			 "(gpub_return_on), or their memory is kept until %s", handle ? "cuIpcCloseMemHandle" : "cuMemHostUnregister", ordinal,
			 handle ? "all of it is closed" : "this process ends");
}

int cuda_sync(int ordinal, const struct device_handle *handle, uint64_t size)
{
	struct barrier barrier = { .handle = handle, .size = size };
	enum verdict   verdict;
	int            rc = cuda_check_ordinal(ordinal);
	CUDA_SCOPE(scope);

	if (!rc)
		rc = verdict_get(ordinal, &barrier, &verdict);
	if (!rc && verdict == BARRIERS_RETURN)
		rc = sync_unsupported(ordinal, handle);
	if (!rc)
		rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = barrier_begin(&barrier, ordinal);
	return rc ? rc : cuda_error(barrier_end(&barrier), "closing a buffer on device %d", ordinal);
}
