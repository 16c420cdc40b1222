/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.c - the fake driver's streams and events.
 *
 * Owns each stream and event that was made here, on the heap. Work is done when it is queued, so every stream is idle and every
 * event complete; nothing is captured. A wait for a value that is not there yet cannot be queued, and aborts the program.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "inner.h"

struct CUstream_st {
	CUcontext          context;
	unsigned long long id;
};

struct CUevent_st {
	CUcontext context;
};

/* NULL, and the two handles that cuda.h gives a special meaning. */
static bool is_special(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

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

static CUresult fake_StreamDestroy(CUstream stream)
{
	FAKE_CALL();
	free(stream);
	return CUDA_SUCCESS;
}

static CUresult fake_StreamSynchronize(CUstream stream)
{
	FAKE_CALL();
	(void)stream;
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

static CUresult fake_StreamWriteValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags)
{
	FAKE_CALL();
	(void)stream;
	(void)flags;
	atomic_store((_Atomic uint64_t *)(uintptr_t)word, value);
	return CUDA_SUCCESS;
}

/* Signed and cyclic, as facts.md has it. */
static CUresult fake_StreamWaitValue64(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags)
{
	FAKE_CALL();
	(void)stream;
	(void)flags;
	if ((int64_t)(atomic_load((_Atomic uint64_t *)(uintptr_t)word) - value) >= 0)
		return CUDA_SUCCESS;
	fprintf(stderr, "fake driver: a stream would wait for %llu, and streams run at once here\n",
		(unsigned long long)value);
	abort();
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
	*event = made;
	return CUDA_SUCCESS;
}

static CUresult fake_EventRecord(CUevent event, CUstream stream)
{
	FAKE_CALL();
	return is_special(stream) || stream->context == event->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
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
	free(event);
	return CUDA_SUCCESS;
}

const struct fake_function fake_streams[] = {
	FAKE_ROW(StreamCreate, 2000),
	FAKE_ROW(StreamDestroy, 4000),
	FAKE_ROW(StreamSynchronize, 2000),
	FAKE_ROW(StreamIsCapturing, 10000),
	FAKE_ROW(StreamGetCtx, 9020),
	FAKE_ROW(StreamGetId, 12000),
	FAKE_ROW(StreamWriteValue64, 11070),
	FAKE_ROW(StreamWaitValue64, 11070),
	FAKE_ROW(EventCreate, 2000),
	FAKE_ROW(EventRecord, 2000),
	FAKE_ROW(EventQuery, 2000),
	FAKE_ROW(EventSynchronize, 2000),
	FAKE_ROW(EventDestroy, 4000),
	{ 0 },
};
