/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.c - the round of peer.py with CUDA alone, in C. usage: raw ipc | vmm
 *
 * ipc: cudaIpcGetMemHandle(), opened and closed each time. vmm: a cuMemCreate() allocation, exported once; its
 * descriptor is sent each time (SCM_RIGHTS), imported, mapped, made accessible, unmapped and released. Protocol as
 * peer.py's.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/gpu.h"

#define SIZE       ((size_t)64 << 20)
#define WARM       30
#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

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

union control {
	struct cmsghdr header;
	char           space[CMSG_SPACE(sizeof(int))];
};

static void descriptor_send(int sock, int fd)
{
	union control control = { .space = { 0 } };
	struct iovec byte = { .iov_base = &(char){ 1 }, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
	};

	control.header.cmsg_len = CMSG_LEN(sizeof fd);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	if (sendmsg(sock, &message, MSG_NOSIGNAL) != 1)
		bench_fail("raw: the worker is gone");
}

static int descriptor_receive(int sock)
{
	union control control;
	char byte;
	struct iovec io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
	};
	int fd;

	if (recvmsg(sock, &message, MSG_CMSG_CLOEXEC) != 1)
		bench_fail("raw: the owner is gone");
	if (!CMSG_FIRSTHDR(&message))
		bench_fail("raw: no descriptor came");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

static void vmm_work(int fd)
{
	static const CUmemAccessDesc both = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
					      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	gpu_driver(gpu.MemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
	gpu_driver(gpu.MemAddressReserve(&address, SIZE, 0, 0, 0));
	gpu_driver(gpu.MemMap(address, SIZE, 0, handle, 0));
	gpu_driver(gpu.MemSetAccess(address, SIZE, &both, 1));
	work_on((void *)(uintptr_t)address);
	gpu_driver(gpu.MemUnmap(address, SIZE));
	gpu_driver(gpu.MemRelease(handle));
	gpu_driver(gpu.MemAddressFree(address, SIZE));
}

static void vmm_worker(int sock)
{
	gpu_start();
	fill = gpu_kernel("fill");
	for (;;) {
		int fd = descriptor_receive(sock);

		vmm_work(fd);
		close(fd);
		gpu_send(sock, "", 1);
	}
}

static void vmm_make(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemGenericAllocationHandle handle;

	prop.requestedHandleTypes = DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	gpu_driver(gpu.MemCreate(&handle, SIZE, &prop, 0));
	gpu_driver(gpu.MemExportToShareableHandle(&vmm_descriptor, handle, DESCRIPTOR, 0));
}

static void vmm_round(int sock)
{
	char answer;

	descriptor_send(sock, vmm_descriptor);
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
