/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - what the programs about CUDA devices share: parts, helper processes, the driver's functions, checked calls.
 *
 * A program is one part or several. Each runs in a process of its own, since CUDA survives no fork: what fails or hangs
 * says why and leaves the other parts alone, and the program fails when all have run. Inside a part: first whatever
 * forks (the broker, helpers), then gpub_connect() and gpu_start(). Owns no buffer and no sample.
 */
#ifndef GPUB_BENCH_GPU_H
#define GPUB_BENCH_GPU_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#include "bench.h"
#include "gpubroker.h"

/* The kind of device that brokers are started with; another one tries a program's logic without CUDA. */
#ifndef GPU_KIND
#define GPU_KIND "cuda"
#endif

#define GPU_SECONDS 60 /* of a part, at most, where it does not say more */
#define GPU_GRANULE ((size_t)2 << 20)

/* ---- parts ---- */

/* Runs one, and remembers whether it failed. */
void gpu_part(const char *name, void (*part)(void), unsigned seconds);

/* The program's exit status. */
int gpu_finish(void);

/* How many CUDA devices there are, asked in a process of its own; none ends the program. */
int gpu_count(void);

/* ---- helpers of a part ---- */

/*
 * Forks one, which serves its end of a SOCK_SEQPACKET pair; returns the other end. It ends when that is closed, which
 * must be before the broker is stopped: it has that broker's pipe too.
 */
int gpu_helper(void (*serve)(int sock));

/* Messages of that size. Where the other end is gone, a helper has done its work; anybody else fails. */
void gpu_send(int sock, const void *message, size_t size);
void gpu_receive(int sock, void *message, size_t size);

/* ---- CUDA ---- */

#define GPU_FUNCTIONS(X)                   \
	X(GetErrorName, 6000)              \
	X(StreamWriteValue64, 11070)       \
	X(StreamWaitValue64, 11070)        \
	X(LaunchKernel, 4000)              \
	X(LibraryLoadFromFile, 12000)      \
	X(LibraryGetKernel, 12000)         \
	X(MemCreate, 10020)                \
	X(MemRelease, 10020)               \
	X(MemExportToShareableHandle, 10020) \
	X(MemImportFromShareableHandle, 10020) \
	X(MemAddressReserve, 10020)        \
	X(MemAddressFree, 10020)           \
	X(MemMap, 10020)                   \
	X(MemUnmap, 10020)                 \
	X(MemSetAccess, 10020)

struct gpu_driver {
#define GPU_FIELD(name, version) PFN_cu##name##_v##version name;
	GPU_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
};

/* Filled by gpu_start(). */
extern struct gpu_driver gpu;

/* Starts CUDA on a device, by its ordinal, or on device 0. It is current from then on. */
void gpu_start_on(int device);
void gpu_start(void);

/* A kernel of the module "kernels" as the driver knows it. */
CUfunction gpu_kernel(const char *symbol);

/* The kernel of rounds, "fill" of so many words: so small that the round around it is what takes the time. */
#define GPU_FILL_WORDS 1024u
void gpu_fill(CUfunction fill, void *words, cudaStream_t stream);

/* The same kernel as a client launches it. */
gpub_kernel gpu_leased_kernel(gpub_client *client, const char *symbol);

/* ---- memory that is exported by a descriptor, bare ---- */

struct gpu_mapped {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr                  address;
	size_t                       size;
};

/* Makes memory on device 0; the descriptor that it is exported by. */
int gpu_vmm_make(size_t size);

/* A helper that makes such memory, and sends its descriptor for each byte that it receives. */
_Noreturn void gpu_vmm_serve(int sock, size_t size);

/* Imports it, and maps it with access for device 0; and the other way round. The descriptor stays the caller's. */
void gpu_vmm_map(int descriptor, size_t size, struct gpu_mapped *mapped);
void gpu_vmm_unmap(const struct gpu_mapped *mapped);

/* With a message of one byte. */
void gpu_descriptor_send(int sock, int descriptor);
int  gpu_descriptor_receive(int sock);

/* A word of host memory that cuStreamWriteValue64() may write. */
CUdeviceptr gpu_registered_word(void);

/* What cannot go on. */
void gpu_check(const char *call, cudaError_t result);
void gpu_check_driver(const char *call, CUresult result);
#define gpu_must(call)   gpu_check(#call, call)
#define gpu_driver(call) gpu_check_driver(#call, call)

#endif
