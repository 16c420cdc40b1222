/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reset.c - what cudaDeviceReset(), stale registrations and closes of IPC handles do on a real driver, and what the
 * cuda device makes of it. tests/integration/reset.c has the same through the library.
 *
 * An exporter is forked before CUDA is started. What blocks is released by a thread of its own, so nothing hangs, and
 * an alarm ends the program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "device/cuda.h"
#include "device/page.h"

#define SIZE  (2u << 20)
#define BYTES 65536 /* of a page that is registered */

static int  points;
static bool failed;

static void point(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void point(bool good, const char *format, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++points);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	if (!good)
		printf("# the last error: %s\n", error_text());
	failed |= !good;
}

static void need(bool good, const char *what)
{
	if (good)
		return;
	printf("Bail out! %s: %s\n", what, error_text());
	exit(1);
}

#define NEED(call) need(!(call), #call)

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- the exporter ---- */

static _Noreturn void exporter(int in, int out)
{
	struct device_setup  setup = { .owner = true };
	struct device_handle handle;
	void                *ptr;
	char                 byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (device_cuda->start(&setup) || device_cuda->allocate(0, SIZE, EXPORT_IPC, &ptr) ||
	    device_cuda->export_handle(0, ptr, &handle, &(int){ 0 }) ||
	    write(out, &handle, sizeof(handle)) != sizeof(handle))
		_exit(1);
	while (read(in, &byte, 1) > 0)
		;
	_exit(0);
}

static struct device_handle exported(void)
{
	struct device_handle handle;
	int                  in[2], out[2];
	pid_t                pid;

	NEED(pipe(in) || pipe(out));
	fflush(stdout);
	pid = fork();
	need(pid >= 0, "fork");
	if (!pid) {
		close(in[1]);
		close(out[0]);
		exporter(in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	need(read(out[0], &handle, sizeof(handle)) == sizeof(handle), "the exporter");
	return handle; /* it ends when in[1] is closed, with this process */
}

/* ---- shorthands ---- */

static struct device_handle handle;

/* A function that the device does not use. */
static void *driver(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = library ? dlsym(library, name) : NULL;

	need(function, name);
	return function;
}

static int reset(int ordinal)
{
	int (*call)(int) = (int (*)(int))driver("cuDevicePrimaryCtxReset_v2");

	return call(ordinal);
}

static uint64_t word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Queues a write there, waits for the stream, and looks. */
static bool lands(void *stream, uint64_t *word, uint64_t value)
{
	return !device_cuda->stream_write(stream, word, value) && !device_cuda->stream_sync(stream) &&
	       word_load(word) == value;
}

/* ---- points ---- */

static void test_closes_wait(void)
{
	double began = now_ms(), first, second;
	int    rc = device_cuda->sync(0, &handle, SIZE);

	first = now_ms() - began;
	began = now_ms();
	point(!rc && !cuda_closes_return(0), "a close that is not the last waits for a parked stream: %d", rc);
	rc = device_cuda->sync(0, &handle, SIZE);
	second = now_ms() - began;
	printf("# the first synchronisation, with its trials, %.2f ms, the next %.3f ms\n", first, second);
	point(!rc, "and the next synchronisation is none of trials");
}

#define STALE 4

/* As a program leaves them that unmaps without cudaHostUnregister(). */
static void stale_leave(void *stale[STALE])
{
	CUDA_SCOPE(scope);

	NEED(cuda_enter(&scope, 0));
	for (int i = 0; i < STALE; i++) {
		stale[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		need(stale[i] != MAP_FAILED, "mmap");
		NEED(cuda_error(cuda.MemHostRegister(stale[i], BYTES,
						     CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
				"registering"));
	}
	for (int i = 0; i < STALE; i++)
		NEED(munmap(stale[i], BYTES));
}

static void stale_end(void *stale[STALE])
{
	int (*unregister)(void *) = (int (*)(void *))driver("cuMemHostUnregister");
	CUDA_SCOPE(scope);

	NEED(cuda_enter(&scope, 0));
	for (int i = 0; i < STALE; i++)
		printf("# stale %d: unregistering it gives %d\n", i, unregister(stale[i]));
}

static void test_stale(void *stream)
{
	void     *stale[STALE];
	uint64_t *page;
	void     *mapped = NULL;

	stale_leave(stale);
	page = mmap(stale[0], BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	need(page == stale[0] && !madvise(page, BYTES, MADV_DONTFORK), "the same address");
	point(device_cuda->page_register(page, BYTES, true) == -EEXIST, "a page on a stale registration is refused: %s",
	      error_text());
	munmap(page, BYTES);
	point(!page_map(device_cuda->page_register, BYTES, -1, true, &mapped), "and mapped elsewhere");
	for (int i = 0; i < STALE; i++)
		point(mapped != stale[i], "not at stale address %d", i);
	point(mapped && lands(stream, mapped, 7), "where writes land");
	stale_end(stale);
}

static void test_reset(uint64_t *page)
{
	uint64_t before = device_cuda->epoch(0), after;
	void    *stream, *ptr;
	double   began;

	point(before, "a device in use has an epoch: %llu", (unsigned long long)before);
	point(device_cuda->epoch(0) == before, "which stays");
	NEED(reset(0));
	began = now_ms();
	after = device_cuda->epoch(0);
	point(after && after != before, "and is another one after a reset: %llu (%.0f ms)", (unsigned long long)after,
	      now_ms() - began);
	point(device_cuda->epoch(0) == after, "once");
	point(!device_cuda->stream_create(0, 0, &stream) && lands(stream, page, 11),
	      "a page registered before is registered again");
	point(!device_cuda->open(0, &handle, SIZE, &ptr) && !device_cuda->sync(0, &handle, SIZE) &&
		      !device_cuda->close(0, ptr),
	      "a handle is opened, synchronised with and closed");
	device_cuda->stream_destroy(stream);
	NEED(reset(0));
	point(!device_cuda->stream_create(0, 0, &stream) && lands(stream, page, 12),
	      "also where nobody asked for the epoch before");
	device_cuda->stream_destroy(stream);
	NEED(reset(0));
	point(!device_cuda->set_current(0) && lands(NULL, page, 13), "and on the legacy stream");
	NEED(reset(0));
	point(!device_cuda->stream_write(NULL, page, 14) && !device_cuda->stream_sync(NULL) && word_load(page) == 14,
	      "whose first use comes behind a reset");
	point(device_cuda->current() == 0, "the current device is the one that was reset");
}

static void test_other_device(uint64_t *page)
{
	uint64_t other;
	void    *stream;

	if (device_cuda->count() < 2) {
		printf("ok %d - another device # SKIP one GPU\n", ++points);
		return;
	}
	NEED(device_cuda->stream_create(1, 0, &stream));
	other = device_cuda->epoch(1);
	point(lands(stream, page, 21), "a write on a stream of device 1");
	NEED(reset(0));
	point(lands(stream, page, 22) && device_cuda->epoch(1) == other,
	      "also after a reset of device 0, on the same stream");
	NEED(device_cuda->set_current(1));
	device_cuda->stream_destroy(stream);
	NEED(reset(1));
	point(device_cuda->current() == 1, "a current device stays so when it is reset: %d", device_cuda->current());
	NEED(device_cuda->set_current(0));
}

/* ---- a close that waits, and acquires beside it ---- */

static atomic_int closing; /* 1: about to; 2: done */
static void      *again;

static void *close_behind(void *unused)
{
	(void)unused;
	atomic_store(&closing, 1);
	(void)device_cuda->close(0, again);
	atomic_store(&closing, 2);
	return NULL;
}

static void *release_later(void *word)
{
	usleep(500000);
	__atomic_store_n((uint64_t *)word, 31, __ATOMIC_RELEASE);
	return NULL;
}

static void test_beside_a_close(uint64_t *page)
{
	pthread_t closer, releaser;
	void     *stream, *ptr;
	uint64_t  epoch;
	double    began, took;
	int       scans = 100000, same = 0;
	bool      closed;

	NEED(device_cuda->open(0, &handle, SIZE, &ptr) || device_cuda->open(0, &handle, SIZE, &again));
	NEED(device_cuda->stream_create(0, 0, &stream));
	epoch = device_cuda->epoch(0);
	atomic_store(&closing, 0);
	__atomic_store_n(page, 0, __ATOMIC_RELEASE);
	NEED(device_cuda->stream_wait(stream, page, 31));
	NEED(pthread_create(&releaser, NULL, release_later, page) || pthread_create(&closer, NULL, close_behind, NULL));
	while (!atomic_load(&closing))
		sched_yield();
	usleep(50000); /* into the call, as a rule; else this shows nothing, and fails nothing */
	began = now_ms();
	for (int i = 0; i < scans; i++)
		same += device_cuda->epoch(0) == epoch;
	took = now_ms() - began;
	closed = atomic_load(&closing) == 2;
	pthread_join(closer, NULL);
	pthread_join(releaser, NULL);
	point(same == scans && !closed,
	      "invariant 7: to look at the epoch waits for no close in another thread: %.1f ns a look",
	      took * 1e6 / scans);
	NEED(device_cuda->stream_sync(stream));
	device_cuda->stream_destroy(stream);
	NEED(device_cuda->close(0, ptr));
}

int main(void)
{
	struct device_setup setup = { .owner = false };
	void               *stream, *ptr, *page;

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(60);
	handle = exported();
	NEED(device_cuda->start(&setup) || device_cuda->set_current(0));
	NEED(device_cuda->open(0, &handle, SIZE, &ptr));
	NEED(page_map(device_cuda->page_register, BYTES, -1, true, &page));
	NEED(device_cuda->stream_create(0, 0, &stream));
	test_closes_wait();
	test_stale(stream);
	device_cuda->stream_destroy(stream);
	NEED(device_cuda->close(0, ptr));
	test_beside_a_close(page);
	test_reset(page);
	test_other_device(page);
	test_beside_a_close(page);
	printf("1..%d\n", points);
	return failed;
}
