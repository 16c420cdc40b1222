/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-cuda-module.c - which driver functions the CUDA device calls for modules, launches and the default stream, and
 * which it must not call. The driver is the fake one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda.h"
#include "tests/fake-cuda/fake-cuda.h"
#include "tests/fake-cuda/inner.h"

static const struct device *device;
static char                 path[] = "/etc/passwd"; /* the fake driver loads any file that can be read */

static int begin(void **state)
{
	struct device_setup setup = { .owner = false };

	(void)state;
	device = device_cuda;
	fake_cuda_order("devices=2 version=13000");
	return device->start(&setup) || device->set_current(0);
}

/* How often the function was called since the last look. */
static unsigned calls(const char *function)
{
	static struct {
		const char *function;
		unsigned    seen;
	} known[64];
	unsigned i = 0, before;

	while (known[i].function && strcmp(known[i].function, function))
		i++;
	known[i].function = function;
	before = known[i].seen;
	known[i].seen = fake_cuda_calls(function);
	return known[i].seen - before;
}

static int launch(void *kernel, int ordinal, void *stream, void **args)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;

	config.device = ordinal;
	config.stream = stream;
	return device->module_launch(kernel, &config, args);
}

static uint64_t value;
static void    *one_arg[] = { &value };

/* ---- loading ---- */

static void test_loaded_when_opened(void **state)
{
	void *module, *one, *none, *stream;

	(void)state;
	calls("cuLibraryGetModule"), calls("cuFuncLoad"), calls("cuKernelGetFunction"), calls("cuKernelGetParamInfo");
	assert_false(device->module_load(path, &module));
	assert_int_equal(calls("cuLibraryGetModule"), 1); /* of two devices one is in use */
	assert_int_equal(calls("cuFuncLoad"), 2);
	calls("cuKernelGetFunction");
	assert_false(device->module_kernel(module, "one", &one) || device->module_kernel(module, "none", &none));
	assert_int_equal(device->module_kernel(module, "two", &none), -ENOENT);
	assert_false(device->stream_create(0, 0, &stream) || device->module_ready(module, 0));
	assert_false(launch(one, 0, stream, one_arg));
	assert_int_equal(calls("cuLibraryGetModule") + calls("cuKernelGetFunction") + calls("cuKernelGetParamInfo"), 0);
	assert_false(device->module_ready(module, 1));
	assert_int_equal(calls("cuLibraryGetModule"), 1);
	assert_false(device->module_ready(module, 1));
	assert_int_equal(calls("cuLibraryGetModule"), 0);
	assert_int_equal(device->module_ready(module, 2), -ENODEV);
	device->stream_destroy(stream);
	assert_false(device->module_unload(module));
}

static void test_not_loadable(void **state)
{
	void *module = NULL, *stream;

	(void)state;
	assert_false(device->stream_create(1, 0, &stream));
	device->stream_destroy(stream);
	calls("cuLibraryUnload");
	fake_cuda_order("devices=2 version=13000 cuLibraryGetModule=209"); /* no binary for this GPU */
	assert_int_equal(device->module_load(path, &module), -ENOEXEC);
	assert_true(!module && calls("cuLibraryUnload") == 1);
	fake_cuda_order("devices=2 version=13000 cuLibraryGetModule=209*1"); /* on one device of the two in use */
	assert_false(device->module_load(path, &module) || device->module_unload(module));
	fake_cuda_order("devices=2 version=13000");
}

/* ---- two threads that load ---- */

#define SCANS 2000

static atomic_bool loading, begun, answered, answered_early;

/* As if a stream waited: returns when the other thread has answered, or has had time to. */
static CUresult load_slowly(CUmodule *module, CUlibrary library)
{
	*module = (CUmodule)library;
	atomic_store(&loading, true);
	while (!atomic_load(&begun))
		sched_yield();
	for (int i = 0; i < SCANS && !atomic_load(&answered); i++)
		sched_yield();
	atomic_store(&answered_early, atomic_load(&answered));
	return CUDA_SUCCESS;
}

static void *load_first(void *module)
{
	return (void *)(intptr_t)device->module_ready(module, 0);
}

static void *load_second(void *module)
{
	int rc;

	atomic_store(&begun, true);
	rc = device->module_ready(module, 0);
	atomic_store(&answered, true);
	return (void *)(intptr_t)rc;
}

/* A caller may block a stream as soon as the module is reported as loaded, and then the load would wait for it. */
static void test_ready_is_loaded(void **state)
{
	__typeof__(cuda.LibraryGetModule) before = cuda.LibraryGetModule;
	pthread_t                         first, second;
	void                             *module, *failed[2];

	(void)state;
	fake_cuda_order("devices=2 version=13000 cuLibraryGetModule=209*1"); /* on device 0; device 1 is in use, too */
	assert_false(device->module_load(path, &module));
	fake_cuda_order("devices=2 version=13000");
	cuda.LibraryGetModule = load_slowly;
	assert_false(pthread_create(&first, NULL, load_first, module));
	while (!atomic_load(&loading))
		sched_yield();
	assert_false(pthread_create(&second, NULL, load_second, module));
	assert_false(pthread_join(first, &failed[0]) || pthread_join(second, &failed[1]));
	cuda.LibraryGetModule = before;
	assert_true(!failed[0] && !failed[1] && !atomic_load(&answered_early));
	assert_false(device->module_unload(module));
}

/* ---- parameters ---- */

static void test_parameters(void **state)
{
	void *module, *one, *none, *nothing[] = { NULL };

	(void)state;
	assert_false(device->module_load(path, &module));
	assert_false(device->module_kernel(module, "one", &one));
	assert_false(device->module_kernel(module, "none", &none));
	calls("cuKernelGetParamInfo"), calls("cuLaunchKernel");
	assert_int_equal(launch(one, 0, NULL, NULL), -EINVAL);
	assert_int_equal(launch(one, 0, NULL, nothing), -EINVAL);
	assert_int_equal(calls("cuKernelGetParamInfo"), 1); /* which succeeded */
	assert_int_equal(calls("cuLaunchKernel"), 0);
	assert_false(launch(one, 0, NULL, one_arg) || launch(none, 0, NULL, NULL) || launch(none, 0, NULL, NULL));
	assert_int_equal(calls("cuKernelGetParamInfo"), 1);
	assert_int_equal(calls("cuLaunchKernel"), 3);
	assert_false(device->module_unload(module));
}

/* ---- streams of other contexts and devices ---- */

static void test_other_streams(void **state)
{
	struct CUctx_st own = { .device = 0, .id = 1000 };
	CUcontext       popped;
	void           *module, *one, *stream, *further;
	CUstream        theirs;

	(void)state;
	assert_false(device->module_load(path, &module));
	assert_false(device->module_kernel(module, "one", &one));
	assert_false(device->stream_create(0, 0, &stream));
	assert_false(device->stream_create(1, 0, &further));
	assert_false(cuda.CtxPushCurrent(&own));
	assert_false(cuda.StreamCreate(&theirs, 0));
	calls("cuLaunchKernel");
	/* here NULL is a stream of the program's own context */
	assert_int_equal(launch(one, 0, NULL, one_arg), -EINVAL);
	assert_false(cuda.CtxPopCurrent(&popped));
	assert_int_equal(launch(one, 0, theirs, one_arg), -EINVAL);
	assert_int_equal(launch(one, 0, further, one_arg), -EINVAL);
	assert_int_equal(launch(one, 1, stream, one_arg), -EINVAL);
	assert_int_equal(calls("cuLaunchKernel"), 0);
	assert_false(device->stream_sync(theirs) || device->copy(theirs, &value, &value, sizeof value));
	assert_false(launch(one, 0, stream, one_arg) || launch(one, 1, further, one_arg) ||
		     launch(one, 1, NULL, one_arg));
	assert_int_equal(calls("cuLaunchKernel"), 3);
	assert_int_equal(device->current(), 0);
	cuda.StreamDestroy(theirs);
	device->stream_destroy(stream);
	device->stream_destroy(further);
	assert_false(device->module_unload(module));
}

static unsigned event_calls(void)
{
	return calls("cuEventCreate") << 12 | calls("cuEventRecord") << 8 | calls("cuStreamWaitEvent") << 4 |
	       calls("cuEventDestroy");
}

/* Between devices, and no event is left behind, whichever call fails. */
static void test_after_another(void **state)
{
	void *stream, *further;

	(void)state;
	assert_false(device->stream_create(0, 0, &stream) || device->stream_create(1, -1, &further));
	event_calls();
	assert_false(device->stream_after(stream, further) || device->stream_after(stream, NULL));
	assert_int_equal(event_calls(), 0x2222);
	fake_cuda_order("devices=2 version=13000 cuEventRecord=719*1");
	assert_int_equal(device->stream_after(stream, further), -EIO);
	assert_int_equal(event_calls(), 0x1101);
	fake_cuda_order("devices=2 version=13000 cuStreamWaitEvent=719*1");
	assert_int_equal(device->stream_after(further, stream), -EIO);
	assert_int_equal(event_calls(), 0x1111);
	fake_cuda_order("devices=2 version=13000");
	assert_int_equal(device->current(), 0);
	device->stream_destroy(stream);
	device->stream_destroy(further);
}

static CUcontext recorded_in;

static CUresult record_where(CUevent event, CUstream stream)
{
	(void)event;
	(void)stream;
	return cuda.CtxGetCurrent(&recorded_in);
}

/* The default stream is that of the caller's device, whichever the waiting stream's is. */
static void test_after_the_default_stream(void **state)
{
	__typeof__(cuda.EventRecord) before = cuda.EventRecord;
	CUcontext own;
	void     *further;

	(void)state;
	assert_false(device->stream_create(1, 0, &further));
	assert_false(cuda.CtxGetCurrent(&own));
	cuda.EventRecord = record_where;
	assert_false(device->stream_after(further, NULL));
	cuda.EventRecord = before;
	assert_ptr_equal(recorded_in, own);
	device->stream_destroy(further);
}

/* One operation for many words, which has the remedies of an operation on one word. */
static void test_many_words(void **state)
{
	uint64_t           word[2] = { 0 };
	struct device_word words[2] = { { &word[0], 3 }, { &word[1], 4 } };
	void              *stream;

	(void)state;
	assert_false(device->stream_create(0, 0, &stream));
	calls("cuStreamBatchMemOp");
	assert_false(device->stream_write_many(stream, words, 2) || device->stream_wait_many(stream, words, 2));
	assert_true(word[0] == 3 && word[1] == 4 && calls("cuStreamBatchMemOp") == 2);
	words[0].value = 5;
	fake_cuda_order("devices=2 version=13000 cuStreamBatchMemOp=201*1"); /* CUDA_ERROR_INVALID_CONTEXT */
	assert_false(device->stream_write_many(stream, words, 1));
	assert_true(word[0] == 5 && calls("cuStreamBatchMemOp") == 2);
	fake_cuda_order("devices=2 version=13000 cuStreamBatchMemOp=719");
	assert_int_equal(device->stream_write_many(stream, words, 2), -EIO);
	fake_cuda_order("devices=2 version=13000");
	device->stream_destroy(stream);
}

/* A launch that cannot be marked still succeeds; its module stays loaded. */
static void test_unmarked(void **state)
{
	void *module, *one;

	(void)state;
	assert_false(device->module_load(path, &module));
	assert_false(device->module_kernel(module, "one", &one));
	calls("cuLibraryUnload");
	fake_cuda_order("devices=2 version=13000 cuEventRecord=719*1");
	assert_false(launch(one, 0, NULL, one_arg));
	assert_int_equal(device->module_unload(module), -EIO);
	assert_int_equal(calls("cuLibraryUnload"), 0);
	fake_cuda_order("devices=2 version=13000");
}

/* ---- the legacy stream while a blocking stream is captured ---- */

static unsigned harmful(void)
{
	return calls("cuStreamGetCtx") + calls("cuStreamGetId") + calls("cuEventRecord") + calls("cuLaunchKernel") +
	       calls("cuMemcpyAsync") + calls("cuStreamSynchronize") + calls("cuStreamWriteValue64") +
	       calls("cuStreamWaitValue64") + calls("cuStreamBatchMemOp") + calls("cuStreamWaitEvent") +
	       calls("cuStreamDestroy");
}

static int never(void *unused)
{
	(void)unused;
	return 0;
}

static void test_legacy_stream(void **state)
{
	void    *const streams[] = { NULL, (void *)0x1 };
	uint64_t word = 0;
	void    *module, *one;

	(void)state;
	assert_false(device->module_load(path, &module));
	assert_false(device->module_kernel(module, "one", &one));
	fake_cuda_order("devices=2 version=13000 cuStreamIsCapturing=906"); /* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT */
	harmful();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(device->stream_sync(streams[i]), -EBUSY);
		assert_int_equal(device->stream_sync_until(streams[i], never, NULL), -EBUSY);
		assert_int_equal(device->copy(streams[i], &word, &word, sizeof word), -EBUSY);
		assert_int_equal(device->stream_write(streams[i], &word, 1), -EBUSY);
		assert_int_equal(device->stream_wait(streams[i], &word, 0), -EBUSY);
		assert_int_equal(device->stream_write_many(streams[i], &(struct device_word){ &word, 1 }, 1), -EBUSY);
		assert_int_equal(device->stream_wait_many(streams[i], &(struct device_word){ &word, 0 }, 1), -EBUSY);
		assert_int_equal(device->stream_after(streams[i], streams[i]), -EBUSY);
		assert_int_equal(launch(one, 0, streams[i], one_arg), -EBUSY);
		device->stream_destroy(streams[i]);
	}
	assert_int_equal(harmful(), 0);
	fake_cuda_order("devices=2 version=13000");
	assert_false(device->stream_sync(NULL) || device->stream_write(NULL, &word, 1) ||
		     launch(one, 0, NULL, one_arg));
	assert_false(device->module_unload(module));
}

/* ---- behind a reset ---- */

static void as_by_a_reset(int ordinal)
{
	CUcontext primary;

	assert_false(cuda.DevicePrimaryCtxRetain(&primary, ordinal));
	primary->id += 1000;
}

static int launch_shared(void *kernel, uint32_t bytes)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;

	config.device = 0;
	config.shared_bytes = bytes;
	return device->module_launch(kernel, &config, one_arg);
}

/* What was allowed in an earlier context does not count, and what is allowed is not set again. */
static void test_shared_memory(void **state)
{
	void *module, *one;

	(void)state;
	assert_false(device->module_load(path, &module));
	assert_false(device->module_kernel(module, "one", &one));
	calls("cuKernelSetAttribute");
	assert_false(launch_shared(one, 48 << 10));
	assert_int_equal(calls("cuKernelSetAttribute"), 0);
	for (int i = 0; i < 3; i++) {
		assert_false(launch_shared(one, 64 << 10) || launch_shared(one, 64 << 10) ||
			     launch_shared(one, 60 << 10));
		assert_int_equal(calls("cuKernelSetAttribute"), 1);
		assert_false(launch_shared(one, 96 << 10) || launch_shared(one, 64 << 10));
		assert_int_equal(calls("cuKernelSetAttribute"), 1);
		as_by_a_reset(0);
	}
	assert_int_equal(launch_shared(one, UINT32_MAX), -EINVAL);
	assert_false(device->module_unload(module));
}

/*
 * Where the driver cannot list a module's kernels, a look-up loads the kernel, but not where a reset has unloaded the
 * module.
 */
static void test_look_up_behind_a_reset(void **state)
{
	__typeof__(cuda.LibraryEnumerateKernels) before = cuda.LibraryEnumerateKernels;
	void                                    *module, *one, *none;

	(void)state;
	cuda.LibraryEnumerateKernels = NULL;
	assert_false(device->module_load(path, &module));
	calls("cuFuncLoad");
	assert_false(device->module_kernel(module, "one", &one));
	assert_int_equal(calls("cuFuncLoad"), 2); /* on each device in use */
	as_by_a_reset(0);
	assert_false(device->module_kernel(module, "none", &none));
	assert_int_equal(calls("cuFuncLoad"), 1);
	assert_false(device->module_ready(module, 0));
	assert_int_equal(calls("cuFuncLoad"), 2);
	cuda.LibraryEnumerateKernels = before;
	assert_false(device->module_unload(module));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loaded_when_opened), cmocka_unit_test(test_not_loadable),
		cmocka_unit_test(test_ready_is_loaded),	   cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_other_streams),	   cmocka_unit_test(test_unmarked),
		cmocka_unit_test(test_legacy_stream),	   cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_look_up_behind_a_reset), cmocka_unit_test(test_after_another),
		cmocka_unit_test(test_after_the_default_stream),
		cmocka_unit_test(test_many_words),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
