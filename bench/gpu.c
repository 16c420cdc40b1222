/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - see gpu.h */
#include "gpu.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/kernels.h"

struct gpu_driver gpu;

static const char *current_part = "gpu";
static int         failed_parts;
static bool        is_helper;

/* ---- processes ---- */

static pid_t fork_or_fail(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		bench_fail("%s: no process", current_part);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void too_late(int signal)
{
	static const char text[] = ": not done in its time\n";

	(void)signal;
	if (write(STDERR_FILENO, current_part, strlen(current_part)) < 0 ||
	    write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(4);
	_exit(3);
}

void gpu_part(const char *name, void (*part)(void), unsigned seconds)
{
	int status;
	pid_t pid;

	current_part = name;
	pid = fork_or_fail();
	if (!pid) {
		signal(SIGALRM, too_late);
		alarm(seconds);
		part();
		fflush(NULL);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) == pid && !status)
		return;
	fprintf(stderr, "%s: ended with wait status %#x\n", name, (unsigned)status);
	failed_parts++;
}

int gpu_finish(void)
{
	return failed_parts != 0;
}

int gpu_count(void)
{
	int count = 0, status;
	pid_t pid = fork_or_fail();

	if (!pid) {
		alarm(GPU_SECONDS);
		_exit(cudaGetDeviceCount(&count) == cudaSuccess && count < 64 ? count : 0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || !WEXITSTATUS(status))
		bench_fail("no CUDA device answers");
	return WEXITSTATUS(status);
}

int gpu_helper(void (*serve)(int sock))
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		bench_fail("%s: no socket", current_part);
	if (!fork_or_fail()) {
		close(pair[0]);
		is_helper = true;
		serve(pair[1]);
		exit(0);
	}
	close(pair[1]);
	return pair[0];
}

void gpu_send(int sock, const void *message, size_t size)
{
	if (send(sock, message, size, MSG_NOSIGNAL) != (ssize_t)size)
		bench_fail("%s: the other process is gone", current_part);
}

void gpu_receive(int sock, void *message, size_t size)
{
	ssize_t got = recv(sock, message, size, 0);

	if (!got && is_helper)
		exit(0);
	if (got != (ssize_t)size)
		bench_fail("%s: the other process is gone", current_part);
}

/* ---- CUDA ---- */

void gpu_check(const char *call, cudaError_t result)
{
	if (result != cudaSuccess)
		bench_fail("%s: %s: %s", current_part, call, cudaGetErrorName(result));
}

void gpu_check_driver(const char *call, CUresult result)
{
	const char *name = NULL;

	if (result != CUDA_SUCCESS)
		bench_fail("%s: %s: %s", current_part, call,
			   gpu.GetErrorName && !gpu.GetErrorName(result, &name) && name ? name : "an unknown error");
}

static void *entry_point(const char *name, unsigned version)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	void *function = NULL;

#if CUDART_VERSION >= 12050
	gpu_must(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableLegacyStream, &found));
#else
	(void)version;
	gpu_must(cudaGetDriverEntryPoint(name, &function, cudaEnableLegacyStream, &found));
#endif
	if (found != cudaDriverEntryPointSuccess || !function)
		bench_fail("%s: the driver has no %s", current_part, name);
	return function;
}

void gpu_start_on(int device)
{
	gpu_must(cudaSetDevice(device));
	gpu_must(cudaFree(NULL));
#define GPU_ROW(name, version) *(void **)&gpu.name = entry_point("cu" #name, version);
	GPU_FUNCTIONS(GPU_ROW)
#undef GPU_ROW
}

void gpu_start(void)
{
	gpu_start_on(0);
}

static void module_path(char *path, size_t size, const char *suffix)
{
	const char *build = getenv("top_builddir");

	snprintf(path, size, "%s/kernels/kernels%s", build ? build : ".", suffix);
}

CUfunction gpu_kernel(const char *symbol)
{
	CUlibrary library;
	CUkernel kernel;
	char path[4096];

	module_path(path, sizeof path, ".fatbin");
	gpu_driver(gpu.LibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	gpu_driver(gpu.LibraryGetKernel(&kernel, library, symbol));
	return (CUfunction)kernel;
}

gpub_kernel gpu_leased_kernel(gpub_client *client, const char *symbol)
{
	gpub_module *module;
	gpub_kernel kernel;
	char path[4096];

	module_path(path, sizeof path, "");
	bench_must(gpub_module_open(&module, client, path));
	bench_must(gpub_module_kernel(module, symbol, &kernel));
	return kernel;
}

/* ---- memory that is exported by a descriptor, bare ---- */

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

int gpu_vmm_make(size_t size)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemGenericAllocationHandle handle;
	int descriptor;

	prop.requestedHandleTypes = DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	gpu_driver(gpu.MemCreate(&handle, size, &prop, 0));
	gpu_driver(gpu.MemExportToShareableHandle(&descriptor, handle, DESCRIPTOR, 0));
	gpu_driver(gpu.MemRelease(handle)); /* the descriptor keeps the memory */
	return descriptor;
}

void gpu_vmm_map(int descriptor, size_t size, struct gpu_mapped *mapped)
{
	static const CUmemAccessDesc both = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
					      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	mapped->size = size;
	gpu_driver(gpu.MemImportFromShareableHandle(&mapped->handle, (void *)(intptr_t)descriptor, DESCRIPTOR));
	gpu_driver(gpu.MemAddressReserve(&mapped->address, size, 0, 0, 0));
	gpu_driver(gpu.MemMap(mapped->address, size, 0, mapped->handle, 0));
	gpu_driver(gpu.MemSetAccess(mapped->address, size, &both, 1));
}

void gpu_vmm_unmap(const struct gpu_mapped *mapped)
{
	gpu_driver(gpu.MemUnmap(mapped->address, mapped->size));
	gpu_driver(gpu.MemRelease(mapped->handle));
	gpu_driver(gpu.MemAddressFree(mapped->address, mapped->size));
}

union control {
	struct cmsghdr header;
	char           space[CMSG_SPACE(sizeof(int))];
};

void gpu_descriptor_send(int sock, int descriptor)
{
	union control control = { .space = { 0 } };
	struct iovec byte = { .iov_base = &(char){ 1 }, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
	};

	control.header.cmsg_len = CMSG_LEN(sizeof descriptor);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
	if (sendmsg(sock, &message, MSG_NOSIGNAL) != 1)
		bench_fail("%s: the other process is gone", current_part);
}

int gpu_descriptor_receive(int sock)
{
	union control control;
	char byte;
	struct iovec io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
	};
	int descriptor;

	if (recvmsg(sock, &message, MSG_CMSG_CLOEXEC) != 1)
		bench_fail("%s: the other process is gone", current_part);
	if (!CMSG_FIRSTHDR(&message))
		bench_fail("%s: no descriptor came", current_part);
	memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
	return descriptor;
}

void gpu_vmm_serve(int sock, size_t size)
{
	char request;
	int  descriptor;

	gpu_start();
	gpu_receive(sock, &request, 1);
	descriptor = gpu_vmm_make(size);
	for (;;) {
		gpu_descriptor_send(sock, descriptor);
		gpu_receive(sock, &request, 1);
	}
}

CUdeviceptr gpu_registered_word(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *word;

	if (page == MAP_FAILED)
		bench_fail("%s: no page", current_part);
	gpu_must(cudaHostRegister(page, 4096, cudaHostRegisterMapped | cudaHostRegisterPortable));
	gpu_must(cudaHostGetDevicePointer(&word, page, 0));
	return (CUdeviceptr)(uintptr_t)word;
}

void gpu_fill(CUfunction fill, void *words, cudaStream_t stream)
{
	gpub_launch_config grid = linear_grid(GPU_FILL_WORDS, stream);
	uint32_t value = 1;
	uint64_t count = GPU_FILL_WORDS;
	void *arguments[] = { &words, &value, &count };

	gpu_driver(gpu.LaunchKernel(fill, grid.grid[0], 1, 1, grid.block[0], 1, 1, 0, stream, arguments, NULL));
}
