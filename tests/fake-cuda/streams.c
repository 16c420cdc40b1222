/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.c - the fake driver's streams and events.
 *
 * Owns each stream and event, on the heap. Work runs when it is queued, so a stream is idle and every event complete;
 * nothing is captured. A wait for a value that is not there yet blocks its stream: synchronising and closes then wait
 * for the value, and whoever queues something behind it aborts the program.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <utlist.h>

#include "inner.h"

#define PARKED_MAX 64

struct CUstream_st {
	CUcontext          context;
	unsigned long long id;
};

struct CUevent_st {
	CUcontext          context;
	struct CUevent_st *prev, *next;
};

/* NULL, and the two handles that cuda.h gives a special meaning. */
static bool is_special(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

/* ---- parked streams ---- */

static struct parked {
	CUstream          stream;
	_Atomic uint64_t *word; /* NULL: this place is free */
	uint64_t          value;
} parked[PARKED_MAX];

static struct CUevent_st *events; /* nobody destroys those of a context that was reset: they are no leak */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Signed and cyclic (facts.md). */
static bool is_reached(_Atomic uint64_t *word, uint64_t value)
{
	return (int64_t)(atomic_load(word) - value) >= 0;
}

/* Whether that stream, or with any a stream, waits for a value that is not there. */
static bool is_parked(CUstream stream, bool any)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < PARKED_MAX; i++) {
		if (parked[i].word && is_reached(parked[i].word, parked[i].value))
			parked[i].word = NULL;
		found = found || (parked[i].word && (any || parked[i].stream == stream));
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void park(CUstream stream, _Atomic uint64_t *word, uint64_t value)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < PARKED_MAX && parked[i].word)
		i++;
	if (i < PARKED_MAX)
		parked[i] = (struct parked){ .stream = stream, .word = word, .value = value };
	pthread_mutex_unlock(&lock);
	if (i < PARKED_MAX)
		return;
	fprintf(stderr, "fake driver: more than %d streams wait\n", PARKED_MAX);
	abort();
}

void fake_streams_wait(void)
{
	while (is_parked(NULL, true))
		usleep(50);
}

void fake_stream_use(CUstream stream)
{
	if (!is_parked(stream, false))
		return;
	fprintf(stderr, "fake driver: something is queued behind a wait, and nothing can be here\n");
	abort();
}

/* ---- streams and events ---- */

static CUresult fake_StreamCreate(CUstream *stream, unsigned int flags)
{
	static atomic_ullong next_id = 16;
	struct CUstream_st  *made;

	FAKE_CALL();
	(void)flags;
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	made = malloc(sizeof *made);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->context = fake_current();
	made->id = next_id++;
	*stream = made;
	return CUDA_SUCCESS;
}

static CUresult fake_StreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	(void)priority;
	return fake_StreamCreate(stream, flags);
}

static CUresult fake_StreamDestroy(CUstream stream)
{
	FAKE_CALL();
	free(stream);
	return CUDA_SUCCESS;
}

static CUresult fake_StreamSynchronize(CUstream stream)
{
	FAKE_CALL();
	while (is_parked(stream, false))
		usleep(50);
	return CUDA_SUCCESS;
}

static CUresult fake_StreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	FAKE_CALL();
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult fake_StreamGetCtx(CUstream stream, CUcontext *context)
{
	FAKE_CALL();
	if (is_special(stream) && !fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = is_special(stream) ? fake_current() : stream->context;
	return CUDA_SUCCESS;
}

static CUresult fake_StreamGetId(CUstream stream, unsigned long long *id)
{
	FAKE_CALL();
	*id = is_special(stream) ? (unsigned long long)(uintptr_t)stream : stream->id;
	return CUDA_SUCCESS;
}

static CUresult stream_write(CUstream stream, CUdeviceptr word, cuuint64_t value)
{
	fake_stream_use(stream);
	atomic_store((_Atomic uint64_t *)(uintptr_t)word, value);
	return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream stream, CUdeviceptr address, cuuint64_t value)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)(uintptr_t)address;

	if (!is_reached(word, value))
		park(stream, word, value);
	return CUDA_SUCCESS;
}

static CUresult fake_StreamWriteValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags)
{
	FAKE_CALL();
	(void)flags;
	return stream_write(stream, word, value);
}

static CUresult fake_StreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	FAKE_CALL();
	(void)flags;
	return stream_wait(stream, address, value);
}

/*
 * Each in turn. A wait that is not reached parks the stream, and what comes behind it aborts, unless it is a wait as
 * well.
 */
static CUresult fake_StreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
				      unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	FAKE_CALL();
	if (count > 255 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
		const CUstreamBatchMemOpParams *one = &operations[i];

		if (one->waitValue.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
			result = stream_wait(stream, one->waitValue.address, one->waitValue.value64);
		else if (one->writeValue.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
			result = stream_write(stream, one->writeValue.address, one->writeValue.value64);
		else
			result = CUDA_ERROR_NOT_SUPPORTED;
	}
	return result;
}

static CUresult fake_EventCreate(CUevent *event, unsigned int flags)
{
	struct CUevent_st *made;

	FAKE_CALL();
	(void)flags;
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	made = malloc(sizeof *made);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->context = fake_current();
	pthread_mutex_lock(&lock);
	DL_APPEND(events, made);
	pthread_mutex_unlock(&lock);
	*event = made;
	return CUDA_SUCCESS;
}

static CUresult fake_EventRecord(CUevent event, CUstream stream)
{
	FAKE_CALL();
	fake_stream_use(stream);
	return is_special(stream) || stream->context == event->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult fake_StreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	FAKE_CALL();
	(void)flags;
	(void)event;
	fake_stream_use(stream);
	return CUDA_SUCCESS;
}

static CUresult fake_EventQuery(CUevent event)
{
	FAKE_CALL();
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult fake_EventSynchronize(CUevent event)
{
	FAKE_CALL();
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult fake_EventDestroy(CUevent event)
{
	FAKE_CALL();
	pthread_mutex_lock(&lock);
	DL_DELETE(events, event);
	pthread_mutex_unlock(&lock);
	free(event);
	return CUDA_SUCCESS;
}

const struct fake_function fake_streams[] = {
	FAKE_ROW(StreamCreate, 2000),
	FAKE_ROW(StreamCreateWithPriority, 5050),
	FAKE_ROW(StreamDestroy, 4000),
	FAKE_ROW(StreamSynchronize, 2000),
	FAKE_ROW(StreamIsCapturing, 10000),
	FAKE_ROW(StreamGetCtx, 9020),
	FAKE_ROW(StreamGetId, 12000),
	FAKE_ROW(StreamWriteValue64, 11070),
	FAKE_ROW(StreamWaitValue64, 11070),
	FAKE_ROW(StreamBatchMemOp, 11070),
	FAKE_ROW(StreamWaitEvent, 3020),
	FAKE_ROW(EventCreate, 2000),
	FAKE_ROW(EventRecord, 2000),
	FAKE_ROW(EventQuery, 2000),
	FAKE_ROW(EventSynchronize, 2000),
	FAKE_ROW(EventDestroy, 4000),
	{ 0 },
};
