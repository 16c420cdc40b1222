/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contexts.c - the fake driver's primary contexts, each thread's stack of them, and its capture mode.
 *
 * Owns one context a device. There are no others.
 */
#include "inner.h"

#define STACK_MAX 16

static struct CUctx_st primaries[FAKE_DEVICES];
static uint64_t        next_id = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* stack[depth] is current; the first place is that of a thread that pushed nothing. */
static _Thread_local CUcontext           stack[STACK_MAX];
static _Thread_local unsigned            depth;
static _Thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUcontext fake_current(void)
{
	return stack[depth];
}

static CUresult fake_DevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	FAKE_CALL();
	if (device < 0 || device >= fake_setup.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!primaries[device].retained++) {
		primaries[device].device = device;
		primaries[device].id = next_id++;
	}
	pthread_mutex_unlock(&lock);
	*context = &primaries[device];
	return CUDA_SUCCESS;
}

static CUresult fake_DevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	FAKE_CALL();
	if (device < 0 || device >= fake_setup.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = 0;
	*active = primaries[device].retained > 0;
	return CUDA_SUCCESS;
}

static CUresult fake_CtxGetId(CUcontext context, unsigned long long *id)
{
	FAKE_CALL();
	if (!context)
		context = fake_current();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = context->id;
	return CUDA_SUCCESS;
}

static CUresult fake_CtxGetCurrent(CUcontext *context)
{
	FAKE_CALL();
	*context = fake_current();
	return CUDA_SUCCESS;
}

static CUresult fake_CtxSetCurrent(CUcontext context)
{
	FAKE_CALL();
	stack[depth] = context;
	return CUDA_SUCCESS;
}

static CUresult fake_CtxPushCurrent(CUcontext context)
{
	FAKE_CALL();
	if (!context || depth + 1 == STACK_MAX)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[++depth] = context;
	return CUDA_SUCCESS;
}

static CUresult fake_CtxPopCurrent(CUcontext *context)
{
	FAKE_CALL();
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = stack[depth--];
	return CUDA_SUCCESS;
}

static CUresult fake_CtxGetDevice(CUdevice *device)
{
	FAKE_CALL();
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = fake_current()->device;
	return CUDA_SUCCESS;
}

static CUresult fake_ThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = capture_mode;

	FAKE_CALL();
	capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

const struct fake_function fake_contexts[] = {
	FAKE_ROW(DevicePrimaryCtxRetain, 7000),
	FAKE_ROW(DevicePrimaryCtxGetState, 7000),
	FAKE_ROW(CtxGetId, 12000),
	FAKE_ROW(CtxGetCurrent, 4000),
	FAKE_ROW(CtxSetCurrent, 4000),
	FAKE_ROW(CtxPushCurrent, 4000),
	FAKE_ROW(CtxPopCurrent, 4000),
	FAKE_ROW(CtxGetDevice, 2000),
	FAKE_ROW(ThreadExchangeStreamCaptureMode, 10010),
	{ 0 },
};
