/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.c - the round of peer.py with CUDA alone, in C. usage: raw ipc | vmm
 *
 * ipc: cudaIpcGetMemHandle(), opened and closed each time. vmm: a cuMemCreate() allocation, exported once; its
 * descriptor is sent each time (SCM_RIGHTS), imported, mapped, made accessible, unmapped and released. Protocol as
 * peer.py's.
 */
#include <string.h>
#include <unistd.h>

#include "bench/gpu.h"

#define SIZE       ((size_t)64 << 20)
#define WARM       30

static CUfunction fill;

static void work_on(void *memory)
{
	gpu_fill(fill, memory, NULL);
	gpu_must(cudaDeviceSynchronize());
}

/* ---- CUDA IPC ---- */

static void *ipc_memory;

static void ipc_worker(int sock)
{
	cudaIpcMemHandle_t handle;
	void *memory;

	gpu_start();
	fill = gpu_kernel("fill");
	for (;;) {
		gpu_receive(sock, &handle, sizeof handle);
		gpu_must(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
		work_on(memory);
		gpu_must(cudaIpcCloseMemHandle(memory));
		gpu_send(sock, "", 1);
	}
}

static void ipc_make(void)
{
	gpu_must(cudaMalloc(&ipc_memory, SIZE));
}

static void ipc_round(int sock)
{
	cudaIpcMemHandle_t handle;
	char answer;

	gpu_must(cudaIpcGetMemHandle(&handle, ipc_memory));
	gpu_send(sock, &handle, sizeof handle);
	gpu_receive(sock, &answer, 1);
}

/* ---- descriptors ---- */

static int vmm_descriptor;

static void vmm_work(int fd)
{
	struct gpu_mapped mapped;

	gpu_vmm_map(fd, SIZE, &mapped);
	work_on((void *)(uintptr_t)mapped.address);
	gpu_vmm_unmap(&mapped);
}

static void vmm_worker(int sock)
{
	gpu_start();
	fill = gpu_kernel("fill");
	for (;;) {
		int fd = gpu_descriptor_receive(sock);

		vmm_work(fd);
		close(fd);
		gpu_send(sock, "", 1);
	}
}

static void vmm_make(void)
{
	vmm_descriptor = gpu_vmm_make(SIZE);
}

static void vmm_round(int sock)
{
	char answer;

	gpu_descriptor_send(sock, vmm_descriptor);
	gpu_receive(sock, &answer, 1);
}

/* ---- the program ---- */

static const struct way {
	const char *name;
	void (*worker)(int sock);
	void (*make)(void);
	void (*round)(int sock);
} ways[] = {
	{ "ipc", ipc_worker, ipc_make, ipc_round },
	{ "vmm", vmm_worker, vmm_make, vmm_round },
};

static void serve(const struct way *way)
{
	int sock = gpu_helper(way->worker);
	char line[64];

	gpu_start();
	way->make();
	for (int i = 0; i < WARM; i++)
		way->round(sock);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		for (int i = atoi(line); i > 0; i--) {
			uint64_t began = bench_now_ns();

			way->round(sock);
			printf("%.2f\n", (double)(bench_now_ns() - began) / 1e3);
		}
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (argc == 2 && !strcmp(argv[1], ways[i].name)) {
			serve(&ways[i]);
			_exit(0);
		}
	bench_fail("usage: raw ipc | vmm");
}
