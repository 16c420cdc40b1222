/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-region.c - the host device's registered pages: what ends a registration, and what that waits for. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/error.h"
#include "host-harness.h"

static uint64_t *page_make(void)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED && !madvise(page, PAGE, MADV_DONTFORK));
	CHECK(!device->page_register(page, PAGE, true));
	return page;
}

static void scenario_unregister(void)
{
	uint64_t *page, *other;

	start(false, 1);
	page = page_make();
	other = page_make();
	CHECK(host_pages() == 2);
	CHECK(device->page_unregister(page + 1) == -EINVAL && host_pages() == 2);
	CHECK(!device->page_unregister(page) && host_pages() == 1);
	CHECK(device->page_unregister(page) == -EINVAL);
	CHECK(!device->stream_write(NULL, other, 3) && !device->stream_sync(NULL) && *other == 3);
	/* it may be unmapped, and its address used again */
	CHECK(!munmap(page, PAGE));
	CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
	CHECK(!madvise(page, PAGE, MADV_DONTFORK) && !device->page_register(page, PAGE, true) && host_pages() == 2);
	CHECK(!device->stream_write(NULL, page, 4) && !device->stream_sync(NULL) && *page == 4);
}

static void scenario_failure(void)
{
	uint64_t *page;

	setenv("GPUB_HOST_FAIL", "unregister:1:EIO", 1);
	start(false, 1);
	page = page_make();
	CHECK(device->page_unregister(page) == -EIO && host_pages() == 1);
	CHECK(!device->stream_write(NULL, page, 1) && !device->stream_sync(NULL) && *page == 1);
	CHECK(!device->page_unregister(page));
	page = page_make();
	host_make_sticky();
	CHECK(device->page_unregister(page) == -EIO);
}

/* The word's value when the call returned. */
static void *unregister(void *argument)
{
	uint64_t **pages = argument;

	CHECK(!device->page_unregister(pages[0]));
	return (void *)(uintptr_t)__atomic_load_n(pages[1], __ATOMIC_ACQUIRE);
}

/* It waits for all work of this process, also on another page and another device. */
static void scenario_parked(void)
{
	pthread_t thread;
	uint64_t *pages[2];
	void *stream, *seen;

	start(false, 2);
	for (int round = 0; round < 50; round++) {
		pages[0] = page_make();
		pages[1] = page_make();
		CHECK(!device->stream_create(round % 2, 0, &stream) && !device->stream_wait(stream, pages[1], 1));
		CHECK(!pthread_create(&thread, NULL, unregister, pages));
		CHECK(!device->info(0, &(struct device_info){ 0 }));
		__atomic_store_n(pages[1], 1, __ATOMIC_RELEASE);
		pthread_join(thread, &seen);
		CHECK(seen == (void *)1);
		device->stream_destroy(stream);
	}
	CHECK(host_pages() == 50);
}

static void violate_write(void)
{
	uint64_t *page;

	start(false, 1);
	page = page_make();
	CHECK(!device->page_unregister(page));
	device->stream_write(NULL, page, 1);
}

static void violate_wait(void)
{
	uint64_t *page;

	start(false, 1);
	page = page_make();
	CHECK(!device->page_unregister(page));
	device->stream_wait(NULL, page, 0);
}

/* A graph that was captured before. */
static void violate_replay(void)
{
	struct host_graph *graph;
	uint64_t *page;
	void *stream;

	start(false, 1);
	page = page_make();
	CHECK(!device->stream_create(0, 0, &stream) && !host_capture_begin(stream));
	CHECK(!host_capture_write(stream, page, 1) && !host_capture_end(stream, &graph));
	CHECK(!device->page_unregister(page));
	host_graph_launch(graph, stream);
}

static void test_unregister(void **state)
{
	(void)state;
	expect_clean(scenario_unregister);
	expect_clean(scenario_failure);
	expect_clean(scenario_parked);
}

static void test_use_afterwards(void **state)
{
	(void)state;
	expect_violation(violate_write, "which is in no registered page");
	expect_violation(violate_wait, "which is in no registered page");
	expect_violation(violate_replay, "which is in no registered page");
}

static int begin(void **state)
{
	(void)state;
	return scenarios_begin("");
}

static int end(void **state)
{
	(void)state;
	return scenarios_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unregister),
		cmocka_unit_test(test_use_afterwards),
	};

	return cmocka_run_group_tests_name("host pages", tests, begin, end);
}
