/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-loading-facts.c - holds by experiment what is taken for granted of the CUDA driver about loading, the legacy
 * stream during captures, and streams of other contexts (docs/facts.md), with raw calls of the driver and without the
 * library.
 *
 * If a driver changes one of them, this says which. Nothing hangs: see parked.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "parked.h"

static CUdevice  device;
static CUcontext primary;
static CUevent   event; /* of the primary context */

/* ---- the legacy stream while a blocking stream is captured ---- */

static CUresult ask_capturing(CUstream stream)
{
	CUstreamCaptureStatus status;

	return driver.StreamIsCapturing(stream, &status);
}

static CUresult ask_context(CUstream stream)
{
	CUcontext context;

	return driver.StreamGetCtx(stream, &context);
}

static CUresult ask_id(CUstream stream)
{
	unsigned long long id;

	return driver.StreamGetId(stream, &id);
}

static CUresult record(CUstream stream)
{
	return driver.EventRecord(event, stream);
}

/* Whether the capture survives that call. */
static bool survives(CUresult (*call)(CUstream stream), CUresult *result)
{
	CUstream blocking;
	bool     whole;

	NEED(driver.StreamCreate(&blocking, CU_STREAM_DEFAULT));
	capture_begin(blocking);
	*result = call(NULL);
	whole = capture_end(blocking);
	NEED(driver.StreamDestroy(blocking));
	return whole;
}

static void facts_legacy(void)
{
	CUresult capturing, context, id, recorded;
	bool     asked = survives(ask_capturing, &capturing), context_too = survives(ask_context, &context);
	bool     id_too = survives(ask_id, &id), event_too = survives(record, &recorded);

	point(asked && capturing == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	      "cuStreamIsCapturing on the legacy stream is refused while a blocking stream is captured, which survives "
	      "(%d; %s)",
	      capturing, asked ? "valid" : "invalidated");
	point(!context_too && !id_too && !event_too,
	      "cuStreamGetCtx, cuStreamGetId and cuEventRecord invalidate the capture (%d, %d, %d; %s, %s, %s)",
	      context, id, recorded, context_too ? "valid" : "invalidated", id_too ? "valid" : "invalidated",
	      event_too ? "valid" : "invalidated");
}

/* ---- loading beside a parked stream ---- */

static void facts_loading(const char *path)
{
	CUstream  parked, other;
	CUlibrary library;
	CUmodule  module;
	CUkernel  kernel;
	CUfunction function;
	uint64_t  one = 1;
	bool      file, first, launched;

	NEED(driver.StreamCreate(&parked, CU_STREAM_NON_BLOCKING));
	NEED(driver.StreamCreate(&other, CU_STREAM_NON_BLOCKING));
	park(parked, 3000);
	NEED(driver.LibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	NEED(driver.LibraryGetKernel(&kernel, library, "managed_increment"));
	file = release();
	park(parked, 300);
	NEED(driver.LibraryGetModule(&module, library));
	first = release();
	/* the module alone is not enough: the first launch of this kernel, which has a managed variable, waited */
	NEED(driver.KernelGetFunction(&function, kernel));
	NEED(driver.FuncLoad(function));
	park(parked, 3000);
	NEED(driver.LibraryGetModule(&module, library));
	NEED(driver.LaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, other, (void *[]){ &one }, NULL));
	NEED(driver.StreamSynchronize(other));
	launched = release();
	point(file, "to load a library's file and look up a kernel waits for no parked stream");
	point(!first, "the first use of its module in a context waits for what is parked there");
	point(launched, "with the kernel loaded too the first launch waits for nothing");
	NEED(driver.StreamDestroy(parked));
	NEED(driver.StreamDestroy(other));
}

/* ---- a stream of another context ---- */

static void facts_context(void)
{
	CUcontext own, popped, of_stream = NULL;
	CUstream  stream;
	CUresult  result;

	NEED(driver.CtxCreate(&own, 0, device));
	NEED(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(driver.CtxPopCurrent(&popped));
	NEED(driver.StreamGetCtx(stream, &of_stream));
	result = record(stream);
	point(result == CUDA_ERROR_INVALID_HANDLE && of_stream == own,
	      "an event cannot be recorded on a stream of another context, which cuStreamGetCtx tells before (%d)",
	      result);
	NEED(driver.CtxDestroy(own));
}

int main(int count, char **arguments)
{
	parked_begin(50);
	need_at(__LINE__, count != 2, "the path of kernels.fatbin as the argument");
	NEED(driver.DevicePrimaryCtxRetain(&primary, device));
	NEED(driver.CtxPushCurrent(primary));
	NEED(driver.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
	facts_legacy();
	facts_loading(arguments[1]);
	facts_context();
	return points_end();
}
