/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inner.h - what the parts of the fake driver share: the table of functions, the orders, contexts.
 *
 * To add a function: write it into the part where it belongs, static, named "fake_" and what follows "cu", with
 * FAKE_CALL() as its first statement, and add a FAKE_ROW to the table at that part's end. The version is that of
 * CUDA_FUNCTIONS in libbroker/device/cuda.h; the compiler compares the signatures. A function that gpubroker calls and
 * that has no row here returns CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef GPUB_FAKE_CUDA_INNER_H
#define GPUB_FAKE_CUDA_INNER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda.h"

#define FAKE_DEVICES 8

struct fake_function {
	const char *name; /* as "cuInit" */
	void       *function;
};

/* One part's functions, ended by an empty row. */
extern const struct fake_function fake_devices[], fake_contexts[], fake_memory[], fake_vmm[], fake_streams[],
	fake_libraries[];

#define FAKE_ROW(name, version)                                                                             \
	{                                                                                                   \
		"cu" #name, (void *)(1 ? fake_##name : (PFN_cu##name##_v##version)0)                        \
	}

/* The devices, by the orders. */
struct fake_setup {
	int      version, devices;
	uint64_t memory; /* bytes of each device */
};

extern struct fake_setup fake_setup;

/* Counts the call, and returns the ordered result. CUDA_SUCCESS: the function goes on. */
CUresult fake_call(const char *function);

/* Begins each function. The orders have "cu" where __func__ has "fake_". */
#define FAKE_CALL()                                                      \
	do {                                                             \
		CUresult fake_ordered = fake_call(__func__ + sizeof "fake"); \
		if (fake_ordered != CUDA_SUCCESS)                        \
			return fake_ordered;                             \
	} while (0)

/* The driver was started in this process; in a forked child it does not work any more. */
bool fake_started(void);

/* ---- contexts ---- */

struct CUctx_st {
	CUdevice device;
	uint64_t id;
	unsigned retained;
};

/* The calling thread's current context, or NULL. */
CUcontext fake_current(void);

/* ---- streams ---- */

/* Before something runs on the stream at once: the stream must not wait for a value. */
void fake_stream_use(CUstream stream);

/* Returns when no stream of this process waits for a value. */
void fake_streams_wait(void);

/* ---- memory ---- */

/* Bytes of that device that are allocated in this process. */
uint64_t fake_allocated(CUdevice device); /* of both kinds */
uint64_t fake_vmm_allocated(CUdevice device);

#endif
