/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-cuda-sync.c - cuda-sync.c finds out whether closes, and ends of registrations, wait, with drivers whose always
 * do, never do, or sometimes do.
 *
 * The driver is a table of functions in this file. As a real one, a close waits until the word has the value that the
 * blocked stream waits for.
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
static unsigned        parked, opened, closed, waits; /* how many closes wait */
static CUresult        parking, closing;
static int             fake_page, streams;
static unsigned        unmapped;
static unsigned        last_waits; /* only the last close of the handle waits */

/* ---- a reset during a call ---- */

enum moment { NOWHERE = 0, IN_CREATE, IN_PARK, IN_CLOSE, IN_SYNCHRONIZE, IN_OPEN, MOMENTS };

static enum moment         reset_in;
static unsigned long long context = 1, stream_context;
static unsigned           dead_streams; /* uses of a stream from before the reset: the driver may crash */
static int                now_open;

/* Releases what waits first, as a reset does. */
static void moment(enum moment where)
{
	if (where != reset_in)
		return;
	reset_in = NOWHERE;
	context++;
	now_open = 0;
	streams = 0;
	parked_on = NULL;
}

static void stream_use(void)
{
	dead_streams += stream_context != context;
}

static CUresult context_get_id(CUcontext unused, unsigned long long *id)
{
	(void)unused;
	*id = context;
	return CUDA_SUCCESS;
}

/* ---- the driver ---- */

static CUresult stream_create(CUstream *stream, unsigned int flags)
{
	(void)flags;
	streams++;
	stream_context = context;
	*stream = (CUstream)&streams;
	moment(IN_CREATE);
	return CUDA_SUCCESS;
}

static bool is_released(void)
{
	return __atomic_load_n(parked_on, __ATOMIC_ACQUIRE) >= parked_for;
}

static CUresult stream_synchronize(CUstream stream)
{
	(void)stream;
	stream_use();
	moment(IN_SYNCHRONIZE);
	while (parked_on && !is_released())
		sched_yield();
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
	(void)stream;
	stream_use();
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
	stream_use();
	moment(IN_PARK);
	return parking;
}

static bool close_waits(void)
{
	return last_waits ? !now_open : closed < waits;
}

static CUresult close_handle(CUdeviceptr address)
{
	(void)address;
	moment(IN_CLOSE);
	now_open -= now_open > 0;
	while (close_waits() && parked_on && !is_released())
		sched_yield();
	closed++;
	return closing;
}

static CUresult host_register(void *page, size_t size, unsigned int flags)
{
	(void)page, (void)size, (void)flags;
	opened++;
	now_open++;
	moment(IN_OPEN);
	return CUDA_SUCCESS;
}

static CUresult host_unregister(void *page)
{
	return close_handle(cuda_address(page));
}

/* ---- what cuda-sync.c stands on ---- */

int cuda_page_register(void *page, size_t size, bool writable)
{
	(void)page;
	(void)size;
	(void)writable;
	return fake_page;
}

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

bool cuda_vmm_has(const void *base)
{
	return base == &unmapped;
}

int cuda_vmm_unmap(int ordinal, void *base)
{
	(void)ordinal, (void)base;
	unmapped++;
	return 0;
}

int cuda_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	*ptr = &opened;
	opened++;
	now_open++;
	moment(IN_OPEN);
	return 0;
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
	cuda.MemHostRegister = host_register;
	cuda.MemHostUnregister = host_unregister;
	cuda.CtxGetId = context_get_id;
	atomic_store(&verdicts[EXPORT_IPC][0], UNKNOWN);
	atomic_store(&verdicts[EXPORT_VMM][0], UNKNOWN);
	unmapped = 0;
	parked_on = NULL;
	parked = opened = closed = 0;
	parking = closing = CUDA_SUCCESS;
	fake_page = now_open = 0;
	last_waits = dead_streams = 0;
	reset_in = NOWHERE;
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
	assert_int_equal(opened, 1 + WAITS + 1); /* one stays open, so that no close is the last */
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
	assert_int_equal(sync_with(1000), -ENOTSUP); /* the verdict stays */
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

/* Without a verdict it tries again the next time. */
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
	assert_int_equal(close_tried(0, &opened), 0);
	assert_int_equal(close_tried(0, &opened), -EIO);
	assert_int_equal(parked, 2);
	assert_int_equal(streams, 0);
}

/* Nothing else has the handle open: a reset has closed it, and nobody has noticed yet. */
static void test_no_last_close_is_tried(void **state)
{
	(void)state;
	last_waits = 1;
	assert_int_equal(sync_with(0), -ENOTSUP);
	assert_true(cuda_closes_return(0));
	assert_int_equal(now_open, 0);
}

/* A reset during a trial: nothing from before it is used, the trial has no verdict, and the next trial has one. */
static void test_a_reset_in_a_trial(void **state)
{
	(void)state;
	for (enum moment where = IN_CREATE; where < MOMENTS; where++) {
		setup(NULL);
		reset_in = where;
		assert_int_equal(sync_with(1000), -EIO);
		assert_int_equal(reset_in, NOWHERE);
		assert_int_equal(dead_streams, 0);
		assert_int_equal(atomic_load(&verdicts[EXPORT_IPC][0]), UNKNOWN);
		assert_int_equal(closed, opened);
		assert_int_equal(now_open, 0);
		assert_int_equal(sync_with(1000), 0);
		assert_false(cuda_closes_return(0));
		setup(NULL);
		reset_in = where;
		assert_int_equal(sync_with(0), -EIO);
		assert_int_equal(atomic_load(&verdicts[EXPORT_IPC][0]), UNKNOWN);
	}
}

/* Nor does it show that a last close does not wait: the caller notices the reset, and takes the mapping for closed. */
static void test_a_reset_in_a_last_close(void **state)
{
	(void)state;
	for (enum moment where = IN_CREATE; where < IN_OPEN; where++) {
		setup(NULL);
		reset_in = where;
		waits = 1000;
		now_open = 1;
		assert_int_equal(close_tried(0, &opened), -EIO);
		assert_int_equal(dead_streams, 0);
		assert_int_equal(closed, 1);
	}
}

/* ---- memory that was opened by a descriptor ---- */

static int close_with(unsigned waiting)
{
	waits = waiting;
	return cuda_close(0, &unmapped);
}

/* Its close is an end of a registration that waits, then an unmap; the trial is of such ends. */
static void test_a_close_by_descriptor(void **state)
{
	(void)state;
	assert_int_equal(close_with(1000), 0);
	assert_int_equal(parked, WAITS);
	assert_int_equal(opened, WAITS + 1);
	assert_int_equal(closed, opened);
	assert_int_equal(unmapped, 1);
	assert_int_equal(close_with(1000), 0); /* once is enough */
	assert_int_equal(parked, WAITS);
	assert_int_equal(unmapped, 2);
	assert_int_equal(atomic_load(&verdicts[EXPORT_IPC][0]), UNKNOWN);
}

/* Invariant 2: what nothing can prove to be done is not unmapped. */
static void test_no_close_by_descriptor_without_a_wait(void **state)
{
	(void)state;
	assert_int_equal(close_with(0), -ENOTSUP);
	assert_int_equal(close_with(1000), -ENOTSUP); /* the verdict stays */
	assert_int_equal(unmapped, 0);
	assert_int_equal(closed, opened);
	assert_int_equal(streams, 0);
	assert_int_equal(sync_with(1000), 0); /* handles have a verdict of their own */
}

static void test_a_reset_in_a_trial_by_descriptor(void **state)
{
	(void)state;
	for (enum moment where = IN_CREATE; where < MOMENTS; where++) {
		setup(NULL);
		reset_in = where;
		assert_int_equal(close_with(1000), -EIO);
		assert_int_equal(dead_streams, 0);
		assert_int_equal(unmapped, 0);
		assert_int_equal(atomic_load(&verdicts[EXPORT_VMM][0]), UNKNOWN);
		assert_int_equal(close_with(1000), 0);
		assert_int_equal(unmapped, 1);
	}
}

static void test_a_device_that_is_not_there(void **state)
{
	static const struct device_handle handle;

	(void)state;
	assert_int_equal(cuda_sync(1, &handle, 1), -ENODEV);
}

/* The first test, because later there is a page. */
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
		cmocka_unit_test_setup(test_no_last_close_is_tried, setup),
		cmocka_unit_test_setup(test_a_reset_in_a_trial, setup),
		cmocka_unit_test_setup(test_a_reset_in_a_last_close, setup),
		cmocka_unit_test_setup(test_a_close_by_descriptor, setup),
		cmocka_unit_test_setup(test_no_close_by_descriptor_without_a_wait, setup),
		cmocka_unit_test_setup(test_a_reset_in_a_trial_by_descriptor, setup),
		cmocka_unit_test_setup(test_a_device_that_is_not_there, setup),
	};

	alarm(60);
	return cmocka_run_group_tests_name("cuda-sync", tests, NULL, NULL);
}
