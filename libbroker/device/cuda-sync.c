/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-sync.c - closes memory, and waits for the work that a context has queued, without disturbing a graph capture.
 *
 * Synchronising a context would end any capture in it, even in relaxed mode (docs/facts.md). Two other calls, here
 * called barriers, wait for the work of the context and disturb no capture: the close of a handle that stays open by
 * another open, and the unregistration of a page of host memory. The second one is used for memory that is opened by a
 * descriptor, whose close does not wait.
 *
 * CUDA does not document that barriers wait, but memory is given to another buffer because they do. So this file
 * tests barriers on each device before it relies on them. A trial blocks a private stream by a wait and calls a
 * barrier. If the barrier returns before the stream is released, barriers do not wait on this device. Then
 * cuda_sync() returns -ENOTSUP from then on, and each close of a handle is tested by a trial, too. A trial
 * during which the program resets the device has no verdict.
 *
 * Owns the verdicts, and a page with the words on which private streams wait. Blocks only streams of its own, each for
 * about PARKED_US, and none in a program that returns all its leases in stream order. Reports a close as done only if
 * the driver did; after an error the caller keeps the mapping for ever (docs/lifetime.md, "Close").
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

/*
 * microseconds for which a trial blocks its stream, hundreds of times as long as a close without work (docs/facts.md)
 */
#define PARKED_US 2000
#define WAITS     3    /* number of trials in which the barrier must have waited for the verdict BARRIERS_WAIT */
#define TRIALS    12   /* number of trials at most, some of which may have no verdict */

enum verdict { UNKNOWN = 0, BARRIERS_WAIT, BARRIERS_RETURN };

static _Atomic(enum verdict) verdicts[EXPORT_KINDS][DEVICE_MAX];
static pthread_mutex_t       trial_lock = PTHREAD_MUTEX_INITIALIZER; /* protects `words`; held during a trial */
/* a word for each ordinal, on which the stream of a trial on the device waits */
static uint64_t             *words;

_Static_assert(DEVICE_MAX * sizeof(uint64_t) <= PAGE_BYTES, "a page has a word for each device");

/* ---- a barrier ---- */

/* A barrier: the close of a handle, or the end of a page's registration. */
struct barrier {
	/* the handle to open and close; NULL: a page is registered and unregistered */
	const struct device_handle *handle;
	uint64_t                    size;   /* bytes of the handle's memory */
	void                       *at;     /* address of the opened memory or of the registered page */
};

static int page_new(void **page)
{
	void *mapped = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		return error_set(-ENOMEM, "no memory for a page: %m");
	*page = mapped;
	return 0;
}

/*
 * Prepares a barrier: opens the handle, or maps and registers a page. Call it, and barrier_end(), in the device's
 * context.
 */
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

/*
 * The barrier itself, which waits for the device's work: closes the handle, or unregisters and unmaps the page. After
 * an error the page stays mapped, because the driver would take memory that is mapped at its address later for the
 * page.
 */
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
	uint64_t      *word, value; /* the stream waits until *word has reached `value` */
	CUstream       stream;
	unsigned long long context;  /* id of the device's context when the trial began */
	pthread_t      thread;       /* runs release_later(), which releases the stream */
	/* begun: the barrier is about to be called; released: the stream is about to be released */
	atomic_bool    begun, released;
	_Atomic int64_t released_ns; /* CLOCK_MONOTONIC in nanoseconds, just before the release */
	int64_t        begun_ns;     /* CLOCK_MONOTONIC in nanoseconds, just before the call of the barrier */
};

/* Thread of a trial: releases the stream PARKED_US after the call of the barrier. */
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

/* Returns an error if the device was reset since the trial began; else 0. */
static int reset_between(const struct trial *trial, int ordinal)
{
	return cuda_context_id() == trial->context ?
		       0 :
		       cuda_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "a trial on device %d", ordinal);
}

/* Destroys the trial's stream, unless the device was reset, which has freed the stream (docs/facts.md). */
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

/* Blocks a new stream by a wait. Starts the thread first, so that no stream waits without a thread that releases it. */
static int trial_begin(struct trial *trial, int ordinal)
{
	void *page = words;
	int   rc = page ? 0 : page_map(cuda_page_register, PAGE_BYTES, -1, true, &page);

	if (rc)
		return rc;
	words = page;
	trial->word = &words[ordinal];
	trial->value = *trial->word + 1;
	rc = cuda_error(cuda.StreamCreate(&trial->stream, CU_STREAM_NON_BLOCKING), "making a stream on device %d",
			ordinal);
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

/*
 * Returns the verdict of a trial. released: whether the stream was released before the barrier returned. UNKNOWN: the
 * stream was released too early to show whether the barrier waits, because this thread was delayed before the barrier.
 */
static enum verdict trial_verdict(struct trial *trial, bool released)
{
	if (!released)
		return BARRIERS_RETURN;
	return atomic_load(&trial->released_ns) - trial->begun_ns < PARKED_US * 500ll ? UNKNOWN : BARRIERS_WAIT;
}

/*
 * Makes one trial: calls barrier_end() while a stream waits, and stores the verdict. If no stream can be blocked, calls
 * barrier_end() nevertheless and returns the error. context: id of the device's context, which must be current. Call it
 * under trial_lock.
 */
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

/* Returns the address of the device's verdict for barriers by a handle or, if `handle` is NULL, by a page. */
static _Atomic(enum verdict) *verdict_of(int ordinal, const struct device_handle *handle)
{
	return &verdicts[handle ? EXPORT_IPC : EXPORT_VMM][ordinal];
}

static int try_once(int ordinal, struct barrier *barrier, unsigned long long context, enum verdict *verdict)
{
	int rc = barrier_begin(barrier, ordinal);

	return rc ? rc : barrier_try(ordinal, barrier, context, verdict);
}

/*
 * Makes trials and stores the device's verdict: BARRIERS_WAIT after WAITS trials in which the barrier waited,
 * BARRIERS_RETURN after one trial in which it did not, or if too few trials have a verdict. Call it under trial_lock.
 */
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
 * Makes the trials. Opens the handle first and closes it afterwards, so that no close in a trial is the handle's last
 * one, even if a reset has ended the caller's open. Call it under trial_lock.
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

/* Stores the device's verdict for this kind of barrier. Makes the trials first if there is no verdict yet. */
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

/*
 * Closes memory, as the barrier of a trial. -EIO: the close did not wait for the device's work, or the trial has no
 * verdict. Call it in the device's context. `any` only tells barrier_end() that the barrier is a close; no handle is
 * needed for that.
 */
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
		rc = error_set(-EIO,
			       "a close on device %d did not wait for the work there: its memory is kept until this "
			       "process ends",
			       ordinal);
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

/*
 * Waits for the device's work before it unmaps memory of cuda-vmm.c, because the unmap would end a kernel that uses it.
 */
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
	return error_set(-ENOTSUP,
			 "this driver's %s does not wait for the work on device %d: return leases in stream order "
			 "(gpub_return_on), or their memory is kept until %s",
			 handle ? "cuIpcCloseMemHandle" : "cuMemHostUnregister", ordinal,
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
