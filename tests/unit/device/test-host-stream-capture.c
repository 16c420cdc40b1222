/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-stream-capture.c - captures of the host device: what is captured runs at each replay and not before. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host-harness.h"

static int twins_build(void **state)
{
	(void)state;
	return scenarios_begin(
		"#include <unistd.h>\\n#include <gpubroker-host.h>\\n"
		"unsigned long counter = 5;\\n"
		"static void add(const gpub_launch_config *config, void **args) {\\n"
		"	int *to = *(int **)args[0]; *to += *(int *)args[1] * (int)config->grid[0]; counter++; }\\n"
		"static void nap(const gpub_launch_config *config, void **args) {\\n"
		"	(void)config; usleep(*(unsigned *)args[0]); counter++; }\\n"
		"static void set(const gpub_launch_config *config, void **args) {\\n"
		"	(void)config; __atomic_store_n(*(int **)args[0], 1, __ATOMIC_RELEASE); }\\n"
		"GPUB_HOST_KERNEL(add, add, sizeof(int *), sizeof(int));\\n"
		"GPUB_HOST_KERNEL(set, set, sizeof(int *));\\n"
		"GPUB_HOST_KERNEL(nap, nap, sizeof(unsigned));\\n");
}

static int twins_remove(void **state)
{
	(void)state;
	return scenarios_end();
}

/* ---- captures ---- */

static void scenario_capture(void)
{
	struct device_word two[2] = { { .value = 1 }, { .value = 2 } };
	struct host_graph *graph;
	uint64_t *page;
	void *module, *stream, *other;
	int sum = 0;

	start(false, 1);
	page = host_page(true);
	two[0].word = two[1].word = &page[2];
	CHECK(!device->module_load(twins, &module) && !device->stream_create(0, 0, &stream));
	CHECK(!device->stream_create(0, 0, &other));
	CHECK(host_capture_begin(NULL) == -EINVAL && host_capture_end(stream, &graph) == -EINVAL);
	CHECK(!host_capture_begin(stream) && host_capture_begin(stream) == -EBUSY);
	CHECK(!twin_launch(twin(module, "add"), stream, 0, &sum, 1));
	CHECK(!host_capture_write(stream, &page[0], 9));
	CHECK(device->stream_write(stream, &page[0], 1) == -EBUSY && device->stream_wait(stream, page, 1) == -EBUSY);
	CHECK(device->stream_write_many(stream, two, 2) == -EBUSY &&
	      device->stream_wait_many(stream, two, 2) == -EBUSY);
	CHECK(device->stream_after(stream, other) == -EBUSY && device->stream_after(other, stream) == -EBUSY);
	CHECK(!device->stream_write(other, &page[1], 1) && !device->stream_sync(other));
	CHECK(!host_capture_end(stream, &graph) && !device->stream_sync(stream) && !sum && !page[0]);
	for (int i = 1; i <= 3; i++) {
		page[0] = 0;
		CHECK(!host_graph_launch(graph, other) && !device->stream_sync(other) && sum == 3 * i && page[0] == 9);
	}
	CHECK(!device->module_unload(module) && host_graph_launch(graph, other) == -EINVAL);
	host_graph_destroy(graph);
	CHECK(!host_capture_begin(stream) && device->stream_sync(stream) == -EBUSY &&
	      !host_capture_end(stream, &graph));
	host_graph_destroy(graph);
	CHECK(!host_capture_begin(stream) && host_capture_sync(stream) == -EBUSY);
	CHECK(host_capture_end(stream, &graph) == -ECANCELED && !device->stream_sync(stream));
	CHECK(!host_capture_begin(stream));
	device->stream_destroy(stream);
}

static void import_capture_close(int in, int out)
{
	struct host_graph *graph;
	void *stream;
	uint8_t *ptr;

	start(false, 2);
	CHECK(!device->stream_create(0, 0, &stream) && !host_capture_begin(stream));
	ptr = import_from(in, 0);
	CHECK(!device->copy(stream, ptr, "captured", 9));
	CHECK(!host_capture_end(stream, &graph) && !ptr[0]);
	CHECK(!host_graph_launch(graph, stream) && !host_capture_begin(stream));
	CHECK(!device->close(0, ptr));
	host_graph_destroy(graph);
	CHECK(!host_capture_end(stream, &graph) && !host_graph_launch(graph, stream));
	host_graph_destroy(graph);
	tell_step(out);
}

static void scenario_capture_close(void)
{
	struct peer peer = peer_start(import_capture_close);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	receive_token(peer.in);
	CHECK(!strcmp((char *)ptr, "captured") && !device->release(0, ptr));
	peer_end(&peer);
}

static void test_captures(void **state)
{
	(void)state;
	expect_clean(scenario_capture);
	expect_clean(scenario_capture_close);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captures),
	};

	return cmocka_run_group_tests_name("host device: captures", tests, twins_build, twins_remove);
}
