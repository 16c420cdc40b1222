/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-driver-facts.c - holds by experiment what gpubroker takes for granted of the CUDA driver.
 *
 * Each point is a row of the facts that the design stands on (docs/facts.md), tried
 * with the raw CUDA calls; where the row decides what our device does, the device is tried as well. If a
 * driver changes one of them, this says which, before a user finds out.
 *
 * The main process never touches CUDA. Each group of points runs in a process of its own, which forks the
 * second role before its first CUDA call and talks to it over a socketpair. A group that hangs is killed with
 * all that it started; the whole program takes less than a minute.
 */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "common/error.h"
#include "device/cuda.h"

#ifndef FACTS_FATBIN
#define FACTS_FATBIN "tests/gpu/facts.fatbin" /* from the build tree's top, where make check runs */
#endif

#define GRANULE       ((size_t)2 << 20)
#define PAGE          4096
#define MILLISECONDS  1000000ull /* nanoseconds in one */
#define GROUP_SECONDS 20
#define TOTAL_SECONDS 55

static int report_fd = 1; /* where a group's points go: to the main process, which counts them */

/* ---- points ---- */

static void point(bool ok, const char *title, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void point(bool ok, const char *title, const char *format, ...)
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

static void point_skip(const char *title, const char *reason)
{
	dprintf(report_fd, "ok %s # SKIP %s\n", title, reason);
}

/* For what a point needs and does not test: the group ends, its other points are not ok. */
static void need(bool ok, const char *what)
{
	if (ok)
		return;
	dprintf(report_fd, "# %s: %s; %s\n", what, cudaGetErrorName(cudaPeekAtLastError()), error_text());
	_exit(1);
}

#define NEED(call) need((call) == 0, #call)

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void pause_ms(long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* ---- processes ---- */

typedef void role(int fd);

static void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

/* Forks a role, before CUDA. Returns this side's end of its socketpair. */
static int role_start(role *run, pid_t *pid)
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

enum operation { OP_ALLOCATE, OP_READ, OP_FREE, OP_OPEN };

struct request {
	enum operation     operation;
	uint32_t           value;
	uint64_t           size;
	void              *ptr;
	cudaIpcMemHandle_t handle;
};

struct answer {
	cudaError_t        result;
	uint32_t           value;
	void              *ptr;
	cudaIpcMemHandle_t handle;
};

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
	}
}

static void exporter(int fd)
{
	struct request request;

	while (recv(fd, &request, sizeof(request), 0) == sizeof(request)) {
		struct answer answer = { 0 };

		exporter_do(&request, &answer);
		if (send(fd, &answer, sizeof(answer), 0) != sizeof(answer))
			break;
	}
}

static struct answer ask(int fd, struct request request)
{
	struct answer answer;

	need(send(fd, &request, sizeof(request), 0) == sizeof(request), "asking the exporter");
	need(recv(fd, &answer, sizeof(answer), 0) == sizeof(answer), "the exporter's answer");
	return answer;
}

/* Each byte has the value. */
static struct answer ask_allocate(int fd, uint64_t size, uint32_t value)
{
	struct answer answer = ask(fd, (struct request){ .operation = OP_ALLOCATE, .size = size, .value = value });

	NEED(answer.result);
	return answer;
}

static cudaError_t ask_free(int fd, void *ptr)
{
	return ask(fd, (struct request){ .operation = OP_FREE, .ptr = ptr }).result;
}

static uint32_t ask_read(int fd, void *ptr)
{
	return ask(fd, (struct request){ .operation = OP_READ, .ptr = ptr }).value;
}

/* ---- CUDA in the group's own process ---- */

static void *module, *kernel_spin, *kernel_read, *kernel_beat;

static void cuda_begin(void)
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

static int launch(void *kernel, int device, cudaStream_t stream, void **arguments)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;

	config.device = device;
	config.stream = stream;
	return device_cuda->module_launch(kernel, &config, arguments);
}

static int launch_spin(cudaStream_t stream, uint64_t duration)
{
	uint64_t *word = NULL, value = 0;
	void     *arguments[] = { &duration, &word, &value };

	return launch(kernel_spin, 0, stream, arguments);
}

/* The kernel's code is loaded at its first launch; later timings do not contain it. */
static cudaStream_t stream_make(void)
{
	cudaStream_t stream;

	NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	NEED(launch_spin(stream, 1));
	NEED(cudaStreamSynchronize(stream));
	return stream;
}

static uint32_t memory_read(const void *ptr)
{
	uint32_t value = 0;

	if (cudaMemcpy(&value, ptr, sizeof(value), cudaMemcpyDeviceToHost) != cudaSuccess)
		(void)cudaGetLastError();
	return value;
}

static cudaError_t handle_open(void **ptr, const struct answer *memory)
{
	return cudaIpcOpenMemHandle(ptr, memory->handle, cudaIpcMemLazyEnablePeerAccess);
}

/* Reads by a kernel: a copy would be checked against the bounds of the allocation. */
static cudaError_t kernel_reads(int device, const void *from, uint32_t *value)
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
static uint64_t *page_make(uint64_t **readonly)
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

static uint64_t word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void word_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- a thread that captures, in global mode, while the others do something ---- */

struct capture {
	pthread_t    thread;
	sem_t        begun, finish;
	unsigned int stream_flags;
	bool         valid; /* ended with a graph that runs */
};

static bool capture_end(cudaStream_t stream)
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

static void capture_start(struct capture *capture, unsigned int stream_flags)
{
	capture->stream_flags = stream_flags;
	capture->valid = false;
	sem_init(&capture->begun, 0, 0);
	sem_init(&capture->finish, 0, 0);
	NEED(pthread_create(&capture->thread, NULL, capture_run, capture));
	while (sem_wait(&capture->begun) && errno == EINTR)
		;
}

static bool capture_finish(struct capture *capture)
{
	sem_post(&capture->finish);
	pthread_join(capture->thread, NULL);
	return capture->valid;
}

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
	      again == ptr ? "same" : "other", cudaGetErrorName(first), cudaGetErrorName(second), cudaGetErrorName(third));
}

static void ipc_owner_free(int fd, const struct answer *memory)
{
	cudaError_t off = ask_free(fd, (char *)memory->ptr + 1);
	uint32_t    value = ask_read(fd, memory->ptr);
	cudaError_t first = ask_free(fd, memory->ptr);
	cudaError_t second = ask_free(fd, memory->ptr);

	point(off && value == 0x11111111 && !first && second, "cudaFree of base + 1, or twice, is refused",
	      "base + 1: %s, base: %s, again: %s", cudaGetErrorName(off), cudaGetErrorName(first), cudaGetErrorName(second));
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
	point(result || value == 0x44444444, title, "%td bytes apart, %s, read %x", apart, cudaGetErrorName(result), value);
}

static void ipc_group(void)
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
	ipc_capture(fd);
	ipc_neighbour(fd);
}

/* ---- group: stream writes and waits, in one process ---- */

static void order_write(cudaStream_t stream, uint64_t *word)
{
	uint64_t early;
	double   start = now(), took;

	word_store(word, 0);
	NEED(launch_spin(stream, 200 * MILLISECONDS));
	NEED(device_cuda->stream_write(stream, word, 7));
	pause_ms(50);
	early = word_load(word);
	NEED(cudaStreamSynchronize(stream));
	took = now() - start;
	point(early == 0 && word_load(word) == 7 && took > 0.15, "a stream write is ordered behind the kernel before it",
	      "%llu after 50 ms, %llu after %.3f s", (unsigned long long)early, (unsigned long long)word_load(word), took);
}

/* Whether a wait for value passes while the word holds what it holds; leaves the stream free. */
static bool wait_passes(cudaStream_t stream, const uint64_t *wait_word, uint64_t *word, uint64_t value)
{
	bool passes;

	NEED(device_cuda->stream_wait(stream, wait_word, value));
	pause_ms(100);
	passes = cudaStreamQuery(stream) == cudaSuccess;
	word_store(word, value);
	NEED(cudaStreamSynchronize(stream));
	return passes;
}

static void order_signed(cudaStream_t stream, uint64_t *word)
{
	bool most, all_ones;

	word_store(word, INT64_MAX);
	most = wait_passes(stream, word, word, GPUB_TIMELINE_MAX);
	word_store(word, UINT64_MAX);
	all_ones = wait_passes(stream, word, word, 1);
	point(most && !all_ones, "a GEQ wait compares signed and cyclic: INT64_MAX releases every wait",
	      "INT64_MAX %s, UINT64_MAX %s", most ? "passes" : "hangs", all_ones ? "passes" : "hangs");
}

static void order_readonly(cudaStream_t stream)
{
	uint64_t *readonly, *word = page_make(&readonly);
	int       rc = device_cuda->page_register(readonly, PAGE, false);
	bool      early, late;

	NEED(rc);
	early = wait_passes(stream, readonly, word, 5);
	word_store(word, 6);
	late = wait_passes(stream, readonly, word, 6);
	point(!early && late, "a page mapped and registered read-only can be waited on", "before the value %s, after it %s",
	      early ? "passes" : "waits", late ? "passes" : "waits");
}

static cudaGraphExec_t graph_of_write(cudaStream_t stream, uint64_t *word, uint64_t value)
{
	cudaGraph_t     graph;
	cudaGraphExec_t exec;

	NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	NEED(cuda.StreamWriteValue64(stream, cuda_address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
	NEED(cudaStreamEndCapture(stream, &graph));
	NEED(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

static void order_captured(cudaStream_t stream, uint64_t *word)
{
	uint64_t        called, replayed[2];
	cudaGraphExec_t exec;

	word_store(word, 0);
	exec = graph_of_write(stream, word, 9);
	NEED(cudaStreamSynchronize(stream));
	called = word_load(word);
	for (int i = 0; i < 2; i++) {
		word_store(word, 0);
		NEED(cudaGraphLaunch(exec, stream));
		NEED(cudaStreamSynchronize(stream));
		replayed[i] = word_load(word);
	}
	point(called == 0 && replayed[0] == 9 && replayed[1] == 9, "a captured stream write runs at every replay, not at the call",
	      "call %d, replays %d, %d", (int)called, (int)replayed[0], (int)replayed[1]);
}

static void order_refused(cudaStream_t stream, uint64_t *word)
{
	struct capture capture;
	int            own, sync, legacy;
	bool           own_valid, legacy_valid;

	word_store(word, 0);
	NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	NEED(launch_spin(stream, 1));
	own = device_cuda->stream_write(stream, word, 1);
	sync = device_cuda->stream_sync(stream);
	own_valid = capture_end(stream);
	capture_start(&capture, cudaStreamDefault); /* blocking: the legacy stream depends on it */
	legacy = device_cuda->stream_write(NULL, word, 1);
	legacy_valid = capture_finish(&capture);
	point(own == -EBUSY && sync == -EBUSY && legacy == -EBUSY && own_valid && legacy_valid && word_load(word) == 0,
	      "our write on a capturing stream is refused and the capture goes on", "own %d, sync %d, legacy %d; %s, %s", own,
	      sync, legacy, own_valid ? "valid" : "invalidated", legacy_valid ? "valid" : "invalidated");
}

static int device_calls_memory(void)
{
	struct device_handle handle;
	uint64_t            *page = page_make(NULL);
	void                *ptr;
	int                  rc = device_cuda->allocate(0, GRANULE, &ptr);

	rc = rc ? rc : device_cuda->zero(0, ptr, GRANULE);
	rc = rc ? rc : device_cuda->export_handle(0, ptr, &handle);
	rc = rc ? rc : device_cuda->release(0, ptr);
	rc = rc ? rc : device_cuda->page_register(page, PAGE, true);
	return rc ? rc : device_cuda->page_unregister(page);
}

static int device_calls_module(void *stream)
{
	const char        *path = getenv("GPUB_FACTS_FATBIN");
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	uint64_t           duration = 20 * MILLISECONDS, *word = NULL, value = 0;
	void              *loaded, *kernel, *arguments[] = { &duration, &word, &value };
	int                rc = device_cuda->module_load(path ? path : FACTS_FATBIN, &loaded);

	config.device = 0;
	config.stream = stream;
	rc = rc ? rc : device_cuda->module_kernel(loaded, "facts_spin", &kernel);
	rc = rc ? rc : device_cuda->module_launch(kernel, &config, arguments);
	return rc ? rc : device_cuda->module_unload(loaded);
}

static int device_calls_stream(void)
{
	static uint32_t from, to;
	void           *stream;
	int             rc = device_cuda->stream_create(0, &stream);

	if (rc)
		return rc;
	rc = device_calls_module(stream);
	rc = rc ? rc : device_cuda->copy(stream, &to, &from, sizeof(to));
	rc = rc ? rc : device_cuda->stream_sync(stream);
	device_cuda->stream_destroy(stream);
	return rc;
}

static void order_device_calls(void)
{
	struct capture capture;
	int            memory, stream;
	bool           valid;

	capture_start(&capture, cudaStreamNonBlocking);
	memory = device_calls_memory();
	stream = device_calls_stream();
	valid = capture_finish(&capture);
	point(!memory && !stream && valid, "no call of our device disturbs another thread's global capture",
	      "memory %d, streams %d%s%s; capture %s", memory, stream, memory || stream ? " " : "",
	      memory || stream ? error_text() : "", valid ? "valid" : "invalidated");
}

struct bare {
	cudaStream_t stream;
	uint64_t    *word;
	int          rc, refused;
	bool         clean;
	cudaError_t  last;
};

/* A thread in which no CUDA context was ever current; its failed call must not show in the runtime's error. */
static void *bare_thread(void *pointer)
{
	struct bare *bare = pointer;
	CUcontext    before = NULL, after = NULL;
	void        *ptr;
	int          last = device_cuda->count() - 1;

	cuda.CtxGetCurrent(&before);
	bare->rc = device_cuda->stream_write(bare->stream, bare->word, 3);
	bare->rc = bare->rc ? bare->rc : device_cuda->stream_sync(bare->stream);
	bare->rc = bare->rc ? bare->rc : device_cuda->allocate(last, GRANULE, &ptr);
	bare->rc = bare->rc ? bare->rc : device_cuda->release(last, ptr);
	bare->refused = device_cuda->allocate(last, (uint64_t)1 << 42, &ptr); /* 4 TiB */
	cuda.CtxGetCurrent(&after);
	bare->clean = !before && !after;
	bare->last = cudaPeekAtLastError();
	return NULL;
}

static void order_context(cudaStream_t stream, uint64_t *word)
{
	struct bare bare = { .stream = stream, .word = word };
	pthread_t   thread;

	NEED(pthread_create(&thread, NULL, bare_thread, &bare));
	pthread_join(thread, NULL);
	point(!bare.rc && bare.clean && word_load(word) == 3 && bare.refused == -ENOMEM && bare.last == cudaSuccess,
	      "our calls leave a thread's context and last error as they were", "calls %d, too much memory %d, context %s, %s",
	      bare.rc, bare.refused, bare.clean ? "none" : "left behind", cudaGetErrorName(bare.last));
}

static void order_group(void)
{
	uint64_t    *word = page_make(NULL);
	cudaStream_t stream;

	cuda_begin();
	NEED(device_cuda->page_register(word, PAGE, true));
	stream = stream_make();
	order_write(stream, word);
	order_signed(stream, word);
	order_readonly(stream);
	order_captured(stream, word);
	order_refused(stream, word);
	order_device_calls();
	order_context(stream, word);
}

/* ---- group: death of a process with a kernel running ---- */

/* Opens what it is sent and keeps writing there, far longer than the test lasts. */
static void victim(int fd)
{
	cudaIpcMemHandle_t handle;
	uint64_t           duration = 15000 * MILLISECONDS;
	void              *ptr, *arguments[] = { &duration, &ptr };

	if (recv(fd, &handle, sizeof(handle), 0) != sizeof(handle))
		return;
	cuda_begin();
	NEED(cudaIpcOpenMemHandle(&ptr, handle, cudaIpcMemLazyEnablePeerAccess));
	NEED(launch(kernel_beat, 0, NULL, arguments));
	for (;;)
		pause();
}

static uint64_t beat_read(const uint64_t *beat)
{
	uint64_t value = 0;

	NEED(cudaMemcpy(&value, beat, sizeof(value), cudaMemcpyDeviceToHost));
	return value;
}

static bool beat_began(const uint64_t *beat)
{
	for (double end = now() + 8; now() < end; pause_ms(20)) {
		if (beat_read(beat))
			return true;
	}
	return false;
}

/* Both, as the broker waits for both; false after 5 s. */
static bool death_seen(int pidfd, int fd)
{
	struct pollfd wait[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = fd, .events = 0 } };

	for (double end = now() + 5; now() < end;) {
		if (poll(wait, 2, 100) <= 0)
			continue;
		if (wait[0].revents & POLLIN)
			wait[0].fd = -1;
		if (wait[1].revents & POLLHUP)
			wait[1].fd = -1;
		if (wait[0].fd < 0 && wait[1].fd < 0)
			return true;
	}
	return false;
}

static void death_group(void)
{
	cudaIpcMemHandle_t handle;
	pid_t              pid;
	int                fd = role_start(victim, &pid), pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	uint64_t          *beat, first, second;
	double             start;

	need(pidfd >= 0, "pidfd_open");
	cuda_begin();
	NEED(cudaMalloc((void **)&beat, GRANULE));
	NEED(cudaMemset(beat, 0, GRANULE));
	NEED(cudaDeviceSynchronize());
	NEED(cudaIpcGetMemHandle(&handle, beat));
	need(send(fd, &handle, sizeof(handle), 0) == sizeof(handle), "sending the handle");
	need(beat_began(beat), "the victim's kernel");
	start = now();
	kill(pid, SIGKILL);
	need(death_seen(pidfd, fd), "the victim's death");
	start = now() - start;
	first = beat_read(beat);
	pause_ms(700);
	second = beat_read(beat);
	point(first && first == second, "a killed process's kernel writes nothing once pidfd and socket have said so",
	      "%.3f s after the kill, beat %llu, 0.7 s later %llu", start, (unsigned long long)first,
	      (unsigned long long)second);
}

/* ---- group: CUDA before a fork ---- */

struct forked {
	int         before; /* device_cuda_forked() */
	int         start, descriptors;
	cudaError_t result;
};

static int descriptors_count(void)
{
	DIR           *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	char           target[64];
	int            count = 0;

	while (directory && (entry = readdir(directory))) {
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target));

		count += length > 11 && !memcmp(target, "/dev/nvidia", 11);
	}
	if (directory)
		closedir(directory);
	return count;
}

/* The one call of CUDA comes behind what must do without. */
static void forked_child(int fd)
{
	struct device_setup setup = { .owner = false };
	struct forked       seen;
	void               *ptr;

	seen.before = device_cuda_forked();
	seen.start = device_cuda->start(&setup);
	seen.result = cudaMalloc(&ptr, GRANULE);
	device_cuda->child_after_fork();
	seen.descriptors = descriptors_count();
	(void)!write(fd, &seen, sizeof(seen));
}

static void unused_child(int fd)
{
	struct forked seen = { .before = device_cuda_forked() };

	(void)!write(fd, &seen, sizeof(seen));
}

static void fork_group(void)
{
	struct forked early, late;
	pid_t         pid;
	int           fd = role_start(unused_child, &pid), mine;

	need(read(fd, &early, sizeof(early)) == sizeof(early), "the child before CUDA");
	cuda_begin();
	mine = descriptors_count();
	fd = role_start(forked_child, &pid);
	need(read(fd, &late, sizeof(late)) == sizeof(late), "the child after CUDA");
	point(late.result == cudaErrorInitializationError, "CUDA started before a fork fails in the child", "%s",
	      cudaGetErrorName(late.result));
	point(!early.before && late.before && !device_cuda_forked() && late.start == -ENOTSUP,
	      "our device notices that without a call of CUDA", "before CUDA %d, after %d, parent %d, start %d", early.before,
	      late.before, device_cuda_forked(), late.start);
	point(mine > 0 && late.descriptors == 0, "a forked child lets go of every descriptor of the driver", "%d, then %d",
	      mine, late.descriptors);
}

/* ---- group: two devices ---- */

static void peer_group(void)
{
	static const char    title[] = "memory of device 0 is opened on device 1 and read by its kernels";
	pid_t                pid;
	int                  fd = role_start(exporter, &pid), access = 0;
	struct answer        memory;
	struct device_handle handle;
	uint32_t             value = 0;
	void                *ptr;
	cudaError_t          result;

	cuda_begin();
	if (device_cuda->count() < 2 || cudaDeviceCanAccessPeer(&access, 1, 0) || !access) {
		point_skip(title, "no second CUDA device that reaches the first");
		return;
	}
	memory = ask_allocate(fd, GRANULE, 0x55);
	memcpy(handle.bytes, &memory.handle, sizeof(handle.bytes));
	NEED(device_cuda->open(1, &handle, GRANULE, &ptr));
	NEED(cudaSetDevice(1));
	result = kernel_reads(1, ptr, &value);
	point(!result && value == 0x55555555 && !device_cuda->close(1, ptr), title, "%s, read %x", cudaGetErrorName(result),
	      value);
}

/* ---- the program ---- */

static const struct group {
	const char *name;
	void (*run)(void);
	int points;
} groups[] = {
	{ "IPC", ipc_group, 10 },
	{ "stream order", order_group, 7 },
	{ "death", death_group, 1 },
	{ "fork", fork_group, 3 },
	{ "two devices", peer_group, 1 },
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static void probe(int fd)
{
	struct device_setup setup = { .owner = false };
	int                 count = device_cuda && !device_cuda->start(&setup) ? device_cuda->count() : 0;

	(void)!write(fd, &count, sizeof(count));
}

static int devices(void)
{
	pid_t         pid;
	int           count = 0, fd = role_start(probe, &pid);
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	if (poll(&wait, 1, GROUP_SECONDS * 1000) <= 0 || read(fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	return count;
}

/* A process group of its own, so that its roles end with it. */
static pid_t group_start(const struct group *group, int *fd)
{
	int   pair[2];
	pid_t parent = getpid(), pid;

	NEED(pipe(pair));
	pid = fork();
	need(pid >= 0, "fork");
	if (pid == 0) {
		setpgid(0, 0);
		die_with_parent(parent);
		signal(SIGPIPE, SIG_IGN);
		alarm(GROUP_SECONDS + 5);
		close(pair[0]);
		report_fd = pair[1];
		group->run();
		_exit(0);
	}
	setpgid(pid, pid);
	close(pair[1]);
	*fd = pair[0];
	return pid;
}

/* Numbers one line of a group; returns whether it was a point. */
static bool line_print(char *line, int number)
{
	bool bad = !strncmp(line, "not ok ", 7), good = !strncmp(line, "ok ", 3);

	if (!bad && !good) {
		printf("%s\n", line);
		return false;
	}
	printf("%s %d - %s\n", bad ? "not ok" : "ok", number, line + (bad ? 7 : 3));
	return true;
}

/* Reads lines until the group's last point, its end or the deadline; returns how many points came. */
static int group_read(const struct group *group, int fd, int number, double deadline)
{
	char   text[4096];
	size_t have = 0;
	int    points = 0;

	while (points < group->points) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		double        left = deadline - now();
		ssize_t       got = -1;
		char         *end;

		if (left > 0 && poll(&wait, 1, (int)(left * 1000) + 1) > 0)
			got = read(fd, text + have, sizeof(text) - have);
		if (got <= 0)
			break;
		have += (size_t)got;
		while ((end = memchr(text, '\n', have))) {
			*end++ = '\0';
			points += line_print(text, number + points);
			have -= (size_t)(end - text);
			memmove(text, end, have);
		}
	}
	return points;
}

static int group_run(const struct group *group, int number, double deadline)
{
	int   fd, points;
	pid_t pid = group_start(group, &fd);

	points = group_read(group, fd, number, deadline);
	for (int i = points; i < group->points; i++)
		printf("not ok %d - %s: the group ended or hung before this point\n", number + i, group->name);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	fflush(stdout);
	return points;
}

int main(void)
{
	double end = now() + TOTAL_SECONDS;
	int    number = 1, total = 0;

	alarm(TOTAL_SECONDS + 10);
	for (size_t i = 0; i < GROUPS; i++)
		total += groups[i].points;
	if (devices() == 0) {
		printf("Bail out! no CUDA device, or one that does not work\n");
		return 1;
	}
	printf("1..%d\n", total);
	fflush(stdout);
	for (size_t i = 0; i < GROUPS; i++) {
		double mine = now() + GROUP_SECONDS;

		group_run(&groups[i], number, mine < end ? mine : end);
		number += groups[i].points;
	}
	return 0;
}
