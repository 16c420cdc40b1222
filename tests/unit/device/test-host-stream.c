/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-stream.c - streams of the host device keep CUDA's rules, and a close waits for what is queued. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host-harness.h"

static int group_begin(void **state)
{
	(void)state;
	return scenarios_begin("");
}

static int group_end(void **state)
{
	(void)state;
	return scenarios_end();
}

/* ---- streams ---- */

/* Each stream of two devices waits for two words at once; the other one comes behind it. */
static void scenario_order(void)
{
	struct device_word waits[2] = { { .value = 1 }, { .value = 1 } },
			   writes[2] = { { .value = 5 }, { .value = 6 } };
	uint64_t *page;
	void *one, *two;

	start(false, 2);
	page = host_page(true);
	waits[0].word = &page[0], waits[1].word = &page[1], writes[0].word = &page[2], writes[1].word = &page[3];
	CHECK(!device->stream_create(0, 0, &one) && !device->stream_create(1, -5, &two));
	CHECK(!device->stream_wait_many(one, waits, 2) && !device->stream_after(two, one));
	CHECK(!device->stream_write_many(two, writes, 2));
	CHECK(!device->stream_write(NULL, &page[1], 1) && !device->stream_sync(NULL));
	nap_ms(30);
	CHECK(!word_load(&page[2]) && !word_load(&page[3]));
	CHECK(!device->stream_write(NULL, &page[0], 1));
	CHECK(!device->stream_sync(two) && word_load(&page[2]) == 5 && word_load(&page[3]) == 6);
	/* a stream that is destroyed still does what another one waits for */
	CHECK(!device->stream_wait(one, &page[4], 1) && !device->stream_after(two, one) &&
	      !device->stream_write(two, &page[5], 1));
	device->stream_destroy(one);
	CHECK(device->stream_after(two, one) == -EINVAL && device->stream_after(one, two) == -EINVAL);
	nap_ms(30);
	CHECK(!word_load(&page[5]));
	CHECK(!device->stream_write(NULL, &page[4], 1) && !device->stream_sync(two) && word_load(&page[5]));
	CHECK(!device->stream_after(two, two) && !device->stream_after(NULL, two) && !device->stream_sync(NULL));
}

static void scenario_streams(void)
{
	uint64_t *page, data = 41, seen = 0;
	void *one, *two;

	start(false, 2);
	page = host_page(true);
	CHECK(!device->stream_create(0, 0, &one) && !device->stream_create(1, 0, &two));
	CHECK(!device->stream_wait(one, &page[0], 7));
	CHECK(!device->stream_write(one, &page[1], 1));
	CHECK(!device->copy(one, &seen, &data, sizeof data));
	nap_ms(30);
	CHECK(!word_load(&page[1]) && data == 41);
	CHECK(!device->stream_write(two, &page[0], 8));
	CHECK(!device->stream_sync(one) && word_load(&page[1]) == 1 && seen == 41);
	/* Signed and cyclic: INT64_MAX releases, UINT64_MAX is behind 1. A plain store, without a wake, is enough. */
	CHECK(!device->stream_wait(one, &page[2], 1) && !device->stream_write(one, &page[3], 1));
	__atomic_store_n(&page[2], UINT64_MAX, __ATOMIC_RELEASE);
	nap_ms(30);
	CHECK(!word_load(&page[3]));
	__atomic_store_n(&page[2], INT64_MAX, __ATOMIC_RELEASE);
	CHECK(!device->stream_sync(one) && word_load(&page[3]));
	/* the default stream: not ordered with others */
	CHECK(!device->stream_wait(one, &page[4], 1) && !device->stream_write(NULL, &page[5], 1));
	CHECK(!device->stream_sync(NULL) && word_load(&page[5]));
	/* destroy does not wait, and what was queued still runs */
	CHECK(!device->stream_write(one, &page[6], 1));
	device->stream_destroy(one);
	CHECK(device->stream_sync(one) == -EINVAL && device->stream_write(one, page, 1) == -EINVAL);
	CHECK(!word_load(&page[6]));
	CHECK(!device->stream_write(two, &page[4], 1));
	while (!word_load(&page[6]))
		nap_ms(1);
	CHECK(device->stream_write(&page, page, 1) == -EINVAL);
	CHECK(device->stream_write(two, (uint64_t *)((char *)page + 4), 1) == -EINVAL);
	device->stream_destroy(NULL);
	device->stream_destroy(two);
	device->stream_destroy(two);
}

static void *parked_writer(void *argument)
{
	uint64_t *page = argument;

	nap_ms(20);
	__atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A reader may have the page read-only: a waiter needs no write right, and the futex works on it. */
static void scenario_wait_read_only(void)
{
	int fd = memfd_create("timeline", MFD_CLOEXEC);
	uint64_t *write, *read;
	pthread_t thread;

	CHECK(fd >= 0 && !ftruncate(fd, PAGE));
	write = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	read = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(write != MAP_FAILED && read != MAP_FAILED && !madvise(read, PAGE, MADV_DONTFORK));
	start(false, 1);
	CHECK(!device->page_register(read, PAGE, false));
	CHECK(device->page_register(read, PAGE, false) == -EEXIST);
	CHECK(!device->stream_wait(NULL, read, 1));
	CHECK(!pthread_create(&thread, NULL, parked_writer, write));
	CHECK(!device->stream_sync(NULL));
	pthread_join(thread, NULL);
}

static void scenario_seed(void)
{
	uint64_t *page;
	void *stream[8];

	setenv("GPUB_HOST_SEED", "42", 1);
	start(false, 1);
	page = host_page(true);
	for (int i = 0; i < 8; i++)
		CHECK(!device->stream_create(0, 0, &stream[i]));
	for (uint64_t round = 1; round <= 100; round++)
		for (int i = 0; i < 8; i++)
			CHECK(!device->stream_write(stream[i], &page[i], round));
	for (int i = 0; i < 8; i++) {
		CHECK(!device->stream_sync(stream[i]) && word_load(&page[i]) == 100);
		device->stream_destroy(stream[i]);
	}
}

static void test_streams(void **state)
{
	(void)state;
	expect_clean(scenario_streams);
	expect_clean(scenario_wait_read_only);
	expect_clean(scenario_seed);
	expect_clean(scenario_order);
}

static void violate_write_unregistered(void)
{
	static uint64_t word;

	start(false, 1);
	device->stream_write(NULL, &word, 1);
}

static void violate_wait_unregistered(void)
{
	static uint64_t word;

	start(false, 1);
	device->stream_wait(NULL, &word, 1);
}

static void violate_write_read_only(void)
{
	start(false, 1);
	device->stream_write(NULL, host_page(false), 1);
}

static void violate_page_private(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	start(false, 1);
	CHECK(!madvise(page, PAGE, MADV_DONTFORK));
	device->page_register(page, PAGE, true);
}

static void violate_page_forked(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	start(false, 1);
	device->page_register(page, PAGE, true);
}

static void violate_copy_across(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	char data[16] = "";

	CHECK(device->copy(NULL, ptr + BLOCK - 8, data, sizeof data) == -EINVAL);
	CHECK(!device->copy(NULL, ptr + BLOCK - 16, data, sizeof data) && !device->stream_sync(NULL));
	CHECK(!device->set_current(1));
	device->copy(NULL, data, ptr + 1, sizeof data);
}

static void violate_copy_released(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	char data[16];

	CHECK(!device->release(0, ptr));
	device->copy(NULL, data, ptr, sizeof data);
}

static void test_stream_violations(void **state)
{
	(void)state;
	expect_violation(violate_write_unregistered, "no registered page");
	expect_violation(violate_wait_unregistered, "no registered page");
	expect_violation(violate_write_read_only, "read-only");
	expect_violation(violate_page_private, "not MAP_SHARED");
	expect_violation(violate_page_forked, "not MADV_DONTFORK");
	expect_violation(violate_copy_across, "is of device 0");
	expect_violation(violate_copy_released, "was released");
}

/* ---- what hurts ---- */

static void *late_launcher(void *argument)
{
	uint64_t *page = argument;

	nap_ms(60); /* the close is under way */
	CHECK(!device->stream_write(NULL, &page[1], 1));
	CHECK(word_load(&page[0]) == 1); /* it got through only behind the close, which waited for this */
	return NULL;
}

static void *late_releaser(void *argument)
{
	uint64_t *page = argument;

	nap_ms(200);
	__atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
	return NULL;
}

static unsigned opens_left; /* of the handle, behind the close */

static void import_and_close_slowly(int in, int out)
{
	struct device_handle handle;
	pthread_t launcher, releaser;
	uint64_t *page;
	double before;
	void *stream, *elsewhere, *ptr;

	start(false, 2);
	receive(in, &handle, sizeof handle);
	for (unsigned i = 0; i <= opens_left; i++)
		CHECK(!device->open(0, &handle, BLOCK, &ptr));
	page = host_page(true);
	CHECK(!device->stream_create(0, 0, &stream) && !device->stream_wait(stream, &page[0], 1));
	/* another device is another context, which no close waits for: this ends behind it */
	CHECK(!device->stream_create(1, 0, &elsewhere) && !device->stream_wait(elsewhere, &page[2], 1));
	CHECK(!pthread_create(&launcher, NULL, late_launcher, page));
	before = now_ms();
	CHECK(!pthread_create(&releaser, NULL, late_releaser, page));
	CHECK(!device->close(0, ptr) && now_ms() - before >= 190);
	CHECK(word_load(&page[0]) == 1);
	pthread_join(launcher, NULL);
	pthread_join(releaser, NULL);
	CHECK(!device->stream_sync(NULL) && word_load(&page[1]));
	__atomic_store_n(&page[2], 1, __ATOMIC_RELEASE);
	CHECK(!device->stream_sync(elsewhere));
	for (unsigned i = 0; i < opens_left; i++)
		CHECK(!device->close(0, ptr));
	CHECK(device->close(0, ptr) == -EINVAL);
	tell_step(out);
}

static void scenario_close_waits(void)
{
	struct peer peer = peer_start(import_and_close_slowly);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	receive_token(peer.in);
	CHECK(!device->release(0, ptr));
	peer_end(&peer);
}

static void test_close_waits(void **state)
{
	(void)state;
	for (opens_left = 0; opens_left < 2; opens_left++)
		expect_clean(scenario_close_waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_stream_violations),
		cmocka_unit_test(test_close_waits),
	};

	return cmocka_run_group_tests_name("host device: streams", tests, group_begin, group_end);
}
