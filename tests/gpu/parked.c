/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.c - a stream that is parked, and whether a call returns meanwhile: see parked.h.
 *
 * Owns the word, the thread that writes it, and the driver's functions. One stream is parked at a time.
 */
#include "parked.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpubroker.h"

#define PAGE 4096

struct driver driver;

static const struct {
	const char *name;
	size_t      offset;
} functions[] = {
	{ "cuInit", offsetof(struct driver, Init) },
	{ "cuDevicePrimaryCtxRetain", offsetof(struct driver, DevicePrimaryCtxRetain) },
	{ "cuCtxCreate_v2", offsetof(struct driver, CtxCreate) },
	{ "cuCtxDestroy_v2", offsetof(struct driver, CtxDestroy) },
	{ "cuCtxGetCurrent", offsetof(struct driver, CtxGetCurrent) },
	{ "cuCtxPushCurrent_v2", offsetof(struct driver, CtxPushCurrent) },
	{ "cuCtxPopCurrent_v2", offsetof(struct driver, CtxPopCurrent) },
	{ "cuMemHostRegister_v2", offsetof(struct driver, MemHostRegister) },
	{ "cuStreamCreate", offsetof(struct driver, StreamCreate) },
	{ "cuStreamDestroy_v2", offsetof(struct driver, StreamDestroy) },
	{ "cuStreamSynchronize", offsetof(struct driver, StreamSynchronize) },
	{ "cuStreamWaitValue64_v2", offsetof(struct driver, StreamWaitValue64) },
	{ "cuStreamBeginCapture_v2", offsetof(struct driver, StreamBeginCapture) },
	{ "cuStreamEndCapture", offsetof(struct driver, StreamEndCapture) },
	{ "cuStreamIsCapturing", offsetof(struct driver, StreamIsCapturing) },
	{ "cuStreamGetCtx", offsetof(struct driver, StreamGetCtx) },
	{ "cuStreamGetId", offsetof(struct driver, StreamGetId) },
	{ "cuGraphDestroy", offsetof(struct driver, GraphDestroy) },
	{ "cuEventCreate", offsetof(struct driver, EventCreate) },
	{ "cuEventRecord", offsetof(struct driver, EventRecord) },
	{ "cuLibraryLoadFromFile", offsetof(struct driver, LibraryLoadFromFile) },
	{ "cuLibraryGetKernel", offsetof(struct driver, LibraryGetKernel) },
	{ "cuLibraryGetModule", offsetof(struct driver, LibraryGetModule) },
	{ "cuKernelGetFunction", offsetof(struct driver, KernelGetFunction) },
	{ "cuFuncLoad", offsetof(struct driver, FuncLoad) },
	{ "cuLaunchKernel", offsetof(struct driver, LaunchKernel) },
};

static int points, failed;

void point(bool good, const char *format, ...)
{
	va_list arguments;

	failed += !good;
	printf("%sok %d - ", good ? "" : "not ", ++points);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

int points_end(void)
{
	printf("1..%d\n", points);
	return failed ? 1 : 0;
}

void need_at(int line, int result, const char *what)
{
	if (!result)
		return;
	printf("Bail out! line %d: %s: %d; the library's last error: %s\n", line, what, result, gpub_strerror_last());
	exit(1);
}

void parked_begin(unsigned seconds)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(seconds);
	for (size_t i = 0; library && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		need_at(__LINE__, !function, functions[i].name);
		*(void **)((char *)&driver + functions[i].offset) = function;
	}
	if (!library || driver.Init(0) != CUDA_SUCCESS) {
		printf("Bail out! no CUDA device, or one that does not work\n");
		exit(1);
	}
}

/* ---- parking ---- */

static uint64_t       *word; /* registered, never given back */
static CUstream        parked;
static CUcontext       parked_in;
static struct timespec until;
static pthread_t       releaser;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  ended = PTHREAD_COND_INITIALIZER;
static bool            over; /* the call that is watched has returned */
static bool            late; /* it had not when the time was up */

static void *release_thread(void *unused)
{
	pthread_mutex_lock(&lock);
	while (!over && !late)
		late = pthread_cond_timedwait(&ended, &lock, &until) != 0 && !over;
	pthread_mutex_unlock(&lock);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	return unused;
}

/* Portable: good in every context. */
static void word_make(void)
{
	word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(word == MAP_FAILED);
	NEED(driver.MemHostRegister(word, PAGE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

void park(CUstream stream, unsigned milliseconds)
{
	if (!word)
		word_make();
	*word = 0;
	parked = stream;
	over = late = false;
	NEED(driver.CtxGetCurrent(&parked_in));
	NEED(driver.StreamWaitValue64(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += milliseconds / 1000;
	until.tv_nsec += milliseconds % 1000 * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	NEED(pthread_create(&releaser, NULL, release_thread, NULL));
}

bool release(void)
{
	CUcontext popped;

	pthread_mutex_lock(&lock);
	over = true;
	pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	NEED(pthread_join(releaser, NULL));
	NEED(driver.CtxPushCurrent(parked_in));
	NEED(driver.StreamSynchronize(parked));
	NEED(driver.CtxPopCurrent(&popped));
	return !late;
}

/* ---- captures ---- */

void capture_begin(CUstream stream)
{
	NEED(driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

bool capture_end(CUstream stream)
{
	CUgraph graph = NULL;
	bool    whole = driver.StreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph;

	if (graph)
		NEED(driver.GraphDestroy(graph));
	return whole;
}
