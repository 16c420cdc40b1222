/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-fault.c - failures of the host device that a test orders, and errors that stay. */
#include <errno.h>
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

/* ---- faults ---- */

static void scenario_faults(void)
{
	uint8_t *ptr;
	void *other;

	setenv("GPUB_HOST_FAIL", "allocate:2:ENOMEM,zero:1:EIO", 1);
	start(true, 1);
	CHECK(device->allocate(0, BLOCK, EXPORT_IPC, &other) == -ENOMEM &&
	      device->allocate(0, BLOCK, EXPORT_IPC, &other) == -ENOMEM);
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &other));
	CHECK(device->zero(0, other, BLOCK) == -EIO && !device->zero(0, other, BLOCK));
	host_fail_next(HOST_COPY, 1000, EIO);
	CHECK(!host_map_owned(other));
	ptr = other;
	CHECK(device->copy(NULL, ptr, ptr + 1, 1) == -EIO && strstr(error_text(), "injected failure of copy"));
	host_fail_next(HOST_COPY, 0, 0);
	CHECK(!device->copy(NULL, ptr, ptr + 1, 1));
	host_fail_next(HOST_RELEASE, 1, EIO);
	CHECK(device->release(0, other) == -EIO && !device->release(0, other));
}

static void import_fail_close(int in, int out)
{
	uint64_t *page;
	uint8_t *ptr;

	start(false, 2);
	ptr = import_from(in, 0);
	page = host_page(true);
	host_fail_next(HOST_CLOSE, 1, EIO);
	CHECK(device->close(0, ptr) == -EIO && !ptr[0]);
	CHECK(!device->stream_wait(NULL, &page[0], 1) && !device->stream_write(NULL, &page[1], 1));
	host_make_sticky();
	CHECK(device->close(0, ptr) == -EIO && device->stream_sync(NULL) == -EIO && device->count() == -EIO);
	nap_ms(20);
	CHECK(!word_load(&page[1])); /* no work after the error, so nothing that waits for it may free */
	tell_step(out);
}

static void scenario_sticky(void)
{
	struct peer peer = peer_start(import_fail_close);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	receive_token(peer.in);
	peer_end(&peer);
	CHECK(!device->release(0, ptr));
}

static void test_faults(void **state)
{
	(void)state;
	expect_clean(scenario_faults);
	expect_clean(scenario_sticky);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests_name("host device: faults", tests, group_begin, group_end);
}
