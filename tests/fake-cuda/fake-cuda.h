/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-cuda.h - how a test controls the fake driver.
 *
 * The fake driver is a libcuda.so.1 for tests, never installed. A program that a test starts finds it by
 *     LD_LIBRARY_PATH=$top_builddir/tests/fake-cuda/.libs FAKE_CUDA="devices=2 cuInit=802"
 * and a unit test by being linked with tests/fake-cuda/libcuda.la, which dlopen("libcuda.so.1") then finds loaded.
 * It runs everything at once on the processor. Addresses are host addresses. A stream is idle unless it waits for a
 * value.
 *
 * Orders are words with spaces between them. An unknown order aborts the program.
 *     version=11080        the CUDA version that it supports (12000, the oldest that gpubroker accepts)
 *     devices=2            how many devices there are, 0 to 8 (1)
 *     memory=64            MiB of each device (1024)
 *     missing=cuStreamGetId  cuGetProcAddress_v2() does not find that function
 *     cuMemAlloc=2         that function returns CUresult 2, and does nothing
 *     cuMemAlloc=2*3       the next three times
 * With FAKE_CUDA_LOG=FILE in the environment it appends the name of each function that is called to FILE, one on a
 * line.
 */
#ifndef GPUB_FAKE_CUDA_H
#define GPUB_FAKE_CUDA_H

/* Replaces all orders. NULL: by those of FAKE_CUDA, as at the start. */
void fake_cuda_order(const char *orders);

/* How often the function (such as "cuInit") was called in this process, failures by order included. */
unsigned fake_cuda_calls(const char *function);

#endif
