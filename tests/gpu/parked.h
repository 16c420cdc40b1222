/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.h - for programs about CUDA streams that wait: a stream that is parked, and whether a call returns meanwhile.
 *
 * A stream is parked on a word of the program's own memory, which a thread writes after a while in any case. So a call
 * that waits for the stream is seen, by the word that was written before the call returned, and nothing hangs.
 * The driver's functions that the library has no use for are found in libcuda.so.1 itself.
 */
#ifndef GPUB_TESTS_PARKED_H
#define GPUB_TESTS_PARKED_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaTypedefs.h>

/* Beyond those of device/cuda.h; NULL stands for the legacy stream in all. */
struct driver {
	PFN_cuInit_v2000                 Init;
	PFN_cuDevicePrimaryCtxRetain_v7000 DevicePrimaryCtxRetain;
	PFN_cuCtxCreate_v3020            CtxCreate;
	PFN_cuCtxDestroy_v4000           CtxDestroy;
	PFN_cuCtxGetCurrent_v4000        CtxGetCurrent;
	PFN_cuCtxPushCurrent_v4000       CtxPushCurrent;
	PFN_cuCtxPopCurrent_v4000        CtxPopCurrent;
	PFN_cuMemHostRegister_v6050      MemHostRegister;
	PFN_cuStreamCreate_v2000         StreamCreate;
	PFN_cuStreamDestroy_v4000        StreamDestroy;
	PFN_cuStreamSynchronize_v2000    StreamSynchronize;
	PFN_cuStreamWaitValue64_v11070   StreamWaitValue64;
	PFN_cuStreamBeginCapture_v10010  StreamBeginCapture;
	PFN_cuStreamEndCapture_v10000    StreamEndCapture;
	PFN_cuStreamIsCapturing_v10000   StreamIsCapturing;
	PFN_cuStreamGetCtx_v9020         StreamGetCtx;
	PFN_cuStreamGetId_v12000         StreamGetId;
	PFN_cuGraphDestroy_v10000        GraphDestroy;
	PFN_cuEventCreate_v2000          EventCreate;
	PFN_cuEventRecord_v2000          EventRecord;
	PFN_cuLibraryLoadFromFile_v12000 LibraryLoadFromFile;
	PFN_cuLibraryGetKernel_v12000    LibraryGetKernel;
	PFN_cuLibraryGetModule_v12000    LibraryGetModule;
	PFN_cuKernelGetFunction_v12000   KernelGetFunction;
	PFN_cuFuncLoad_v12040            FuncLoad;
	PFN_cuLaunchKernel_v4000         LaunchKernel;
};

extern struct driver driver;

/*
 * Ends the program after that many seconds. Ends it as failed where no device starts: its script has asked whether
 * there is one.
 */
void parked_begin(unsigned seconds);

/* One point of TAP; the plan, and what main() returns. */
void point(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
int  points_end(void);

/* Ends the program where what it needs and does not test goes wrong. */
void need_at(int line, int result, const char *what);
#define NEED(call) need_at(__LINE__, (int)(call), #call)

/* Parks the stream, of the current context, until released() or for so many milliseconds from then on. */
void park(CUstream stream, unsigned milliseconds);

/* Ends the parking, if it has not ended already, and waits for the stream. False: it had ended before. */
bool release(void);

/* Begins and ends a capture of that stream in global mode. False: it was invalidated. */
void capture_begin(CUstream stream);
bool capture_end(CUstream stream);

#endif
