/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reset.c - the program resets its device (cudaDeviceReset): no lease of what is gone is given out, what was held is
 * refused, what is acquired afterwards works, and the broker's accounting is exact.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "device/host.h"
#include "harness.h"

#define VALUE 4711

static struct broker_process broker;
static struct puppet a, b;
static bool two; /* devices */

/* ---- steps ---- */

/* As cudaDeviceReset() does it: the driver's symbol, so that no runtime is needed. */
static int cuda_reset(int ordinal)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*reset)(int) = driver ? (int (*)(int))dlsym(driver, "cuDevicePrimaryCtxReset_v2") : NULL;

	return reset ? -reset(ordinal) : -ENOSYS;
}

/* Streams of before are gone with the device. */
static int do_reset(const struct order *order)
{
	streams_forget();
	return on_cuda() ? cuda_reset((int)order->value) : host_reset((int)order->value);
}

static int do_set_device(const struct order *order)
{
	streams_forget(); /* the next ones are that device's */
	return gpub_set_device(client, (int)order->value);
}

static int do_count(const struct order *order)
{
	int count = 0, error = gpub_device_count(client, &count);

	(void)order;
	return error ? error : count;
}

static int do_create_on(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 4096;
	spec.device = (int)order->value;
	return gpub_create(client, order->name, &spec);
}

/* "x" and "y" at once. */
static int do_acquire_many(const struct order *order)
{
	static const char *const names[] = { "x", "y" };

	(void)order;
	return gpub_acquire_many(client, names, 2, GPUB_READ | GPUB_WRITE, 0, lease);
}

static int do_redeem(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;
	char text[GPUB_TICKET_MAX];
	int error = gpub_ticket_issue(client, order->name, GPUB_READ | GPUB_WRITE, &terms, text);

	return error ? error : gpub_redeem(client, text, &lease[order->slot]);
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

/* The stream stands until its process ends, or its device is reset: nobody signals. */
static int do_park(const struct order *order)
{
	return gpub_wait_on(&lease[order->slot], 1000000, work);
}

static void *late; /* a stream of device 1 */

/* Its return is queued behind a wait for 7 on the timeline of lease 1, on a stream of another device. */
static int do_return_late(const struct order *order)
{
	int error = gpub_stream_create(client, 1, &late);

	if (!error)
		error = gpub_wait_on(&lease[1], 7, late);
	return error ? error : gpub_return_on(&lease[order->slot], late);
}

static int do_sync_late(const struct order *order)
{
	(void)order;
	return gpub_stream_sync(late);
}

/* order.value times: acquires, returns in stream order, and closes. */
static int do_turns(const struct order *order)
{
	int error = 0;

	for (uint64_t i = 0; !error && i < order->value; i++) {
		error = gpub_acquire(client, "x", GPUB_READ, 0, &lease[2]);
		if (!error)
			error = gpub_return_on(&lease[2], work);
		if (!error)
			error = gpub_stream_sync(work);
		if (!error)
			error = gpub_trim(client);
	}
	return error;
}

/* ---- */

static bool reads(struct puppet *puppet, int slot)
{
	return !ask(puppet, do_read, .slot = slot) && puppet->last.value == VALUE;
}

/* It holds x, and has returned y; both have the value. */
static void begin(void)
{
	broker_start(&broker, on_cuda() ? "cuda" : "host:2");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	two = ask(&a, do_count) >= 2;
	ask(&a, do_create, .name = "x");
	ask(&a, do_create, .name = "y", .flags = GPUB_TIMELINE);
	if (ask(&a, do_acquire, .name = "x") || ask(&a, do_acquire, .name = "y", .slot = 1) ||
	    ask(&a, do_write, .value = VALUE) || ask(&a, do_write, .slot = 1, .value = VALUE) ||
	    ask(&a, do_return, .slot = 1) || ask(&b, do_acquire, .name = "x"))
		bail_out("no leases: %s", a.last.text);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static void test_acquire(void)
{
	begin();
	POINT(!ask(&a, do_reset), "the device is reset");
	POINT(!ask(&a, do_acquire, .name = "y", .slot = 2) && reads(&a, 2),
	      "invariant 8: what is acquired then is mapped anew");
	POINT(SOON(status_counter(&broker, "mappings_closed") == 2 && !status_holders(&broker, "x", a.pid)),
	      "invariant 10: what was mapped before is given back");
	POINT(ask(&a, do_return) == -ESTALE && strstr(a.last.text, "reset"), "what was held is refused: %s",
	      a.last.text);
	POINT(ask(&a, do_return_on) == -ESTALE, "also on a stream");
	POINT(!ask(&a, do_renew) && reads(&a, 0), "and can be renewed");
	POINT(!ask(&a, do_stream) && !ask(&a, do_return_on) && !ask(&a, do_return_on, .slot = 2) && !ask(&a, do_sync) &&
		      !ask(&a, do_trim) && SOON(status_counter(&broker, "mappings_closed") == 4),
	      "returns in stream order land");
	POINT(reads(&b, 0), "another process is not disturbed");
	end();
}

static void test_renew(void)
{
	begin();
	ask(&a, do_return);
	POINT(!ask(&a, do_reset) && !ask(&a, do_renew) && reads(&a, 0), "invariant 8: what is renewed is mapped anew");
	POINT(!ask(&a, do_renew, .slot = 1) && reads(&a, 1), "each of them");
	POINT(!ask(&a, do_reset) && !ask(&a, do_acquire_many) && reads(&a, 0) && reads(&a, 1),
	      "after another reset also many at once");
	POINT(!ask(&a, do_redeem, .name = "x", .slot = 3) && !ask(&a, do_return, .slot = 3) &&
		      !ask(&a, do_renew, .slot = 3) && reads(&a, 3),
	      "a redeemed lease is renewed");
	ask(&a, do_return, .slot = 3);
	POINT(!ask(&a, do_reset) && ask(&a, do_renew, .slot = 3) == -ESTALE,
	      "but not over a reset: it has no name to ask for");
	end();
}

static void test_connect_anew(void)
{
	begin();
	ask(&a, do_reset);
	ask(&a, do_disconnect);
	POINT(SOON(status_counter(&broker, "mappings_closed") == 2 && !status_holders(&broker, "x", a.pid)),
	      "invariant 10: a disconnect after a reset gives all back");
	POINT(!ask(&a, do_connect) && !ask(&a, do_acquire, .name = "x") && reads(&a, 0), "and a new connection works");
	POINT(!ask(&a, do_stream) && !ask(&a, do_return_on) && !ask(&a, do_sync) && !ask(&a, do_renew) && reads(&a, 0),
	      "with returns that land");
	end();
}

static void test_unlinked(void)
{
	begin();
	ask(&b, do_return);
	ask(&b, do_trim);
	ask(&a, do_unlink, .name = "x");
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1), "what is held drains");
	POINT(!ask(&a, do_reset) && !ask(&a, do_trim) && SOON(!status_buffers(&broker, "x", NULL)),
	      "invariant 2: until the device is reset, and a trim notices it");
	end();
}

/*
 * It waits for a value that nobody signals, so the return behind it never lands. CUDA's reset waits for it, too: for
 * ever.
 */
static void test_parked(void)
{
	begin();
	ask(&b, do_return);
	ask(&b, do_trim);
	ask(&a, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	ask(&a, do_acquire, .name = "y", .slot = 1);
	ask(&a, do_stream);
	POINT(!ask(&a, do_park, .slot = 1) && !ask(&a, do_return_on) && !ask(&a, do_unlink, .name = "x"),
	      "a return does not land, for its stream is parked");
	POINT(!ask(&a, do_reset) && SOON(!status_buffers(&broker, "x", NULL)),
	      "the closer notices the reset that ends it");
	POINT(!ask(&a, do_drain, .name = "y", .timeout = 10000), "invariant 2: a drain waits for nothing that is gone");
	end();
}

static void test_other_device(void)
{
	begin();
	ask(&a, do_create_on, .name = "z", .value = 1);
	POINT(!ask(&a, do_set_device, .value = 1) && !ask(&a, do_acquire, .name = "z", .slot = 4) &&
		      !ask(&a, do_write, .slot = 4, .value = VALUE),
	      "a lease of another device");
	POINT(!ask(&a, do_reset) && reads(&a, 4), "invariant 8: which is not reset, holds");
	POINT(!ask(&a, do_stream) && !ask(&a, do_return_on, .slot = 4) && !ask(&a, do_sync) &&
		      !ask(&a, do_renew, .slot = 4) && reads(&a, 4),
	      "is returned on a stream, and renewed");
	status_stable(&broker, &a);
	POINT(status_counter(&broker, "mappings_closed") == 0, "nothing was closed for it");
	POINT(!ask(&a, do_set_device) && !ask(&a, do_acquire, .name = "y", .slot = 1) && reads(&a, 1),
	      "the one that was works as well");
	end();
}

#define TURNS 300 /* more than the records that are kept free: each serves again */

/* A stream of the other device does not end with the reset, so what was returned there lands later. */
static void test_late_return(void)
{
	begin();
	ask(&b, do_return);
	ask(&a, do_stream); /* kernels are loaded before anything is parked */
	POINT(!ask(&a, do_acquire, .name = "y", .slot = 1) && !ask(&a, do_return_late) && !ask(&a, do_reset) &&
		      !ask(&a, do_stream),
	      "a return is on its way on another device when this one is reset");
	POINT(!ask(&a, do_turns, .value = TURNS) && SOON(!status_holders(&broker, "x", a.pid)),
	      "invariant 10: what it returned is given back without it, and what is acquired then is closed");
	POINT(!ask(&b, do_stream) && !ask(&b, do_acquire, .name = "y", .slot = 1) &&
		      !ask(&b, do_signal, .slot = 1, .value = 7) && !ask(&a, do_sync_late),
	      "it lands");
	tell(&a, do_turns, .value = TURNS);
	POINT(SOON(puppet_answered(&a)) && !receive(&a) && SOON(!status_holders(&broker, "x", a.pid)),
	      "invariant 10: and hides no later return");
	end();
}

static void test_timeline(void)
{
	begin();
	ask(&a, do_stream);
	POINT(!ask(&a, do_acquire, .name = "y", .slot = 1) && !ask(&a, do_signal, .slot = 1, .value = 5) &&
		      !ask(&a, do_sync),
	      "a timeline's writer");
	POINT(!ask(&a, do_reset) && !ask(&a, do_stream) && !ask(&a, do_acquire, .name = "y", .slot = 1) &&
		      !ask(&a, do_signal, .slot = 1, .value = 6) && !ask(&a, do_wait, .slot = 1, .value = 6) &&
		      !ask(&a, do_sync) && !ask(&a, do_timeline, .slot = 1) && a.last.value == 6,
	      "goes on after a reset");
	end();
}

int main(void)
{
	harness_begin("reset", 60);
	test_acquire();
	test_renew();
	test_connect_anew();
	test_unlinked();
	test_timeline();
	if (on_cuda()) {
		point_skip("what is parked is ended");
		point_skip("a return that lands late");
	} else {
		test_parked();
		test_late_return();
	}
	if (on_cuda() && !two)
		point_skip("another device");
	else
		test_other_device();
	return harness_end();
}
