/* SPDX-License-Identifier: Apache-2.0 */
/* facts-ipc.c - the facts of legacy IPC: opens, closes and frees, between an exporter and an importer. */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "facts.h"

/* ---- group: legacy IPC, between an exporter and this importer ---- */

static void ipc_open_in_exporter(int fd, const struct answer *memory)
{
	struct answer answer = ask(fd, (struct request){ .operation = OP_OPEN, .handle = memory->handle });

	point(answer.result != cudaSuccess, "a handle is refused in the process that exported it", "%s",
	      cudaGetErrorName(answer.result));
}

static void ipc_open_flags(const struct answer *memory)
{
	void       *ptr;
	cudaError_t result = cudaIpcOpenMemHandle(&ptr, memory->handle, 0);

	point(result == cudaErrorInvalidValue, "open with flags 0 is refused", "%s", cudaGetErrorName(result));
	(void)cudaGetLastError();
}

static void ipc_reexport(void *ptr)
{
	cudaIpcMemHandle_t handle;
	cudaError_t        result = cudaIpcGetMemHandle(&handle, ptr);

	point(result != cudaSuccess, "an imported pointer is not exported again", "%s", cudaGetErrorName(result));
	(void)cudaGetLastError();
}

static void ipc_importer_free(int fd, const struct answer *memory, void *ptr)
{
	cudaError_t result = cudaFree(ptr);
	uint32_t    here, there;

	(void)cudaGetLastError();
	here = memory_read(ptr);
	there = ask_read(fd, memory->ptr);
	point(result == cudaErrorInvalidValue && here == 0x11111111 && there == 0x11111111,
	      "an importer's cudaFree is refused and harms nobody", "%s; reads %x, owner %x", cudaGetErrorName(result),
	      here, there);
}

/* Leaves the mapping closed. */
static void ipc_counted_closes(const struct answer *memory, void *ptr)
{
	void       *again = NULL;
	cudaError_t open = handle_open(&again, memory);
	cudaError_t first = cudaIpcCloseMemHandle(ptr);
	uint32_t    value = memory_read(ptr);
	cudaError_t second = cudaIpcCloseMemHandle(ptr);
	cudaError_t third = cudaIpcCloseMemHandle(ptr);

	(void)cudaGetLastError();
	point(!open && again == ptr && !first && value == 0x11111111 && !second && third,
	      "a handle opened twice is one pointer, and closes are counted", "%s pointer; closes %s, %s, %s",
	      again == ptr ? "same" : "other", cudaGetErrorName(first), cudaGetErrorName(second),
	      cudaGetErrorName(third));
}

static void ipc_owner_free(int fd, const struct answer *memory)
{
	cudaError_t off = ask_free(fd, (char *)memory->ptr + 1);
	uint32_t    value = ask_read(fd, memory->ptr);
	cudaError_t first = ask_free(fd, memory->ptr);
	cudaError_t second = ask_free(fd, memory->ptr);

	point(off && value == 0x11111111 && !first && second, "cudaFree of base + 1, or twice, is refused",
	      "base + 1: %s, base: %s, again: %s", cudaGetErrorName(off), cudaGetErrorName(first),
	      cudaGetErrorName(second));
}

static void ipc_granule(int fd)
{
	struct answer one = ask_allocate(fd, GRANULE, 0x22), two = ask_allocate(fd, GRANULE, 0x23);
	uintptr_t     low = (uintptr_t)one.ptr, high = (uintptr_t)two.ptr;

	point(low % GRANULE == 0 && high % GRANULE == 0 && low != high, "2 MiB are a whole granule", "at %p and %p",
	      one.ptr, two.ptr);
	ask_free(fd, one.ptr);
	ask_free(fd, two.ptr);
}

static void ipc_close_waits(int fd)
{
	struct answer memory = ask_allocate(fd, GRANULE, 0x24);
	cudaStream_t  stream = stream_make();
	void         *ptr;
	double        start, waited;
	cudaError_t   result;

	NEED(handle_open(&ptr, &memory));
	NEED(launch_spin(stream, 300 * MILLISECONDS));
	start = now();
	result = cudaIpcCloseMemHandle(ptr);
	waited = now() - start;
	point(!result && waited > 0.2 && cudaStreamQuery(stream) == cudaSuccess,
	      "the last close waits for a running kernel of its context", "%.3f s for a kernel of 0.3 s", waited);
}

/* What each side wrote, the other one reads: 4 bytes of value here, then of value + 1 there. */
static bool ipc_both_see(int fd, void *here, void *there, uint32_t value, uint32_t *seen)
{
	uint32_t next = value + 0x01010101;

	*seen = memory_read(here);
	if (*seen != value || cudaMemset(here, (int)(next & 0xff), 4) || cudaDeviceSynchronize())
		return false;
	*seen = ask_read(fd, there);
	return *seen == next;
}

/* The library calls the driver's names, and a program may know the runtime's: the 64 bytes are the same. */
static void ipc_runtime_opens_ours(int fd)
{
	struct answer memory = ask_export(fd, GRANULE, 0x51);
	void         *ptr = NULL;
	uint32_t      seen = 0;
	cudaError_t   opened = handle_open(&ptr, &memory);
	bool          same = !opened && ipc_both_see(fd, ptr, memory.ptr, 0x51515151, &seen);
	cudaError_t   closed = opened ? opened : cudaIpcCloseMemHandle(ptr);

	(void)cudaGetLastError();
	point(same && !closed, "the runtime's cudaIpcOpenMemHandle opens what device_cuda exported",
	      "open %s, close %s, read %x", cudaGetErrorName(opened), cudaGetErrorName(closed), seen);
}

static void ipc_ours_opens_the_runtimes(int fd)
{
	struct answer        memory = ask_allocate(fd, GRANULE, 0x61);
	struct device_handle handle;
	void                *ptr = NULL;
	uint32_t             seen = 0;
	int                  opened, closed;
	bool                 same;

	memcpy(handle.bytes, &memory.handle, sizeof(handle.bytes));
	opened = device_cuda->open(0, &handle, GRANULE, &ptr);
	same = !opened && ipc_both_see(fd, ptr, memory.ptr, 0x61616161, &seen);
	closed = opened ? opened : device_cuda->close(0, ptr);
	point(same && !closed, "device_cuda opens what the runtime's cudaIpcGetMemHandle exported",
	      "open %d, close %d, read %x", opened, closed, seen);
}

static void ipc_capture(int fd)
{
	struct answer        memory = ask_allocate(fd, GRANULE, 0x25);
	struct capture       capture;
	struct device_handle handle;
	void                *ptr;
	int                  opened, closed = -1;
	bool                 valid;

	memcpy(handle.bytes, &memory.handle, sizeof(handle.bytes));
	capture_start(&capture, cudaStreamNonBlocking);
	opened = device_cuda->open(0, &handle, GRANULE, &ptr);
	if (!opened)
		closed = device_cuda->close(0, ptr);
	valid = capture_finish(&capture);
	point(!opened && !closed && valid, "open and close in relaxed mode leave another thread's global capture whole",
	      "open %d, close %d, capture %s", opened, closed, valid ? "valid" : "invalidated");
}

/* Last, because a driver in which this is no longer so ends the context with an illegal address: good news. */
static void ipc_neighbour(int fd)
{
	static const char title[] = "an importer of 4 KiB sees its neighbour in the granule: exports are rounded";
	struct answer one = ask_allocate(fd, PAGE, 0x33), two = ask_allocate(fd, PAGE, 0x44);
	ptrdiff_t     apart = (char *)two.ptr - (char *)one.ptr;
	uint32_t      value = 0;
	cudaError_t   result;
	char         *ptr;

	if ((uintptr_t)one.ptr / GRANULE != (uintptr_t)two.ptr / GRANULE) {
		point_skip(title, "two allocations were put into two granules");
		return;
	}
	NEED(handle_open((void **)&ptr, &one));
	result = kernel_reads(0, ptr + apart, &value);
	point(result || value == 0x44444444, title, "%td bytes apart, %s, read %x", apart, cudaGetErrorName(result),
	      value);
}

void ipc_group(void)
{
	pid_t         pid;
	int           fd = role_start(exporter, &pid);
	struct answer memory;
	void         *ptr;

	cuda_begin();
	memory = ask_allocate(fd, GRANULE, 0x11);
	ipc_open_in_exporter(fd, &memory);
	ipc_open_flags(&memory);
	NEED(handle_open(&ptr, &memory));
	ipc_reexport(ptr);
	ipc_importer_free(fd, &memory, ptr);
	ipc_counted_closes(&memory, ptr);
	ipc_owner_free(fd, &memory);
	ipc_granule(fd);
	ipc_close_waits(fd);
	ipc_runtime_opens_ours(fd);
	ipc_ours_opens_the_runtimes(fd);
	ipc_capture(fd);
	ipc_neighbour(fd);
}
