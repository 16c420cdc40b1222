/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-cuda-driver.c - how the CUDA device finds and starts its driver, and what it says when it cannot. The driver is
 * the fake one.
 *
 * After a successful start the process cannot start it again, so the tests of failures come first.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "device/cuda.h"
#include "device/select.h"
#include "tests/fake-cuda/fake-cuda.h"
#include "tests/fake-cuda/inner.h"

static const struct device_setup client = { .owner = false, .host_count = 1 };

/* What start() returns under these orders. Every failure has a message. */
static int start_under(const char *orders)
{
	int rc;

	error_set(0, "nothing was said");
	fake_cuda_order(orders);
	rc = device_cuda->start(&client);
	assert_true(rc <= 0);
	assert_int_equal(rc == 0, !strcmp(error_text(), "nothing was said"));
	return rc;
}

static void assert_said(const char *part)
{
	if (!strstr(error_text(), part))
		fail_msg("'%s' does not say '%s'", error_text(), part);
}

/*
 * Every result that the two calls of a start may return: newer drivers have results that the headers do not know. None
 * is -EAGAIN, by which the client's functions tell an acquire to ask the broker again, at once and without end.
 */
static void test_only_no_device_is_enodev(void **state)
{
	char orders[64];

	(void)state;
	for (int result = 1; result <= 1000; result++) {
		snprintf(orders, sizeof orders, "cuInit=%d", result);
		assert_int_equal(start_under(orders) == -ENODEV, result == CUDA_ERROR_NO_DEVICE);
		assert_int_not_equal(start_under(orders), -EAGAIN);
		snprintf(orders, sizeof orders, "cuDeviceGetCount=%d", result);
		assert_int_equal(start_under(orders) == -ENODEV, result == CUDA_ERROR_NO_DEVICE);
	}
	assert_int_equal(start_under("devices=0"), -ENODEV);
}

static void test_what_is_broken_is_named(void **state)
{
	(void)state;
	assert_int_equal(start_under("cuInit=802"), -EIO);
	assert_said("CUDA_ERROR_SYSTEM_NOT_READY");
	assert_said("nvidia-fabricmanager");
	assert_int_equal(start_under("cuInit=803"), -EIO);
	assert_said("different versions");
	assert_int_equal(start_under("cuInit=304"), -EIO);
	assert_said("/dev/nvidia");
	assert_int_equal(start_under("cuInit=999"), -EIO);
	assert_said("CUDA_ERROR_UNKNOWN");
	assert_int_equal(start_under("cuInit=34"), -EIO);
	assert_said("stub");
	assert_int_equal(start_under("cuInit=46"), -EIO);
	assert_said("exclusive");
	assert_int_equal(start_under("cuInit=101"), -EIO);
	assert_said("CUDA_VISIBLE_DEVICES");
	assert_int_equal(start_under("cuInit=987"), -EIO);
	assert_said("nvidia-smi");
	assert_int_equal(start_under("cuInit=807"), -EBUSY); /* MPS restarts: try again */
}

static void test_auto_takes_host_for_no_device_alone(void **state)
{
	const struct device *chosen = NULL;

	(void)state;
	fake_cuda_order("cuInit=802");
	assert_int_equal(device_select("auto", false, &chosen), -EIO);
	assert_null(chosen);
	fake_cuda_order("cuInit=100");
	assert_int_equal(device_select("cuda", false, &chosen), -ENODEV);
	assert_null(chosen);
	assert_int_equal(device_select("auto", false, &chosen), 0);
	assert_ptr_equal(chosen, &device_host);
	assert_said("CUDA shows no device"); /* the reason, for the caller's message */
}

static void test_too_old_is_told_with_the_minimum(void **state)
{
	int version = -1;

	(void)state;
	assert_int_equal(start_under("version=11080"), -ENOTSUP);
	assert_said("supports CUDA 11.8");
	assert_said("needs 12.0");
	assert_said("525.60.13");
	assert_int_equal(device_cuda->driver(&version), -ENOTSUP);
	assert_int_equal(version, -1);
	assert_int_equal(start_under("version=11080 cuInit=802"), -ENOTSUP);
	fake_cuda_order("version=12080");
	assert_int_equal(device_cuda->driver(&version), 0);
	assert_int_equal(version, 12080);
}

static void test_a_stub_is_told_before_it_is_used(void **state)
{
	unsigned inits = fake_cuda_calls("cuInit");

	(void)state;
	assert_int_equal(start_under("cuDriverGetVersion=34 cuGetProcAddress_v2=34"), -EIO);
	assert_said("stub");
	assert_said("libcuda.so.1");
	assert_said("LD_LIBRARY_PATH");
	assert_int_equal(start_under("cuDriverGetVersion=999"), -EIO);
	assert_said("999");
	assert_int_equal(fake_cuda_calls("cuInit"), inits);
}

/* A driver that has the version but not the functions is damaged: none of its functions is called. */
static void test_each_function_is_needed(void **state)
{
	static const char *const needed[] = {
#define NAME(name, version) "cu" #name,
		CUDA_FUNCTIONS(NAME)
#undef NAME
	};
	unsigned inits = fake_cuda_calls("cuInit");
	char     orders[96];

	(void)state;
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		snprintf(orders, sizeof orders, "missing=%s", needed[i]);
		assert_int_equal(start_under(orders), -EIO);
		assert_said(needed[i]);
		assert_said("libcuda.so.1");
	}
	assert_int_equal(fake_cuda_calls("cuInit"), inits);
}

/* compute-sanitizer counts a request for an unknown function as an error of the program. */
static void test_an_old_driver_is_not_asked_for_what_is_newer(void **state)
{
#define ONE(name, version) +1
	const unsigned needed = 0 CUDA_FUNCTIONS(ONE), optional = 0 CUDA_OPTIONAL(ONE);
#undef ONE
	unsigned asked = fake_cuda_calls("cuGetProcAddress_v2");

	(void)state;
	assert_int_equal(start_under("version=12000 cuInit=999"), -EIO);
	assert_int_equal(fake_cuda_calls("cuGetProcAddress_v2"), asked + needed);
	assert_int_equal(start_under("version=99000 cuInit=999"), -EIO);
	assert_int_equal(fake_cuda_calls("cuGetProcAddress_v2"), asked + needed + needed + optional);
}

/* ---- from here on it is started ---- */

/* Without the functions that an older driver does not have. */
static void test_it_starts_once(void **state)
{
#define MISSING(name, version) " missing=cu" #name
	static const char orders[] = "devices=2 version=13000" CUDA_OPTIONAL(MISSING);
#undef MISSING
	unsigned inits = fake_cuda_calls("cuInit");

	(void)state;
	assert_int_equal(start_under(orders), 0);
	assert_int_equal(start_under("devices=2 cuInit=999"), 0);
	assert_int_equal(fake_cuda_calls("cuInit"), inits + 1);
	assert_int_equal(device_cuda->count(), 2);
}

static void test_it_tells_of_its_devices(void **state)
{
	struct device_info one, two;
	uint64_t           room = 0;

	(void)state;
	fake_cuda_order("devices=2 memory=64");
	assert_int_equal(device_cuda->info(0, &one), 0);
	assert_int_equal(device_cuda->info(1, &two), 0);
	assert_memory_not_equal(one.uuid, two.uuid, sizeof one.uuid);
	assert_int_equal(two.memory, 64u << 20);
	assert_int_equal(device_cuda->info(2, &two), -ENODEV);
	assert_int_equal(device_cuda->room(1, &room), 0);
	assert_int_equal(room, 64u << 20);
}

/* Invariant 11: context and capture mode are restored, also where a call fails in between. */
static void test_no_context_is_left_behind(void **state)
{
	CUcontext           context = (CUcontext)1;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	uint64_t            room = 7;

	(void)state;
	fake_cuda_order("devices=2 cuMemGetInfo=999*1");
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(device_cuda->room(1, &room), -EIO);
	assert_int_equal(room, 7);
	assert_int_equal(device_cuda->room(1, &room), 0);
	assert_int_equal(cuda.CtxGetCurrent(&context), CUDA_SUCCESS);
	assert_null(context);
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

/* Invariant 11: a thread whose context was reset disturbs no capture of another thread on another device. */
static void test_relaxed_mode_behind_a_reset(void **state)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	struct cuda_scope   scope = { 0 };

	(void)state;
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	fake_cuda_order("devices=2 cuThreadExchangeStreamCaptureMode=709*1"); /* CUDA_ERROR_CONTEXT_IS_DESTROYED */
	assert_int_equal(cuda_enter(&scope, 1), 0);
	mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	cuda_leave(&scope);
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static __typeof__(cuda.MemHostRegister) register_before;
static CUstreamCaptureMode              registered_in;

static CUresult register_seen(void *page, size_t size, unsigned int flags)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cuda.ThreadExchangeStreamCaptureMode(&mode);
	registered_in = mode;
	(void)cuda.ThreadExchangeStreamCaptureMode(&mode);
	return register_before(page, size, flags);
}

/* Pages are registered again in relaxed mode: in another mode that would end a global capture. */
static void test_pages_are_renewed_in_relaxed_mode(void **state)
{
	static uint64_t     page[512] __attribute__((aligned(4096)));
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUcontext           primary;

	(void)state;
	fake_cuda_order("devices=2");
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(device_cuda->set_current(0), 0);
	assert_int_equal(device_cuda->page_register(page, sizeof page, true), 0);
	assert_int_equal(cuda.DevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
	primary->id += 1000; /* as by a reset */
	register_before = cuda.MemHostRegister;
	cuda.MemHostRegister = register_seen;
	assert_int_equal(cuda.MemHostUnregister(page), CUDA_SUCCESS);
	fake_cuda_order("devices=2 cuThreadExchangeStreamCaptureMode=709*1");
	assert_true(device_cuda->epoch(0) > 1000);
	cuda.MemHostRegister = register_before;
	assert_int_equal(registered_in, CU_STREAM_CAPTURE_MODE_RELAXED);
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	assert_int_equal(cuda.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(device_cuda->page_unregister(page), 0);
}

/* Its address may belong to another mapping by then. A page that stays registered is registered again. */
static void test_an_unregistered_page_is_not_renewed(void **state)
{
	static uint64_t pages[2][512] __attribute__((aligned(4096)));
	CUcontext       primary;
	unsigned        before;

	(void)state;
	fake_cuda_order("devices=2");
	assert_int_equal(device_cuda->set_current(0), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(device_cuda->page_register(pages[i], sizeof pages[i], true), 0);
	assert_int_equal(device_cuda->page_unregister(pages[0]), 0);
	assert_int_equal(device_cuda->page_unregister(pages[0]), -EINVAL);
	assert_int_equal(cuda.DevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
	primary->id += 1000; /* as by a reset */
	assert_int_equal(cuda.MemHostUnregister(pages[1]), CUDA_SUCCESS);
	before = fake_cuda_calls("cuMemHostRegister");
	assert_true(device_cuda->epoch(0) > 1000);
	assert_int_equal(fake_cuda_calls("cuMemHostRegister") - before, 1);
	assert_int_equal(device_cuda->page_unregister(pages[1]), 0);
}

static int mallocs_left = -1; /* how many calls of malloc() succeed before one fails; -1: all succeed */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
	return mallocs_left < 0 || mallocs_left-- ? __real_malloc(size) : NULL;
}

/* The record of a page is all that it needs. A library that ends the process for want of memory would end this one. */
static void test_a_page_that_has_no_memory_is_refused(void **state)
{
	static uint64_t page[512] __attribute__((aligned(4096)));
	unsigned before = fake_cuda_calls("cuMemHostRegister");

	(void)state;
	fake_cuda_order("devices=2");
	assert_int_equal(device_cuda->set_current(0), 0);
	mallocs_left = 0;
	assert_int_equal(device_cuda->page_register(page, sizeof page, true), -ENOMEM);
	assert_int_equal(fake_cuda_calls("cuMemHostRegister"), before);
	mallocs_left = 1;
	assert_int_equal(device_cuda->page_register(page, sizeof page, true), 0);
	assert_int_equal(mallocs_left, 0);
	mallocs_left = -1;
	assert_int_equal(device_cuda->page_unregister(page), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_no_device_is_enodev),
		cmocka_unit_test(test_what_is_broken_is_named),
		cmocka_unit_test(test_auto_takes_host_for_no_device_alone),
		cmocka_unit_test(test_too_old_is_told_with_the_minimum),
		cmocka_unit_test(test_a_stub_is_told_before_it_is_used),
		cmocka_unit_test(test_each_function_is_needed),
		cmocka_unit_test(test_an_old_driver_is_not_asked_for_what_is_newer),
		cmocka_unit_test(test_it_starts_once),
		cmocka_unit_test(test_it_tells_of_its_devices),
		cmocka_unit_test(test_no_context_is_left_behind),
		cmocka_unit_test(test_relaxed_mode_behind_a_reset),
		cmocka_unit_test(test_pages_are_renewed_in_relaxed_mode),
		cmocka_unit_test(test_an_unregistered_page_is_not_renewed),
		cmocka_unit_test(test_a_page_that_has_no_memory_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
