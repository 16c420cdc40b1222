/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loading.c - where modules are loaded: when they are opened, on the devices in use, and when a device is chosen or
 * gets a stream. So a program may open, look up, park a stream and launch what will release it.
 *
 * On the host device, whose model of loading counts what a launch had to load, and which loads wait.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "device/host.h"
#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps: of one module, one kernel and two streams of a device ---- */

static gpub_module *module;
static gpub_kernel kernel;
static void *parked, *other;

static int do_open(const struct order *order)
{
	int error = gpub_module_open(&module, client, "kernels");

	(void)order;
	return error ? error : gpub_module_kernel(module, "late_write", &kernel);
}

static int do_streams(const struct order *order)
{
	int error = gpub_stream_create(client, (int)order->value, &parked);

	return error ? error : gpub_stream_create(client, (int)order->value, &other);
}

static int do_choose(const struct order *order)
{
	return gpub_set_device(client, (int)order->value);
}

static int do_reset(const struct order *order)
{
	streams_forget();
	return host_reset((int)order->value);
}

static int do_park(const struct order *order)
{
	return gpub_wait_on(&lease[0], order->value, parked);
}

/* On the other stream, or on the device's default one; value: how many launches loaded so far. */
static int launch_to(void *stream, int device, uint64_t *word, uint64_t value)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	uint64_t milliseconds = 0;
	int error;

	config.stream = stream;
	config.device = device;
	error = gpub_launch(kernel, &config, (void *[]){ &word, &value, &milliseconds });
	step_value = host_late_loads();
	return error;
}

static uint64_t landed;

/* To memory of the process, which may be touched from any host device. */
static int do_launch(const struct order *order)
{
	int error = gpub_module_kernel(module, "late_write", &kernel);

	landed = 0;
	if (!error)
		error = launch_to(order->flags ? NULL : other, (int)order->value, &landed, 77);
	if (!error && !order->flags)
		error = gpub_stream_sync(other);
	return error || order->flags || landed == 77 ? error : -EIO;
}

static int do_streams_end(const struct order *order)
{
	int error = gpub_stream_sync(parked);

	(void)order;
	gpub_stream_destroy(parked);
	gpub_stream_destroy(other);
	return error;
}

/* ---- a module that is opened behind a parked stream, on a thread ---- */

static pthread_t thread;
static atomic_bool answered;
static int opened;

static void *open_thread(void *unused)
{
	gpub_module *another;

	opened = gpub_module_open(&another, client, "kernels");
	atomic_store(&answered, true);
	return unused;
}

/* value: whether it waits. */
static int do_open_begin(const struct order *order)
{
	(void)order;
	if (pthread_create(&thread, NULL, open_thread, NULL))
		return -EAGAIN;
	while (!host_loads_waiting() && !atomic_load(&answered))
		sched_yield();
	step_value = !atomic_load(&answered);
	return 0;
}

static int do_open_end(const struct order *order)
{
	(void)order;
	pthread_join(thread, NULL);
	return opened;
}

/* ---- tests ---- */

static void begin(void)
{
	broker_start(&broker, "host:2");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&b, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&b, do_acquire, .name = "x");
	ask(&b, do_stream);
	ask(&a, do_acquire, .name = "x");
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static void test_open_park_launch(void)
{
	begin();
	POINT(!ask(&a, do_open) && !ask(&a, do_streams, .value = 0), "a module is open, its kernel looked up");
	POINT(!ask(&a, do_park, .value = 1) && !ask(&a, do_launch, .value = 0) && !a.last.value,
	      "a look-up and a launch beside a parked stream wait for nothing: nothing is loaded");
	POINT(!ask(&a, do_open_begin) && a.last.value, "another module that is opened now waits for the stream");
	ask(&b, do_signal, .value = 1);
	POINT(!ask(&a, do_open_end) && !ask(&a, do_streams_end), "until that goes on");
	end();
}

/* Device 1 comes into use after the module was opened. */
static void test_later_device(void)
{
	begin();
	ask(&a, do_open);
	POINT(!ask(&a, do_streams, .value = 1) && !ask(&a, do_park, .value = 1),
	      "a stream of another device is parked");
	POINT(!ask(&a, do_launch, .value = 1) && !a.last.value,
	      "a launch there waits for nothing: the module was loaded with the stream");
	ask(&b, do_signal, .value = 1);
	POINT(!ask(&a, do_streams_end), "the stream goes on");
	end();
}

static void test_chosen_device(void)
{
	begin();
	ask(&a, do_open);
	POINT(!ask(&a, do_choose, .value = 1) && !ask(&a, do_launch, .value = 1, .flags = 1) && !a.last.value,
	      "the first launch on a device that was chosen loads nothing");
	end();
}

/* A reset ends what was loaded there, and the module is open still. */
static void test_reset_device(void)
{
	begin();
	ask(&a, do_open);
	ask(&a, do_choose, .value = 1);
	POINT(!ask(&a, do_reset, .value = 1) && !ask(&a, do_choose, .value = 1) &&
		      !ask(&a, do_launch, .value = 1, .flags = 1) && !a.last.value,
	      "a device that was reset and is chosen again has the module loaded again: the launch loads nothing");
	POINT(!ask(&a, do_reset, .value = 1) && !ask(&a, do_streams, .value = 1) && !ask(&a, do_launch, .value = 1) &&
		      !a.last.value,
	      "and so has one that gets a stream again");
	POINT(!ask(&a, do_reset, .value = 1) && !ask(&a, do_launch, .value = 1, .flags = 1) && a.last.value == 1,
	      "else the first launch after a reset loads");
	end();
}

/* What cannot be known before: the first launch loads, and the model counts it. */
static void test_first_launch(void)
{
	begin();
	ask(&a, do_open);
	POINT(!ask(&a, do_launch, .value = 1, .flags = 1) && a.last.value == 1,
	      "the first launch on a device that nothing else has used loads");
	POINT(!ask(&a, do_launch, .value = 1, .flags = 1) && a.last.value == 1, "the second does not");
	end();
}

int main(void)
{
	harness_begin("loading", 60);
	test_open_park_launch();
	test_later_device();
	test_chosen_device();
	test_reset_device();
	test_first_launch();
	return harness_end();
}
