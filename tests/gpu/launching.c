/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launching.c - modules, launches and the default stream on a CUDA device, through the library.
 *
 * Started by launching.sh under broker-run: look-ups and launches wait for nothing that is parked, since modules are
 * loaded before; calls on the default stream do not disturb a blocking stream's capture; a launch on a stream of
 * another context or device is refused before anything runs. With the argument "plain" it does what any client does,
 * and has no points: for compute-sanitizer, which counts its API errors.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpubroker.h"
#include "parked.h"

#define NO_WAIT_MS 5000 /* how long a stream is parked beside a call that must not wait for it */
#define WAIT_MS    500  /* and beside one that must */

static gpub_client *client;
static gpub_module *module;
static gpub_lease   lease; /* has a timeline */
static gpub_kernel  increment;
static uint64_t    *counter; /* managed: what increment adds to */

/* ---- what any client does ---- */

static void open_all(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	void     *managed;
	size_t    size;

	spec.size = 4096;
	spec.device = GPUB_CURRENT;
	spec.flags = GPUB_TIMELINE | GPUB_EPHEMERAL;
	NEED(gpub_connect(&client, NULL));
	NEED(gpub_set_device(client, 0));
	NEED(gpub_create(client, "launching", &spec));
	NEED(gpub_acquire(client, "launching", GPUB_READ | GPUB_WRITE, 0, &lease));
	NEED(gpub_module_open(&module, client, "kernels"));
	NEED(gpub_module_kernel(module, "managed_increment", &increment));
	NEED(gpub_module_managed(module, "kernels_managed_counter", &managed, &size));
	counter = managed;
}

static void close_all(void)
{
	NEED(gpub_module_close(module));
	NEED(gpub_return(&lease));
	gpub_disconnect(client);
}

static int launch(gpub_kernel kernel, int device, void *stream, void **args)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;

	config.device = device;
	config.stream = stream;
	return gpub_launch(kernel, &config, args);
}

static int launch_increment(int device, void *stream)
{
	uint64_t one = 1;

	return launch(increment, device, stream, (void *[]){ &one });
}

/* In a thread whose current device is the stream's. */
static int launch_fill(void *stream)
{
	uint32_t    value = 7;
	uint64_t    count = 16;
	gpub_kernel fill;
	int         error = gpub_module_kernel(module, "fill", &fill);

	return error ? error : launch(fill, 0, stream, (void *[]){ &lease.ptr, &value, &count });
}

/* Each kernel is looked up, two are launched, a launch without parameters is refused, and streams are used. */
static int plain(void)
{
	static const char *const names[] = { "heat_step", "heat_edges", "pack_rows", "unpack_rows",
					     "axpy",	  "fill",	"checksum",  "late_write" };
	gpub_kernel              kernel;
	uint32_t                 words[16];
	void                    *stream;

	open_all();
	NEED(gpub_stream_create(client, 0, &stream));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		NEED(gpub_module_kernel(module, names[i], &kernel));
	NEED(launch_fill(stream));
	NEED(launch_fill(NULL));
	NEED(launch_increment(0, stream));
	NEED(launch(increment, 0, stream, NULL) != -EINVAL);
	NEED(gpub_copy_on(client, words, lease.ptr, sizeof(words), stream));
	NEED(gpub_signal_on(&lease, 1, stream));
	NEED(gpub_stream_sync(stream));
	NEED(gpub_stream_sync(NULL));
	NEED(words[15] != 7 || *counter != 1);
	gpub_stream_destroy(stream);
	close_all();
	printf("all of it was done\n");
	return 0;
}

/* ---- loading ---- */

static void test_loading(void)
{
	gpub_module *another;
	void        *parked, *other;
	int          looked, launched, synced;
	bool         free_to_go;

	NEED(gpub_stream_create(client, 0, &parked));
	NEED(gpub_stream_create(client, 0, &other));
	park(parked, NO_WAIT_MS);
	looked = gpub_module_kernel(module, "managed_increment", &increment);
	launched = launch_fill(other); /* a kernel that was neither looked up nor launched before */
	synced = gpub_stream_sync(other);
	free_to_go = release();
	point(!looked && !launched && !synced && free_to_go,
	      "a look-up and a first launch beside a parked stream wait for nothing (%d, %d, %d; %s)", looked, launched,
	      synced, free_to_go ? "returned at once" : "returned when the stream went on");
	park(parked, WAIT_MS);
	looked = gpub_module_open(&another, client, "kernels");
	free_to_go = release();
	point(!looked, "a module can be opened beside a parked stream, and %s",
	      free_to_go ? "does not wait" : "waits for it");
	if (!looked)
		NEED(gpub_module_close(another));
	gpub_stream_destroy(parked);
	gpub_stream_destroy(other);
}

/* A device that comes into use after the module was opened. */
static void test_further_device(void)
{
	CUcontext there;
	void     *parked, *other;
	int       launched, synced;
	bool      free_to_go;

	if (gpub_stream_create(client, 1, &parked)) {
		printf("# no second device: %s\n", gpub_strerror_last());
		return;
	}
	NEED(gpub_stream_create(client, 1, &other));
	NEED(driver.StreamGetCtx(parked, &there));
	NEED(driver.CtxPushCurrent(there));
	park(parked, NO_WAIT_MS);
	launched = launch_increment(1, other);
	synced = gpub_stream_sync(other);
	free_to_go = release();
	NEED(driver.CtxPopCurrent(&there));
	point(!launched && !synced && free_to_go,
	      "the first launch on a further device beside a parked stream waits for nothing (%d, %d; %s)", launched,
	      synced, free_to_go ? "returned at once" : "returned when the stream went on");
	*counter = 0;
	launched = launch_increment(0, other);
	NEED(gpub_stream_sync(other));
	point(launched == -EINVAL && *counter == 0,
	      "a launch on a stream of another device is refused, and nothing runs (%d, %d)", launched, (int)*counter);
	gpub_stream_destroy(parked);
	gpub_stream_destroy(other);
}

/* ---- the default stream ---- */

/* As bits: which calls on that stream gave something else. */
static unsigned default_calls(void *stream, int wanted)
{
	static uint64_t value;
	uint64_t        seen = 0;
	unsigned        bad = 0;

	value += 1;
	bad |= (unsigned)(gpub_stream_sync(stream) != wanted) << 0;
	bad |= (unsigned)(gpub_copy_on(client, &seen, lease.ptr, sizeof(seen), stream) != wanted) << 1;
	bad |= (unsigned)(gpub_signal_on(&lease, value, stream) != wanted) << 2;
	bad |= (unsigned)(gpub_wait_on(&lease, value, stream) != wanted) << 3;
	bad |= (unsigned)(launch_fill(stream) != wanted) << 4;
	bad |= (unsigned)(gpub_return_on(&lease, stream) != wanted) << 5;
	if (!wanted)
		NEED(gpub_acquire(client, "launching", GPUB_READ | GPUB_WRITE, 0, &lease));
	return bad;
}

static void test_default_stream(void *stream, const char *name)
{
	CUstream blocking;
	unsigned bad;
	bool     whole;

	NEED(driver.StreamCreate(&blocking, CU_STREAM_DEFAULT));
	capture_begin(blocking);
	bad = default_calls(stream, -EBUSY);
	whole = capture_end(blocking);
	point(!bad && whole,
	      "calls on %s while a blocking stream is captured: EBUSY, and the capture is whole (bits of other results "
	      "%#x; %s)",
	      name, bad, whole ? "valid" : "invalidated");
	bad = default_calls(stream, 0);
	NEED(gpub_stream_sync(stream));
	point(!bad, "afterwards they work (%#x)", bad);
	NEED(driver.StreamDestroy(blocking));
}

/* ---- a context of the program's own ---- */

static void test_own_context(void)
{
	CUcontext own, popped;
	CUstream  stream;
	int       there, on_default, signalled, synced;

	NEED(driver.CtxCreate(&own, 0, 0)); /* and current */
	NEED(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	*counter = 0;
	on_default = launch_increment(0, NULL);
	NEED(driver.CtxPopCurrent(&popped));
	there = launch_increment(0, stream);
	signalled = gpub_signal_on(&lease, 1000, stream);
	synced = gpub_stream_sync(stream);
	point(there == -EINVAL && on_default == -EINVAL && *counter == 0,
	      "a launch on a stream of another context is refused, and nothing runs (%d, on its default stream %d; %d)",
	      there, on_default, (int)*counter);
	point(!signalled && !synced, "such a stream can be signalled on and waited for (%d, %d)", signalled, synced);
	NEED(driver.CtxPushCurrent(own));
	NEED(driver.StreamSynchronize(stream));
	NEED(driver.StreamDestroy(stream));
	NEED(driver.CtxDestroy(own)); /* and no more current */
	NEED(gpub_set_device(client, 0));
	point(!launch_increment(0, NULL) && !gpub_stream_sync(NULL) && *counter == 1,
	      "and launches go on where they may");
}

int main(int count, char **arguments)
{
	if (count > 1 && !strcmp(arguments[1], "plain")) {
		alarm(240);
		return plain();
	}
	parked_begin(60);
	open_all();
	test_loading();
	test_further_device();
	test_default_stream(NULL, "NULL");
	test_default_stream(CU_STREAM_LEGACY, "CU_STREAM_LEGACY");
	test_own_context();
	close_all();
	return points_end();
}
