/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-cuda-sync.c - cuda-sync.c finds out whether closes wait, with drivers that do, that do not, and that do at times.
 *
 * The driver is a table of functions here. What it waits for when it closes is what a real one would: that the word has the value
 * on which the stream is parked.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda-sync.c"

struct cuda_driver cuda;

static const uint64_t *parked_on;
static uint64_t        parked_for;
static unsigned        parked, opened, closed, waits; /* so many closes wait */
static CUresult        parking, closing;
static int             fake_page, streams;

/* ---- the driver ---- */

static CUresult stream_create(CUstream *stream, unsigned int flags)
{
	(void)flags;
	streams++;
	*stream = (CUstream)&streams;
	return CUDA_SUCCESS;
}

static bool is_released(void)
{
	return __atomic_load_n(parked_on, __ATOMIC_ACQUIRE) >= parked_for;
}

static CUresult stream_synchronize(CUstream stream)
{
	(void)stream;
	while (parked_on && !is_released())
		sched_yield();
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
	(void)stream;
	streams--;
	return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags)
{
	(void)stream;
	(void)flags;
	parked_on = parking ? NULL : (const uint64_t *)(uintptr_t)word;
	parked_for = value;
	parked++;
	return parking;
}

static CUresult close_handle(CUdeviceptr address)
{
	(void)address;
	if (closed++ < waits && parked_on)
		stream_synchronize(NULL);
	return closing;
}

/* ---- what cuda-sync.c stands on ---- */

static int page_register(void *page, size_t size, bool writable)
{
	(void)page;
	(void)size;
	(void)writable;
	return fake_page;
}

static const struct device     fake = { .kind = DEVICE_CUDA, .page_register = page_register };
const struct device *const     device_cuda = &fake;

int cuda_enter(struct cuda_scope *scope, int ordinal)
{
	(void)scope;
	(void)ordinal;
	return 0;
}

void cuda_leave(struct cuda_scope *scope)
{
	(void)scope;
}

int cuda_check_ordinal(int ordinal)
{
	return ordinal ? -ENODEV : 0;
}

int cuda_error(CUresult result, const char *format, ...)
{
	(void)format;
	return result == CUDA_SUCCESS ? 0 : error_set(-EIO, "it failed");
}

int cuda_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	*ptr = &opened;
	opened++;
	return 0;
}

int cuda_close(int ordinal, void *ptr)
{
	(void)ordinal;
	return (int)cuda.IpcCloseMemHandle(cuda_address(ptr));
}

/* ---- tests ---- */

static int setup(void **state)
{
	(void)state;
	cuda.StreamCreate = stream_create;
	cuda.StreamSynchronize = stream_synchronize;
	cuda.StreamDestroy = stream_destroy;
	cuda.StreamWaitValue64 = stream_wait;
	cuda.IpcCloseMemHandle = close_handle;
	atomic_store(&verdicts[0], UNKNOWN);
	parked_on = NULL;
	parked = opened = closed = 0;
	parking = closing = CUDA_SUCCESS;
	fake_page = 0;
	return 0;
}

static int sync_with(unsigned waiting)
{
	static const struct device_handle handle;

	waits = waiting;
	return cuda_sync(0, &handle, 1);
}

static void test_closes_that_wait(void **state)
{
	(void)state;
	assert_int_equal(sync_with(1000), 0);
	assert_int_equal(parked, WAITS);
	assert_int_equal(opened, WAITS + 1);
	assert_int_equal(closed, opened);
	assert_false(cuda_closes_return(0));
	assert_int_equal(sync_with(1000), 0); /* once is enough */
	assert_int_equal(parked, WAITS);
	assert_int_equal(streams, 0);
}

static void test_closes_that_do_not(void **state)
{
	(void)state;
	assert_int_equal(sync_with(0), -ENOTSUP);
	assert_int_equal(parked, 1);
	assert_int_equal(closed, opened);
	assert_true(cuda_closes_return(0));
	assert_int_equal(sync_with(1000), -ENOTSUP); /* for good */
	assert_int_equal(closed, opened);
	assert_int_equal(streams, 0);
}

static void test_closes_that_do_at_times(void **state)
{
	(void)state;
	assert_int_equal(sync_with(WAITS - 1), -ENOTSUP);
	assert_int_equal(parked, WAITS);
	assert_true(cuda_closes_return(0));
}

/* No verdict: it is tried again the next time. */
static void test_a_trial_that_fails(void **state)
{
	(void)state;
	parking = CUDA_ERROR_UNKNOWN;
	assert_int_equal(sync_with(1000), -EIO);
	assert_int_equal(closed, opened);
	assert_false(cuda_closes_return(0));
	parking = CUDA_SUCCESS;
	closing = CUDA_ERROR_UNKNOWN;
	assert_int_equal(sync_with(1000), -EIO);
	closing = CUDA_SUCCESS;
	closed = opened = 0;
	assert_int_equal(sync_with(1000), 0);
	assert_int_equal(closed, opened);
	assert_int_equal(streams, 0);
}

static void test_last_closes_are_tried(void **state)
{
	(void)state;
	waits = 1;
	assert_int_equal(cuda_close_tried(0, &opened), 0);
	assert_int_equal(cuda_close_tried(0, &opened), -EIO);
	assert_int_equal(parked, 2);
	assert_int_equal(streams, 0);
}

static void test_a_device_that_is_not_there(void **state)
{
	static const struct device_handle handle;

	(void)state;
	assert_int_equal(cuda_sync(1, &handle, 1), -ENODEV);
}

/* First: then there is no page yet. */
static void test_no_page(void **state)
{
	(void)state;
	fake_page = -EIO;
	assert_int_equal(sync_with(1000), -EIO);
	assert_int_equal(parked, 0);
	assert_int_equal(closed, opened);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_no_page, setup),
		cmocka_unit_test_setup(test_closes_that_wait, setup),
		cmocka_unit_test_setup(test_closes_that_do_not, setup),
		cmocka_unit_test_setup(test_closes_that_do_at_times, setup),
		cmocka_unit_test_setup(test_a_trial_that_fails, setup),
		cmocka_unit_test_setup(test_last_closes_are_tried, setup),
		cmocka_unit_test_setup(test_a_device_that_is_not_there, setup),
	};

	alarm(60);
	return cmocka_run_group_tests_name("cuda-sync", tests, NULL, NULL);
}
