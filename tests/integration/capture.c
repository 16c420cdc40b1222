/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c - a program captures a stream into a graph while the library works: neither disturbs the other.
 *
 * On the model of captures that the unit tests of the host device have.
 */
#include <errno.h>
#include <pthread.h>

#include "../unit/device/host-capture.h"
#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;
static struct host_graph *graph;

static int begin_capture(const struct order *order)
{
	(void)order;
	return host_capture_begin(work);
}

static int end_capture(const struct order *order)
{
	(void)order;
	return host_capture_end(work, &graph);
}

static int launch_graph(const struct order *order)
{
	(void)order;
	return host_graph_launch(graph, work);
}

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&a, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&a, do_create, .name = "y");
	ask(&a, do_acquire, .name = "x");
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- what is refused on a stream that is captured ---- */

static void test_refused(void)
{
	begin();
	POINT(!ask(&a, begin_capture), "a stream is being captured");
	POINT(ask(&a, do_return_on) == -EBUSY, "a return on it: EBUSY");
	POINT(ask(&a, do_signal, .value = 1) == -EBUSY && ask(&a, do_wait, .value = 1) == -EBUSY,
	      "a signal and a wait on it: EBUSY");
	ask(&a, do_late_write, .value = 42);
	POINT(!ask(&a, end_capture), "the capture is not spoiled by it");
	status_stable(&broker, &a);
	POINT(status_holders(&broker, "x", a.pid) == 1 && !ask(&a, do_trim) && !ask(&a, do_read) && !a.last.value,
	      "the lease is held, and nothing has run yet");
	POINT(!ask(&a, launch_graph) && !ask(&a, do_return_on) && !ask(&a, do_sync) && !ask(&a, do_renew) &&
		      !ask(&a, do_read) && a.last.value == 42,
	      "the graph runs, and its buffer is returned behind it");
	POINT(!ask(&a, do_signal, .value = 1) && !ask(&a, do_sync) && !ask(&a, do_timeline) && a.last.value == 1,
	      "a refused value may be signalled later");
	end();
}

/* ---- the default stream while a blocking stream is captured ---- */

static int begin_blocking(const struct order *order)
{
	(void)order;
	return host_capture_begin_blocking(work);
}

static int spoil(const struct order *order)
{
	(void)order;
	return host_capture_sync(NULL);
}

static int launch_default(void)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	uint64_t value = 7, milliseconds = 0;
	gpub_module *module = NULL;
	gpub_kernel kernel;
	int error = gpub_module_open(&module, client, "kernels");

	if (!error)
		error = gpub_module_kernel(module, "late_write", &kernel);
	if (!error)
		error = gpub_launch(kernel, &config, (void *[]){ &lease[0].ptr, &value, &milliseconds });
	gpub_module_close(module);
	return error;
}

/* As bits: the calls that gave anything else. */
static int default_calls(const struct order *order)
{
	int wanted = (int)order->value, bad = 0;
	uint64_t seen = 0;

	bad |= (gpub_stream_sync(NULL) != wanted) << 0;
	bad |= (gpub_copy_on(client, &seen, lease[0].ptr, sizeof seen, NULL) != wanted) << 1;
	bad |= (gpub_signal_on(&lease[0], 1, NULL) != wanted) << 2;
	bad |= (gpub_wait_on(&lease[0], 1, NULL) != wanted) << 3;
	bad |= (launch_default() != wanted) << 4;
	bad |= (gpub_return_on(&lease[0], NULL) != wanted) << 5;
	return bad;
}

static void test_default_stream(void)
{
	begin();
	ask(&a, begin_blocking);
	ask(&a, do_late_write, .value = 42);
	POINT(!ask(&a, default_calls, .value = (uint64_t)-EBUSY),
	      "each call on the default stream while a blocking stream is captured: EBUSY (%d)", a.last.result);
	POINT(!ask(&a, end_capture), "invariant 11: the capture is whole");
	POINT(!ask(&a, launch_graph) && !ask(&a, do_sync) && !ask(&a, do_read) && a.last.value == 42,
	      "and its graph runs");
	POINT(!ask(&a, default_calls, .value = 0), "after it they all work (%d)", a.last.result);
	ask(&a, begin_blocking);
	POINT(ask(&a, spoil) == -EBUSY && ask(&a, end_capture) == -ECANCELED,
	      "a program that uses the default stream itself spoils its capture: the test can see it");
	end();
}

/* A graph that runs behind the return in stream order must find the memory: the free waits for it. */
static void test_freed_behind_graph(void)
{
	begin();
	ask(&a, begin_capture);
	ask(&a, do_late_write, .value = 42, .timeout = 100);
	ask(&a, end_capture);
	ask(&a, launch_graph);
	POINT(!ask(&a, do_return_on), "a buffer is returned on the stream on which a graph runs");
	ask(&a, do_unlink, .name = "x");
	POINT(!ask(&a, do_trim) && SOON(!status_buffers(&broker, "x", NULL)),
	      "invariant 7: it is freed, and not before the graph's end");
	end();
}

/* ---- the library at work on another thread ---- */

static int result;

static int all_calls(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_info info = { .struct_size = sizeof info };
	gpub_client *second = NULL;
	gpub_lease other, mine;
	void *stream = NULL;
	int error = gpub_connect(&second, NULL);

	spec.size = 4096;
	if (!error)
		error = gpub_create(second, "z", &spec);
	if (!error)
		error = gpub_acquire(second, "y", GPUB_READ, 0, &other);
	if (!error)
		error = gpub_acquire(client, "y", GPUB_READ, 0, &mine);
	if (!error)
		error = gpub_stream_create(client, GPUB_CURRENT, &stream);
	if (!error)
		error = gpub_return_on(&mine, stream);
	if (!error)
		error = gpub_stat(client, "z", &info);
	if (!error)
		error = gpub_trim(client);
	if (!error)
		error = gpub_stream_sync(stream);
	if (!error)
		error = gpub_unlink(second, "z");
	gpub_stream_destroy(stream);
	gpub_disconnect(second);
	return error;
}

static void *other_thread(void *unused)
{
	result = all_calls();
	return unused;
}

static int work_elsewhere(const struct order *order)
{
	pthread_t thread;

	(void)order;
	if (pthread_create(&thread, NULL, other_thread, NULL))
		return -EAGAIN;
	pthread_join(thread, NULL);
	return result;
}

static void test_elsewhere(void)
{
	begin();
	ask(&a, begin_capture);
	ask(&a, do_late_write, .value = 42);
	POINT(!ask(&a, work_elsewhere),
	      "while one thread captures, another connects, creates, acquires, returns, trims and disconnects");
	POINT(!ask(&a, do_trim) && !ask(&a, do_stat, .name = "x"), "so does the capturing thread itself, on no stream");
	POINT(!ask(&a, end_capture), "invariant 11: the capture is whole");
	POINT(!ask(&a, launch_graph) && !ask(&a, do_sync) && !ask(&a, do_read) && a.last.value == 42,
	      "and its graph runs");
	end();
}

int main(void)
{
	harness_begin("capture", 60);
	test_refused();
	test_default_stream();
	test_freed_behind_graph();
	test_elsewhere();
	return harness_end();
}
