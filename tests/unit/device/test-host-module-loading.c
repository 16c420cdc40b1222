/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-host-module-loading.c - the host device's model of two of CUDA's rules: to load a module on a device waits for
 * what is queued there, and the default stream cannot be used while a blocking stream is captured.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "host-harness.h"

static int twins_build(void **state)
{
	(void)state;
	return scenarios_begin("#include <gpubroker-host.h>\\n"
			       "static void set(const gpub_launch_config *config, void **args) {\\n"
			       "	(void)config; __atomic_store_n(*(int **)args[0], 1, __ATOMIC_RELEASE); }\\n"
			       "GPUB_HOST_KERNEL(set, set, sizeof(int *));\\n");
}

static int twins_remove(void **state)
{
	(void)state;
	return scenarios_end();
}

static uint64_t *page_make(void)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED && !madvise(page, PAGE, MADV_DONTFORK) && !device->page_register(page, PAGE, true));
	return page;
}

/* ---- loading, on a thread of its own where it is to wait ---- */

static void *loaded, *kernel;
static int   target;
static atomic_bool answered;

static int launch(int ordinal, void *stream)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	int *to = &target;
	void *args[] = { &to };

	config.device = ordinal;
	config.stream = stream;
	return device->module_launch(kernel, &config, args);
}

static int open_once_more(void)
{
	void *another;

	return device->module_load(twins, &another);
}

static int ready_1(void)
{
	return device->module_ready(loaded, 1);
}

static int launch_1(void)
{
	return launch(1, NULL);
}

static void *call(void *function)
{
	CHECK(!((int (*)(void))function)());
	atomic_store(&answered, true);
	return NULL;
}

/* The call waits until the word is written, and then returns. */
static void waits(int (*function)(void), uint64_t *word)
{
	pthread_t thread;

	atomic_store(&answered, false);
	CHECK(!pthread_create(&thread, NULL, call, (void *)function));
	while (!host_loads_waiting() && !atomic_load(&answered))
		sched_yield();
	CHECK(host_loads_waiting() == 1 && !atomic_load(&answered));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL) && !host_loads_waiting());
}

static void begin(void)
{
	start(false, 2);
	CHECK(!device->set_current(0));
}

static void load(void)
{
	CHECK(!device->module_load(twins, &loaded) && !device->module_kernel(loaded, "set", &kernel));
}

/* Open, look up, block a stream, launch. */
static void scenario_loaded(void)
{
	void *parked, *free;
	uint64_t *page;

	begin();
	page = page_make();
	CHECK(!device->stream_create(0, 0, &parked) && !device->stream_create(0, 0, &free));
	load();
	CHECK(!device->stream_wait(parked, page, 1));
	CHECK(!device->module_kernel(loaded, "set", &kernel) && !device->module_ready(loaded, 0));
	CHECK(!launch(0, free) && !device->stream_sync(free) && target == 1 && !host_late_loads());
	waits(open_once_more, page);
	CHECK(!device->stream_sync(parked));
}

/* A device that comes into use later. */
static void scenario_ready(void)
{
	void *parked, *free;
	uint64_t *page;

	begin();
	page = page_make();
	load();
	CHECK(!device->stream_create(1, 0, &parked) && !device->stream_create(1, 0, &free));
	CHECK(!device->stream_wait(parked, page, 1));
	waits(ready_1, page);
	page[1] = 0;
	CHECK(!device->stream_wait(parked, page + 1, 1));
	CHECK(!ready_1() && !launch(1, free) && !device->stream_sync(free) && target == 1 && !host_late_loads());
	__atomic_store_n(page + 1, 1, __ATOMIC_RELEASE);
	CHECK(!device->stream_sync(parked));
	CHECK(device->module_ready(loaded, 2) == -ENODEV && device->module_ready(page, 1) == -EINVAL);
}

/* A device where the first launch loads the module. */
static void scenario_late(void)
{
	uint64_t *page;

	begin();
	page = page_make();
	load();
	CHECK(!device->set_current(1) && !device->stream_wait(NULL, page, 1));
	waits(launch_1, page);
	CHECK(!device->stream_sync(NULL) && target == 1 && host_late_loads() == 1);
	CHECK(!launch_1() && !device->stream_sync(NULL) && host_late_loads() == 1);
}

static void test_loading(void **state)
{
	(void)state;
	expect_clean(scenario_loaded);
	expect_clean(scenario_ready);
	expect_clean(scenario_late);
}

/* ---- the default stream while a blocking stream is captured ---- */

static void capture(void *stream, struct host_graph **graph, int end)
{
	CHECK(host_capture_end(stream, graph) == end);
	if (!end)
		host_graph_destroy(*graph);
}

static void scenario_default_refused(void)
{
	struct host_graph *graph;
	uint64_t *page;
	void *stream;

	begin();
	page = page_make();
	load();
	CHECK(!device->stream_create(0, 0, &stream) && !host_capture_begin_blocking(stream));
	CHECK(device->stream_sync(NULL) == -EBUSY && launch(0, NULL) == -EBUSY);
	CHECK(device->copy(NULL, page, page + 1, 8) == -EBUSY);
	CHECK(device->stream_write(NULL, page, 1) == -EBUSY && device->stream_wait(NULL, page, 0) == -EBUSY);
	CHECK(!launch(1, NULL) && !device->set_current(1) && !device->stream_sync(NULL));
	capture(stream, &graph, 0);
	CHECK(!device->set_current(0) && !device->stream_sync(NULL) && !launch(0, NULL) && !device->stream_sync(NULL));
	CHECK(!host_capture_begin(stream) && !launch(0, NULL) && !device->stream_sync(NULL));
	capture(stream, &graph, 0);
}

/* A program that does not ask first. */
static void scenario_default_invalidates(void)
{
	struct host_graph *empty, *graph;
	void *stream;

	begin();
	CHECK(!device->stream_create(0, 0, &stream) && !host_capture_begin_blocking(stream));
	CHECK(host_capture_sync(NULL) == -EBUSY);
	capture(stream, &graph, -ECANCELED);
	load();
	CHECK(!host_capture_begin(stream) && !launch(0, stream) && !host_capture_end(stream, &empty));
	CHECK(!host_capture_begin_blocking(stream) && host_graph_launch(empty, NULL) == -EBUSY);
	capture(stream, &graph, -ECANCELED);
	CHECK(!host_capture_sync(NULL) && !host_capture_begin_blocking(stream));
	device->stream_destroy(stream);
	CHECK(!host_graph_launch(empty, NULL) && !host_capture_sync(NULL));
	host_graph_destroy(empty);
}

static void test_default_stream(void **state)
{
	(void)state;
	expect_clean(scenario_default_refused);
	expect_clean(scenario_default_invalidates);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loading),
		cmocka_unit_test(test_default_stream),
	};

	return cmocka_run_group_tests(tests, twins_build, twins_remove);
}
