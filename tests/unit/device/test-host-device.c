/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-device.c - how the host device starts, which devices it has, and that many threads may use it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
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

/* ---- start, devices, choice ---- */

static void scenario_start(void)
{
	struct device_setup setup = { .host_count = 3 };
	struct device_info one, other;

	CHECK(device->count() == -ENODEV);
	start(false, 3);
	CHECK(!device->start(&setup));
	setup.host_count = 2;
	CHECK(device->start(&setup) == -EINVAL);
	setup.host_count = DEVICE_MAX + 1;
	CHECK(device->start(&setup) == -EINVAL);
	CHECK(device->count() == 3 && host_total() == 3);
	CHECK(!device->info(0, &one) && !device->info(2, &other));
	CHECK(memcmp(one.uuid, other.uuid, 16) && !memcmp(other.uuid, "host device 2", 14));
	CHECK(one.granule == 4096 && one.memory % 4096 == 0 && one.memory > 0);
	CHECK(device->info(3, &one) == -ENODEV && device->info(-1, &one) == -ENODEV);
	CHECK(device->current() == 0 && !device->set_current(2) && device->current() == 2);
	CHECK(device->set_current(3) == -ENODEV && device->current() == 2);
}

static void test_start(void **state)
{
	(void)state;
	expect_clean(scenario_start);
}

static void scenario_visible(void)
{
	struct device_info info;

	setenv("GPUB_HOST_VISIBLE", "2,0,9,1", 1);
	start(false, 3);
	CHECK(device->count() == 2 && host_total() == 3);
	CHECK(!device->info(0, &info) && !strcmp((char *)info.uuid, "host device 2"));
	CHECK(!device->info(1, &info) && !strcmp((char *)info.uuid, "host device 0"));
}

static void scenario_environment(void)
{
	struct device_setup setup = { .owner = true, .host_count = 2 };
	struct device_info info;

	setenv("GPUB_HOST_VISIBLE", "1,1", 1);
	CHECK(device->start(&setup) == -EINVAL);
	setenv("GPUB_HOST_VISIBLE", "-1", 1);
	CHECK(device->start(&setup) == -ENODEV);
	unsetenv("GPUB_HOST_VISIBLE");
	setenv("GPUB_HOST_FAIL", "close:3", 1);
	CHECK(device->start(&setup) == -EINVAL);
	setenv("GPUB_HOST_FAIL", "close:3:EWHAT", 1);
	CHECK(device->start(&setup) == -EINVAL);
	unsetenv("GPUB_HOST_FAIL");
	setenv("GPUB_HOST_MEMORY", "lots", 1);
	CHECK(device->start(&setup) == -EINVAL);
	setenv("GPUB_HOST_QUARANTINE", "little", 1);
	setenv("GPUB_HOST_MEMORY", "3M", 1);
	CHECK(device->start(&setup) == -EINVAL && strstr(error_text(), "GPUB_HOST_QUARANTINE='little'"));
	setenv("GPUB_HOST_QUARANTINE", "0", 1);
	CHECK(!device->start(&setup) && !device->info(1, &info) && info.memory == 3u << 20);
}

static void test_environment(void **state)
{
	(void)state;
	expect_clean(scenario_visible);
	expect_clean(scenario_environment);
}

/* ---- many threads ---- */

static struct device_handle shared_handle;

static void *hammer(void *argument)
{
	uint64_t *word = argument;
	void *stream, *ptr;

	for (uint64_t i = 1; i <= 200; i++) {
		CHECK(!device->open(0, &shared_handle, BLOCK, &ptr));
		CHECK(!device->stream_create(0, 0, &stream));
		CHECK(!device->stream_write(stream, word, i));
		if (i % 3) {
			CHECK(!device->copy(stream, (char *)ptr + (uintptr_t)word % PAGE, "abcdefgh", 8));
			CHECK(!device->stream_sync(stream) && word_load(word));
		}
		device->stream_destroy(stream);
		CHECK(!device->close(0, ptr));
	}
	return NULL;
}

static void import_and_hammer(int in, int out)
{
	pthread_t thread[6];
	uint64_t *page;

	start(false, 2);
	page = host_page(true);
	receive(in, &shared_handle, sizeof shared_handle);
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&thread[i], NULL, hammer, &page[8 * i]));
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
	tell_step(out);
}

static void scenario_threads(void)
{
	struct peer peer = peer_start(import_and_hammer);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	receive_token(peer.in);
	CHECK(!device->release(0, ptr));
	peer_end(&peer);
}

static void test_threads(void **state)
{
	(void)state;
	expect_clean(scenario_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("host device", tests, group_begin, group_end);
}
