/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - see facts.h */
#include "facts.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cuda_runtime_api.h>

#include "common/error.h"

int report_fd = 1; /* where a group's points go: to the main process, which counts them */

/* ---- points ---- */

void point(bool ok, const char *title, const char *format, ...)
{
	char    detail[200], line[400];
	va_list arguments;
	int     length;

	va_start(arguments, format);
	vsnprintf(detail, sizeof(detail), format, arguments);
	va_end(arguments);
	length = snprintf(line, sizeof(line), "%s %s (%s)\n", ok ? "ok" : "not ok", title, detail);
	if (write(report_fd, line, (size_t)length) != length)
		_exit(1);
}

void point_skip(const char *title, const char *reason)
{
	dprintf(report_fd, "ok %s # SKIP %s\n", title, reason);
}

/* For what a point needs and does not test: the group ends, its other points are not ok. */
void need(bool ok, const char *what)
{
	if (ok)
		return;
	dprintf(report_fd, "# %s: %s; %s\n", what, cudaGetErrorName(cudaPeekAtLastError()), error_text());
	_exit(1);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void pause_ms(long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* ---- processes ---- */

void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

/* Forks a role, before CUDA. Returns this side's end of its socketpair. */
int role_start(role *run, pid_t *pid)
{
	int   pair[2];
	pid_t parent = getpid();

	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	*pid = fork();
	need(*pid >= 0, "fork");
	if (*pid == 0) {
		die_with_parent(parent);
		close(pair[0]);
		run(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	return pair[0];
}

/* ---- the exporter: a role that does what it is asked ---- */

static void exporter_allocate(const struct request *request, struct answer *answer)
{
	answer->result = cudaMalloc(&answer->ptr, request->size);
	if (!answer->result)
		answer->result = cudaMemset(answer->ptr, (int)request->value, request->size);
	if (!answer->result)
		answer->result = cudaDeviceSynchronize();
	if (!answer->result)
		answer->result = cudaIpcGetMemHandle(&answer->handle, answer->ptr);
}

_Static_assert(sizeof(cudaIpcMemHandle_t) == DEVICE_HANDLE_SIZE, "a handle of the device is one of the CUDA runtime");

/* As a broker does it: by the driver's functions. */
static void exporter_export(const struct request *request, struct answer *answer)
{
	const struct device_setup setup = { .owner = true };
	struct device_handle      handle;
	int                       descriptor;

	answer->result = cudaErrorUnknown;
	if (device_cuda->start(&setup) || device_cuda->allocate(0, request->size, EXPORT_IPC, &answer->ptr) ||
	    device_cuda->export_handle(0, answer->ptr, &handle, &descriptor))
		return;
	memcpy(&answer->handle, handle.bytes, sizeof(answer->handle));
	answer->result = cudaMemset(answer->ptr, (int)request->value, request->size);
	if (!answer->result)
		answer->result = cudaDeviceSynchronize();
}

static void exporter_do(const struct request *request, struct answer *answer)
{
	switch (request->operation) {
	case OP_ALLOCATE:
		exporter_allocate(request, answer);
		break;
	case OP_READ:
		answer->result = cudaMemcpy(&answer->value, request->ptr, 4, cudaMemcpyDeviceToHost);
		break;
	case OP_FREE:
		answer->result = cudaFree(request->ptr);
		break;
	case OP_OPEN:
		answer->result = cudaIpcOpenMemHandle(&answer->ptr, request->handle, cudaIpcMemLazyEnablePeerAccess);
		break;
	case OP_EXPORT:
		exporter_export(request, answer);
		break;
	}
}

void exporter(int fd)
{
	struct request request;

	while (recv(fd, &request, sizeof(request), 0) == sizeof(request)) {
		struct answer answer = { 0 };

		exporter_do(&request, &answer);
		if (send(fd, &answer, sizeof(answer), 0) != sizeof(answer))
			break;
	}
}

struct answer ask(int fd, struct request request)
{
	struct answer answer;

	need(send(fd, &request, sizeof(request), 0) == sizeof(request), "asking the exporter");
	need(recv(fd, &answer, sizeof(answer), 0) == sizeof(answer), "the exporter's answer");
	return answer;
}

/* Each byte has the value. */
struct answer ask_allocate(int fd, uint64_t size, uint32_t value)
{
	struct answer answer = ask(fd, (struct request){ .operation = OP_ALLOCATE, .size = size, .value = value });

	NEED(answer.result);
	return answer;
}

struct answer ask_export(int fd, uint64_t size, uint32_t value)
{
	struct answer answer = ask(fd, (struct request){ .operation = OP_EXPORT, .size = size, .value = value });

	NEED(answer.result);
	return answer;
}

cudaError_t ask_free(int fd, void *ptr)
{
	return ask(fd, (struct request){ .operation = OP_FREE, .ptr = ptr }).result;
}

uint32_t ask_read(int fd, void *ptr)
{
	return ask(fd, (struct request){ .operation = OP_READ, .ptr = ptr }).value;
}

/* ---- CUDA in the group's own process ---- */

void *module, *kernel_spin, *kernel_read, *kernel_beat;

void cuda_begin(void)
{
	struct device_setup setup = { .owner = false };
	const char         *path = getenv("GPUB_FACTS_FATBIN");

	NEED(device_cuda->start(&setup));
	NEED(cudaSetDevice(0));
	NEED(device_cuda->module_load(path ? path : FACTS_FATBIN, &module));
	NEED(device_cuda->module_kernel(module, "facts_spin", &kernel_spin));
	NEED(device_cuda->module_kernel(module, "facts_read", &kernel_read));
	NEED(device_cuda->module_kernel(module, "facts_beat", &kernel_beat));
}

int launch(void *kernel, int device, cudaStream_t stream, void **arguments)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;

	config.device = device;
	config.stream = stream;
	return device_cuda->module_launch(kernel, &config, arguments);
}

int launch_spin(cudaStream_t stream, uint64_t duration)
{
	uint64_t *word = NULL, value = 0;
	void     *arguments[] = { &duration, &word, &value };

	return launch(kernel_spin, 0, stream, arguments);
}

/* The kernel's code is loaded at its first launch; later timings do not contain it. */
cudaStream_t stream_make(void)
{
	cudaStream_t stream;

	NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	NEED(launch_spin(stream, 1));
	NEED(cudaStreamSynchronize(stream));
	return stream;
}

uint32_t memory_read(const void *ptr)
{
	uint32_t value = 0;

	if (cudaMemcpy(&value, ptr, sizeof(value), cudaMemcpyDeviceToHost) != cudaSuccess)
		(void)cudaGetLastError();
	return value;
}

cudaError_t handle_open(void **ptr, const struct answer *memory)
{
	return cudaIpcOpenMemHandle(ptr, memory->handle, cudaIpcMemLazyEnablePeerAccess);
}

/* Reads by a kernel: a copy would be checked against the bounds of the allocation. */
cudaError_t kernel_reads(int device, const void *from, uint32_t *value)
{
	uint32_t   *to;
	void       *arguments[] = { &from, &to };
	cudaError_t result;

	NEED(cudaMalloc((void **)&to, sizeof(*to)));
	NEED(launch(kernel_read, device, NULL, arguments));
	result = cudaDeviceSynchronize();
	if (result == cudaSuccess)
		*value = memory_read(to);
	return result;
}

/* A page as the library makes it. With readonly, a second mapping of it that cannot be written. */
uint64_t *page_make(uint64_t **readonly)
{
	int       fd = memfd_create("facts", MFD_CLOEXEC);
	uint64_t *page;

	need(fd >= 0, "memfd_create");
	NEED(ftruncate(fd, PAGE));
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(page != MAP_FAILED, "mmap");
	NEED(madvise(page, PAGE, MADV_DONTFORK));
	if (readonly) {
		*readonly = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
		need(*readonly != MAP_FAILED, "mmap");
		NEED(madvise(*readonly, PAGE, MADV_DONTFORK));
	}
	close(fd);
	return page;
}

uint64_t word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void word_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- a thread that captures, in global mode, while the others do something ---- */

bool capture_end(cudaStream_t stream)
{
	cudaGraph_t     graph = NULL;
	cudaGraphExec_t exec;

	if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || !graph) {
		(void)cudaGetLastError();
		return false;
	}
	return cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess && cudaGraphLaunch(exec, stream) == cudaSuccess &&
	       cudaStreamSynchronize(stream) == cudaSuccess;
}

static void *capture_run(void *pointer)
{
	struct capture *capture = pointer;
	cudaStream_t    stream;

	NEED(cudaSetDevice(0));
	NEED(cudaStreamCreateWithFlags(&stream, capture->stream_flags));
	NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	NEED(launch_spin(stream, 1));
	sem_post(&capture->begun);
	while (sem_wait(&capture->finish) && errno == EINTR)
		;
	capture->valid = capture_end(stream);
	return NULL;
}

void capture_start(struct capture *capture, unsigned int stream_flags)
{
	capture->stream_flags = stream_flags;
	capture->valid = false;
	sem_init(&capture->begun, 0, 0);
	sem_init(&capture->finish, 0, 0);
	NEED(pthread_create(&capture->thread, NULL, capture_run, capture));
	while (sem_wait(&capture->begun) && errno == EINTR)
		;
}

bool capture_finish(struct capture *capture)
{
	sem_post(&capture->finish);
	pthread_join(capture->thread, NULL);
	return capture->valid;
}
