/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-stream.c - streams: writes and waits in stream order, copies, and streams that the library makes.
 *
 * Owns nothing, because all streams are the program's cudaStream_t, also those that cuda_stream_create() makes. Queues
 * only copies on a stream that is being captured, where they become part of the graph.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/error.h"
#include "common/thread.h"
#include "device/cuda.h"

typedef PFN_cuStreamWriteValue64_v11070 stream_function; /* also the type of cuStreamWaitValue64 */

/* An operation of a stream on words: the write or the wait in stream order. */
struct operation {
	const stream_function *function; /* queues the operation on one word */
	unsigned int           flags;    /* flags for `function` */
	const char            *what;     /* what the operation is, for error messages */
	/* fills in the parameters of one word for cuStreamBatchMemOp */
	void (*fill)(CUstreamBatchMemOpParams *params, const struct device_word *word);
};

/*
 * With the default flags a memory barrier precedes the write, so that earlier writes of the stream are visible first.
 */
static void fill_write(CUstreamBatchMemOpParams *params, const struct device_word *word)
{
	params->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	params->writeValue.address = cuda_address(word->word);
	params->writeValue.value64 = word->value;
	params->writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
	params->writeValue.alias = 0;
}

static void fill_wait(CUstreamBatchMemOpParams *params, const struct device_word *word)
{
	params->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	params->waitValue.address = cuda_address(word->word);
	params->waitValue.value64 = word->value;
	params->waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	params->waitValue.alias = 0;
}

static const struct operation write_operation = {
	&cuda.StreamWriteValue64, CU_STREAM_WRITE_VALUE_DEFAULT, "a write in stream order", fill_write
};
static const struct operation wait_operation = {
	&cuda.StreamWaitValue64, CU_STREAM_WAIT_VALUE_GEQ, "a wait in stream order", fill_wait
};

/*
 * Returns an error if the stream is being captured, because a captured write would run at every replay of the graph
 * instead of now. The hot path consists of this call and the operation, without a guard, because neither call is
 * "potentially unsafe" for captures: a write on one stream works while another stream is captured (facts.md), and
 * asking leaves a capture valid (NVIDIA's cuda.h).
 */
static inline CUresult ask(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult              result = cuda.StreamIsCapturing(stream, &status);

	if (result != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE)
		return result;
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED :
							   CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

static inline CUresult operate(const struct operation *operation, CUstream stream, CUdeviceptr word, uint64_t value)
{
	CUresult result = ask(stream);

	return result == CUDA_SUCCESS ? (*operation->function)(stream, word, value, operation->flags) : result;
}

/*
 * After a failure of the hot path with `result`, tries to remove the cause. If the thread has no context or another
 * one, enters the stream's context. If a device may have been reset, first retains the new contexts and registers the
 * pages again, because the reset of another device may have ended the registration of the word's page (docs/facts.md:
 * CUDA_ERROR_INVALID_VALUE). Returns 0 if the caller should repeat the operation, in the scope; else the error.
 */
static int remedy(struct cuda_scope *scope, CUresult result, const struct operation *operation, CUstream stream)
{
	bool reset = result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_VALUE;

	if (!reset && result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_INVALID_HANDLE)
		return cuda_error(result, "%s", operation->what);
	if (reset)
		cuda_notice_resets();
	return cuda_enter_stream(scope, stream);
}

static __attribute__((noinline)) int operate_again(CUresult result, const struct operation *operation, CUstream stream,
						   CUdeviceptr word, uint64_t value)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = remedy(&scope, result, operation, stream);
	return rc ? rc : cuda_error(operate(operation, stream, word, value), "%s", operation->what);
}

/* Holds pthread_cancel(3) off until it returns, because gpub_return_on() does not before it calls stream_write(). */
int cuda_stream_write(void *stream, uint64_t *word, uint64_t value)
{
	CUresult result;
	HOLD_CANCELLATION();

	result = operate(&write_operation, stream, cuda_address(word), value);
	if (__builtin_expect(result == CUDA_SUCCESS, 1))
		return 0;
	return operate_again(result, &write_operation, stream, cuda_address(word), value);
}

int cuda_stream_wait(void *stream, const uint64_t *word, uint64_t value)
{
	CUresult result = operate(&wait_operation, stream, cuda_address(word), value);

	if (__builtin_expect(result == CUDA_SUCCESS, 1))
		return 0;
	return operate_again(result, &wait_operation, stream, cuda_address(word), value);
}

/* ---- several words by one operation ---- */

static CUresult operate_many(CUstream stream, CUstreamBatchMemOpParams *operations, unsigned count)
{
	CUresult result = ask(stream);

	return result == CUDA_SUCCESS ? cuda.StreamBatchMemOp(stream, count, operations, 0) : result;
}

static int queue_many(const struct operation *operation, CUstream stream, const struct device_word *words,
		      unsigned count)
{
	CUstreamBatchMemOpParams operations[DEVICE_WORDS_MAX];
	CUresult                 result;
	int                      rc;
	CUDA_SCOPE(scope);

	for (unsigned i = 0; i < count; i++)
		operation->fill(&operations[i], &words[i]);
	result = operate_many(stream, operations, count);
	if (result == CUDA_SUCCESS)
		return 0;
	rc = remedy(&scope, result, operation, stream);
	return rc ? rc : cuda_error(operate_many(stream, operations, count), "%s", operation->what);
}

int cuda_stream_write_many(void *stream, const struct device_word *words, unsigned count)
{
	return queue_many(&write_operation, stream, words, count);
}

int cuda_stream_wait_many(void *stream, const struct device_word *words, unsigned count)
{
	return queue_many(&wait_operation, stream, words, count);
}

/* ---- streams of this process ---- */

int cuda_stream_captured(CUstream stream, bool *captured)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult              result = cuda.StreamIsCapturing(stream, &status);

	*captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
	return cuda_error(result, "using the stream");
}

/* The driver takes the nearest priority that the device has. */
int cuda_stream_create(int ordinal, int priority, void **stream)
{
	CUstream made;
	int      rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = cuda_error(cuda.StreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, priority),
				"making a stream on device %d", ordinal);
	if (!rc)
		*stream = made;
	return rc;
}

/*
 * Makes an event in the stream's context, and records it on the stream. Leaves the context before it returns, because
 * event_await() may need another one.
 */
static int event_mark(CUstream stream, CUevent *event)
{
	bool captured;
	int  rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter_stream(&scope, stream);
	if (!rc)
		rc = cuda_stream_captured(stream, &captured);
	if (!rc && captured)
		rc = cuda_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "waiting for the stream");
	if (!rc)
		rc = cuda_error(cuda.EventCreate(event, CU_EVENT_DISABLE_TIMING), "making an event");
	if (rc)
		return rc;
	rc = cuda_error(cuda.EventRecord(*event, stream), "marking the work on the stream");
	if (rc)
		(void)cuda.EventDestroy(*event);
	return rc;
}

/* Makes the stream wait for the event. Destroys the event inside the guard, where the capture mode is relaxed. */
static int event_await(CUstream stream, CUevent event)
{
	bool captured;
	int  rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter_stream(&scope, stream);
	if (!rc)
		rc = cuda_stream_captured(stream, &captured);
	if (!rc && captured)
		rc = cuda_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a wait of the stream");
	if (!rc)
		rc = cuda_error(cuda.StreamWaitEvent(stream, event, 0), "a wait for another stream");
	(void)cuda.EventDestroy(event);
	return rc;
}

/*
 * event_mark() and event_await() enter guards one after the other, not nested, so that a default stream means that of
 * the caller's current device. The event is destroyed at once, because the driver keeps what it needs until both
 * streams have passed it.
 */
int cuda_stream_after(void *stream, void *other)
{
	CUevent event;
	int     rc = event_mark(other, &event);

	return rc ? rc : event_await(stream, event);
}

/*
 * Enters the stream's context to wait for the stream. -EBUSY: the stream is being captured. A wait would invalidate
 * the capture, also in relaxed mode.
 */
static int sync_enter(struct cuda_scope *scope, CUstream stream)
{
	bool captured;
	int  rc = cuda_enter_stream(scope, stream);

	if (!rc)
		rc = cuda_stream_captured(stream, &captured);
	if (!rc && captured)
		rc = error_set(-EBUSY, "the stream is being captured into a graph: nothing runs on it to wait for");
	return rc;
}

int cuda_stream_sync(void *stream)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = sync_enter(&scope, stream);
	return rc ? rc : cuda_error(cuda.StreamSynchronize(stream), "work on the stream");
}

#define ASK_SPINS    1000 /* number of queries, about a millisecond, after which event_ask() sleeps between queries */
#define ASK_PAUSE_US 50   /* microseconds of sleep between two queries */

/*
 * Waits for the event, and calls over() from time to time. Returns 0 if the work is done, > 0 if the wait should go
 * on without over(), or a negative errno.
 */
static int event_ask(CUevent event, int (*over)(void *), void *context)
{
	CUresult result;
	int      verdict = 0;

	for (unsigned asked = 0; !verdict; asked++) {
		result = cuda.EventQuery(event);
		if (result != CUDA_ERROR_NOT_READY)
			return cuda_error(result, "work on the stream");
		if (asked < ASK_SPINS)
			sched_yield();
		else
			usleep(ASK_PAUSE_US);
		verdict = over(context);
	}
	return verdict;
}

/* Waits by an event, so for the work that is queued on the stream now, not for work that other threads queue later. */
int cuda_stream_sync_until(void *stream, int (*over)(void *), void *context)
{
	CUevent event;
	int     rc;
	CUDA_SCOPE(scope);

	rc = sync_enter(&scope, stream);
	if (!rc)
		rc = cuda_error(cuda.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
	if (rc)
		return rc;
	rc = cuda_error(cuda.EventRecord(event, stream), "marking the work on the stream");
	if (!rc)
		rc = event_ask(event, over, context);
	if (rc > 0)
		rc = cuda_error(cuda.EventSynchronize(event), "work on the stream");
	(void)cuda.EventDestroy(event);
	return rc;
}

void cuda_stream_destroy(void *stream)
{
	CUDA_SCOPE(scope);

	if (!cuda_stream_is_special(stream) && !cuda_enter_stream(&scope, stream))
		(void)cuda.StreamDestroy(stream);
}

/* The driver tells host and device memory apart by the addresses (unified addressing), as with cudaMemcpyDefault. */
int cuda_copy(void *stream, void *dst, const void *src, uint64_t size)
{
	bool captured;
	int  rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter_stream(&scope, stream);
	if (!rc)
		rc = cuda_stream_captured(stream, &captured); /* -EBUSY for the legacy stream during a capture */
	if (rc)
		return rc;
	return cuda_error(cuda.MemcpyAsync(cuda_address(dst), cuda_address(src), size, stream), "a copy on the stream");
}
