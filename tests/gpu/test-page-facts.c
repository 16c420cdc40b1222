/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-page-facts.c - what it means to unregister a page while streams are not done, on the real driver.
 *
 * The library unregisters a timeline's page once all leases of its buffer were returned and its mappings closed: all
 * work of the contexts in which buffers are mapped is over then. What a stream of another context, or of another
 * device, still has to do with the page is the program's to end before it returns the lease (gpub_signal_on(3)); what
 * happens else is said. A page is looked at through its own mapping, which stays: only the registration ends.
 *
 * One process, which ends by itself after a minute: a call that hangs leaves the plan unfulfilled.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "device/cuda.h"

#define PAGE   4096u
#define CYCLES 5000
#define LOOK_US 300000   /* how long a call is looked at that may wait */
#define LAST_US 10000000 /* how long one that must not */

static int number;

__attribute__((format(printf, 3, 4))) static void point(bool good, const char *title, const char *format, ...)
{
	va_list arguments;

	printf("%s %d - %s (", good ? "ok" : "not ok", ++number, title);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf(")\n");
}

#define NEED(call)                                                                            \
	do {                                                                                  \
		int need_ = (int)(call);                                                      \
		if (need_) {                                                                  \
			printf("Bail out! line %d: " #call ": %d, %s\n", __LINE__, need_, error_text()); \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* As the library makes one. */
static uint64_t *page_make(void)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	NEED(page == MAP_FAILED || madvise(page, PAGE, MADV_DONTFORK));
	NEED(device_cuda->page_register(page, PAGE, true));
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

/* ---- streams ---- */

struct place {
	const char *name;
	CUcontext   context;
	CUstream    stream;
};

static CUresult (*context_create)(CUcontext *, unsigned int, CUdevice);

static void place_make(struct place *place, const char *name, CUcontext context)
{
	CUcontext popped;

	place->name = name;
	place->context = context;
	NEED(cuda.CtxPushCurrent(context));
	NEED(cuda.StreamCreate(&place->stream, CU_STREAM_NON_BLOCKING));
	NEED(cuda.CtxPopCurrent(&popped));
}

static CUcontext primary(int ordinal)
{
	CUcontext context;

	NEED(cuda.DevicePrimaryCtxRetain(&context, ordinal));
	return context;
}

static CUcontext other_context(void)
{
	void     *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context, popped;

	*(void **)&context_create = library ? dlsym(library, "cuCtxCreate_v2") : NULL;
	NEED(!context_create);
	NEED(context_create(&context, 0, 0));
	NEED(cuda.CtxPopCurrent(&popped));
	return context;
}

static CUresult place_wait(const struct place *place, const uint64_t *word, uint64_t value)
{
	CUcontext popped;
	CUresult  result;

	NEED(cuda.CtxPushCurrent(place->context));
	result = cuda.StreamWaitValue64(place->stream, cuda_address(word), value, CU_STREAM_WAIT_VALUE_GEQ);
	NEED(cuda.CtxPopCurrent(&popped));
	return result;
}

/* What is queued there comes to its end: CUDA_SUCCESS, CUDA_ERROR_NOT_READY, or how it failed. */
static CUresult place_ends(const struct place *place)
{
	CUcontext popped;
	CUresult  result;
	CUevent   event;
	double    until = now() + LAST_US / 1e6;

	NEED(cuda.CtxPushCurrent(place->context));
	result = cuda.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS)
		result = cuda.EventRecord(event, place->stream);
	if (result == CUDA_SUCCESS)
		do
			result = cuda.EventQuery(event);
		while (result == CUDA_ERROR_NOT_READY && now() < until);
	NEED(cuda.CtxPopCurrent(&popped));
	return result;
}

/* A write lands: the context is not lost. */
static bool place_is_well(const struct place *place)
{
	uint64_t *word = page_make();
	CUcontext popped;
	CUresult  result;

	NEED(cuda.CtxPushCurrent(place->context));
	result = cuda.StreamWriteValue64(place->stream, cuda_address(word), 1, CU_STREAM_WRITE_VALUE_DEFAULT);
	NEED(cuda.CtxPopCurrent(&popped));
	return result == CUDA_SUCCESS && place_ends(place) == CUDA_SUCCESS && word_load(word) == 1;
}

/* ---- an unregister on another thread ---- */

struct unregister {
	pthread_t    thread;
	void        *page;
	int          rc;
	_Atomic bool is_done;
};

static void *unregister_run(void *argument)
{
	struct unregister *unregister = argument;

	unregister->rc = device_cuda->page_unregister(unregister->page);
	atomic_store(&unregister->is_done, true);
	return NULL;
}

static void unregister_start(struct unregister *unregister, void *page)
{
	unregister->page = page;
	unregister->rc = -1;
	atomic_store(&unregister->is_done, false);
	NEED(pthread_create(&unregister->thread, NULL, unregister_run, unregister));
}

static bool is_done_in(const struct unregister *unregister, double us)
{
	double until = now() + us / 1e6;

	while (!atomic_load(&unregister->is_done) && now() < until)
		usleep(1000);
	return atomic_load(&unregister->is_done);
}

/* ---- points ---- */

/* As with all of a context's work: so what a close of a mapping waits for, this waits for. */
static void own_context(const struct place *own)
{
	struct unregister unregister;
	uint64_t *page = page_make(), *gate = page_make();
	bool early, late;

	NEED(place_wait(own, gate, 1));
	unregister_start(&unregister, page);
	early = is_done_in(&unregister, LOOK_US);
	word_store(gate, 1);
	late = is_done_in(&unregister, LAST_US);
	point(!early && late && !unregister.rc && place_ends(own) == CUDA_SUCCESS && place_is_well(own),
	      "an unregister waits for a stream of its context, parked on another page", "%s; %s, %d",
	      early ? "did not wait" : "waited", late ? "done" : "HANGS", late ? unregister.rc : 0);
	if (!late)
		exit(1);
}

/*
 * A stream of another context waits on that very page, or has yet to come to its wait: what the driver makes of it is
 * said, and is no point. The process may have lost its device behind it.
 */
static bool other_place(const struct place *other, bool is_reached)
{
	struct unregister unregister;
	uint64_t *page = page_make(), *gate = page_make();
	CUresult  ends;
	bool      early, late;

	word_store(page, is_reached ? 1 : 0);
	NEED(place_wait(other, gate, is_reached ? 1 : 0));
	NEED(place_wait(other, page, 1));
	unregister_start(&unregister, page);
	early = is_done_in(&unregister, LOOK_US);
	word_store(page, 1);
	word_store(gate, 1);
	late = is_done_in(&unregister, LAST_US);
	ends = late ? place_ends(other) : CUDA_ERROR_NOT_READY;
	printf("# an unregister of a page %s %s: %s for it; %s, %d; the stream ends with %d\n",
	       is_reached ? "that a wait will find reached, in a stream of" : "on which a stream is parked, of",
	       other->name, early ? "did not wait" : "waited", late ? "done" : "HANGS", late ? unregister.rc : 0,
	       (int)ends);
	return ends == CUDA_SUCCESS;
}

static long status_kib(const char *key)
{
	FILE *status = fopen("/proc/self/status", "re");
	char  line[256];
	long  kib = -1;

	while (status && fgets(line, sizeof line, status))
		if (!strncmp(line, key, strlen(key)))
			kib = strtol(line + strlen(key), NULL, 10);
	if (status)
		fclose(status);
	return kib;
}

static void cycles(void)
{
	long   before = 0;
	double began = 0;

	for (int i = 0; i < 2 * CYCLES; i++) {
		uint64_t *page = page_make();

		if (i == CYCLES) {
			before = status_kib("VmRSS:");
			began = now();
		}
		NEED(device_cuda->page_unregister(page));
		NEED(munmap(page, PAGE));
	}
	point(status_kib("VmRSS:") - before < 1024, "pages that are registered and unregistered leave no memory behind",
	      "%.0f us each, %ld KiB more after %d", (now() - began) * 1e6 / CYCLES, status_kib("VmRSS:") - before,
	      CYCLES);
}

static void unknown(void)
{
	uint64_t *page = page_make();
	CUresult  first = cuda.MemHostUnregister(page);
	int       second = device_cuda->page_unregister(page), third = device_cuda->page_unregister(page);

	point(!first && !second && third == -EINVAL,
	      "a page that the driver does not know any more is no error, but one that was never ours",
	      "%d, %d, then %d", (int)first, second, third);
}

int main(void)
{
	struct device_setup setup = { .owner = false };
	struct place own, user, far = { 0 };
	int devices;

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(60);
	if (device_cuda->start(&setup)) {
		printf("Bail out! %s\n", error_text());
		return 1;
	}
	devices = device_cuda->count();
	printf("1..3\n");
	place_make(&own, "this context", primary(0));
	NEED(device_cuda->set_current(0));
	cycles();
	unknown();
	own_context(&own);
	if (devices > 1) {
		place_make(&far, "another device", primary(1));
		if (!other_place(&far, false) || !other_place(&far, true))
			return 0;
	}
	place_make(&user, "another context", other_context());
	if (other_place(&user, true))
		(void)other_place(&user, false);
	return 0;
}
