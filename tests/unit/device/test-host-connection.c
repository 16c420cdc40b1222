/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-host-connection.c - the streams of the host device share connections as those of CUDA do: a wait that has not
 * ended holds back what was submitted after it on its connection, and nothing else.
 *
 * Work counts as held back if it has not run after other streams have finished many times.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/error.h"
#include "host-harness.h"

/* Runs until its word is set. */
static const char source[] =
	"#include <gpubroker-host.h>\\n"
	"static void spin(const gpub_launch_config *config, void **args) {\\n"
	"	(void)config; while (!__atomic_load_n(*(unsigned long **)args[0], __ATOMIC_ACQUIRE)); }\\n"
	"GPUB_HOST_KERNEL(spin, spin, sizeof(unsigned long *));\\n";

#define STREAMS 40
#define SCANS   50

static void *stream[STREAMS], *elsewhere; /* of device 0; of device 1, which has connections of its own */
static uint64_t *gate, *word; /* what streams wait for; what each writes */

static uint64_t *page_make(void)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED && !madvise(page, PAGE, MADV_DONTFORK));
	CHECK(!device->page_register(page, PAGE, true));
	return page;
}

/* connections: the value in the environment, or NULL. */
static void begin(const char *connections)
{
	if (connections)
		CHECK(!setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1));
	else
		CHECK(!unsetenv("CUDA_DEVICE_MAX_CONNECTIONS"));
	start(false, 2);
	gate = page_make();
	word = page_make();
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(!device->stream_create(0, 0, &stream[i]));
	CHECK(!device->stream_create(1, 0, &elsewhere));
}

static bool is_written(unsigned i)
{
	return __atomic_load_n(&word[i], __ATOMIC_ACQUIRE);
}

static bool is_held(unsigned i)
{
	for (unsigned look = 0; look < SCANS; look++) {
		CHECK(!device->stream_write(elsewhere, &word[STREAMS], 1) && !device->stream_sync(elsewhere));
		if (is_written(i))
			return false;
	}
	return true;
}

static void park(unsigned i)
{
	CHECK(!device->stream_wait(stream[i], &gate[i], 1));
}

static void release(unsigned i)
{
	__atomic_store_n(&gate[i], 1, __ATOMIC_RELEASE);
}

static void write_all(unsigned from)
{
	for (unsigned i = from; i < STREAMS; i++)
		CHECK(!device->stream_write(stream[i], &word[i], 1));
}

/* The first streams wait, and all others write: those on the same connections do not run, the others do. */
static void expect_held(unsigned parked, unsigned connections)
{
	for (unsigned i = 0; i < parked; i++)
		park(i);
	write_all(parked);
	for (unsigned look = 0; look < SCANS; look++)
		for (unsigned i = parked; i < STREAMS; i++) {
			bool held = i % connections < parked;

			CHECK(held || !device->stream_sync(stream[i]));
			CHECK(held != is_written(i));
			CHECK(held || !device->stream_write(stream[i], &word[i], 1));
		}
	for (unsigned i = 0; i < parked; i++)
		release(i);
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(!device->stream_sync(stream[i]) && (i < parked || is_written(i)));
}

static void scenario_one_of_8(void)
{
	begin(NULL);
	expect_held(1, 8);
}

static void scenario_eight_of_8(void)
{
	begin("8");
	expect_held(8, 8);
}

static void scenario_eight_of_32(void)
{
	begin("32");
	expect_held(8, 32);
}

static void scenario_one_of_1(void)
{
	begin("1");
	expect_held(1, 1);
}

static void test_held(void **state)
{
	(void)state;
	expect_clean(scenario_one_of_8);
	expect_clean(scenario_eight_of_8);
	expect_clean(scenario_eight_of_32);
	expect_clean(scenario_one_of_1);
}

/* A value that is no count from 1 to 32 is ignored. */
static void scenario_ignored(void)
{
	begin(getenv("CUDA_DEVICE_MAX_CONNECTIONS"));
	expect_held(1, 8);
}

static void test_values(void **state)
{
	static const char *const none[] = { "", "0", "33", "-1", "8x", " 4", "99999999999999999999", "many" };

	(void)state;
	for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
		assert_int_equal(setenv("CUDA_DEVICE_MAX_CONNECTIONS", none[i], 1), 0);
		expect_clean(scenario_ignored);
	}
	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

/* One connection: what was submitted before the wait runs, and another device has its own connections. */
static void scenario_before(void)
{
	begin("1");
	CHECK(!device->stream_write(stream[1], &word[1], 1));
	park(0);
	CHECK(!device->stream_write(NULL, &word[2], 1));
	CHECK(!device->stream_sync(stream[1]) && is_written(1));
	CHECK(is_held(2));
	release(0);
	CHECK(!device->stream_sync(NULL) && is_written(2));
}

/* A kernel holds back nothing. A wait behind it does, as soon as it is submitted. */
static void scenario_kernel(void)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *module, *kernel, *args[] = { &gate };

	begin("1");
	config.device = 0;
	config.stream = stream[0];
	CHECK(!device->module_load(twins, &module) && !device->module_kernel(module, "spin", &kernel));
	CHECK(!device->module_launch(kernel, &config, args));
	CHECK(!device->stream_write(stream[1], &word[1], 1) && !device->stream_sync(stream[1]));
	CHECK(!device->stream_wait(stream[0], &word[1], 1) && !device->stream_write(stream[2], &word[2], 1));
	CHECK(is_held(2));
	release(0);
	CHECK(!device->stream_sync(stream[2]) && is_written(2) && !device->module_unload(module));
}

/* Waits of one connection end one after the other. */
static void scenario_chain(void)
{
	begin("1");
	park(0);
	park(1);
	CHECK(!device->stream_write(stream[0], &word[0], 1) && !device->stream_write(stream[2], &word[2], 1));
	release(1);
	CHECK(is_held(2));
	release(0);
	CHECK(!device->stream_sync(stream[2]) && !device->stream_sync(stream[0]) && is_written(0));
}

/* As a close waits, also where no stream can be synchronised. */
static void drain(void)
{
	host_gate_close();
	host_gate_drain(0);
	host_gate_open();
}

/* To destroy a stream does not end its wait. */
static void scenario_destroyed(void)
{
	begin("1");
	park(0);
	device->stream_destroy(stream[0]);
	CHECK(!device->stream_write(stream[1], &word[1], 1));
	device->stream_destroy(stream[1]);
	CHECK(!device->stream_write(stream[2], &word[2], 1) && is_held(1));
	release(0);
	drain();
	CHECK(is_written(1) && is_written(2));
}

/* A sticky error ends every wait, and drops what it held back. */
static void scenario_sticky(void)
{
	begin("8");
	for (unsigned i = 0; i < 8; i++)
		park(i);
	write_all(8);
	host_make_sticky();
	drain();
	for (unsigned i = 8; i < STREAMS; i++)
		CHECK(!is_written(i));
}

/* A recorded write is submitted by its replay, not by its capture. */
static void scenario_capture(void)
{
	struct host_graph *graph;

	begin("1");
	CHECK(!host_capture_begin(stream[1]) && !host_capture_write(stream[1], &word[1], 1));
	park(0);
	CHECK(!host_capture_end(stream[1], &graph) && !host_graph_launch(graph, stream[1]));
	CHECK(is_held(1));
	release(0);
	CHECK(!device->stream_sync(stream[1]) && is_written(1));
	host_graph_destroy(graph);
}

static void test_boundaries(void **state)
{
	(void)state;
	expect_clean(scenario_before);
	expect_clean(scenario_kernel);
	expect_clean(scenario_chain);
	expect_clean(scenario_destroyed);
	expect_clean(scenario_sticky);
	expect_clean(scenario_capture);
}

/* Each stream waits for the one before it: each signal is queued before its wait. */
static void scenario_rule_kept(void)
{
	setenv("GPUB_HOST_SEED", "7", 1);
	begin("1");
	for (uint64_t round = 1; round <= 50; round++)
		for (unsigned i = 0; i < STREAMS; i++) {
			CHECK(!i || !device->stream_wait(stream[i], &word[i - 1], round));
			CHECK(!device->stream_write(stream[i], &word[i], round));
		}
	CHECK(!device->stream_sync(stream[STREAMS - 1]) && word[STREAMS - 1] == 50);
}

/* In the other order it is a deadlock: all but the last block what they wait for. */
static void scenario_rule_broken(void)
{
	begin("8");
	for (unsigned i = STREAMS; i--;) {
		CHECK(!i || !device->stream_wait(stream[i], &word[i - 1], 1));
		CHECK(!device->stream_write(stream[i], &word[i], 1));
	}
	CHECK(is_held(0) && is_held(STREAMS - 1));
	for (unsigned i = 0; i < STREAMS; i++)
		__atomic_store_n(&word[i], 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(!device->stream_sync(stream[i]));
}

static void test_rule(void **state)
{
	(void)state;
	expect_clean(scenario_rule_kept);
	expect_clean(scenario_rule_broken);
}

static int set_up(void **state)
{
	(void)state;
	return scenarios_begin(source);
}

static int tear_down(void **state)
{
	(void)state;
	return scenarios_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_boundaries),
		cmocka_unit_test(test_rule),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
