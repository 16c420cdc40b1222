/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closes.c - a driver whose closes do not wait for the device's work, which CUDA does not promise: nothing is reported
 * idle on the strength of one, and the memory comes back when all of it is closed, or with its process.
 *
 * A program without GPUB_BACKGROUND_CLOSE is used: its trims are the only looks, and what they send comes before what
 * they return.
 */
#include <errno.h>

#include "device/host.h"
#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps ---- */

static int do_small(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 200;
	return gpub_create(client, order->name, &spec);
}

/* value: also the last close of a handle does not wait */
static int do_not_wait(const struct order *order)
{
	host_do_not_wait(order->value);
	return 0;
}

/* ---- */

/* It holds one buffer, and has returned the other, which is unlinked, without a stream; both lie in one mapping. */
static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&b, do_small, .name = "held");
	ask(&b, do_small, .name = "x");
	if (ask(&a, do_acquire, .name = "held") || ask(&a, do_acquire, .name = "x", .slot = 1) ||
	    ask(&a, do_return, .slot = 1) || ask(&b, do_unlink, .name = "x"))
		bail_out("no leases: %s", a.last.text);
}

static void end(void)
{
	puppet_end(&b);
	broker_end(&broker);
}

static bool drains(void)
{
	status_stable(&broker, &a);
	return status_buffers(&broker, "x", "draining") == 1 && status_holders(&broker, "x", a.pid) == 1;
}

static void test_waits(void)
{
	begin();
	/* the notice of the unlink may come behind a trim */
	POINT(SOON(!ask(&a, do_trim) && !status_buffers(&broker, "x", NULL)),
	      "where closes wait, a trim lets go of what was returned without a stream");
	puppet_end(&a);
	end();
}

static void test_kept(void)
{
	begin();
	ask(&a, do_not_wait);
	POINT(!ask(&a, do_trim) && drains(), "invariant 2: where they do not, it is not reported idle");
	POINT(!ask(&a, do_return) && !ask(&a, do_trim) && SOON(!status_buffers(&broker, "x", NULL)),
	      "and goes when nothing of its memory is held: by the close of all of it");
	POINT(!ask(&a, do_acquire, .name = "held") && !ask(&a, do_write, .value = 5) && !ask(&a, do_read) &&
		      a.last.value == 5,
	      "what was beside it is mapped anew");
	puppet_end(&a);
	end();
}

static void test_in_the_background(void)
{
	begin();
	ask(&a, do_not_wait);
	ask(&a, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	POINT(drains(), "the closer does not report it idle, either");
	POINT(!ask(&a, do_return) && SOON(!status_buffers(&broker, "x", NULL)),
	      "and closes all of it when nothing is held");
	puppet_end(&a);
	end();
}

static void test_in_stream_order(void)
{
	begin();
	ask(&a, do_not_wait);
	ask(&b, do_small, .name = "y");
	ask(&a, do_stream);
	ask(&a, do_acquire, .name = "y", .slot = 2);
	POINT(!ask(&a, do_return_on, .slot = 2) && !ask(&a, do_sync) && !ask(&b, do_unlink, .name = "y") &&
		      SOON(!status_buffers(&broker, "y", NULL)),
	      "what is returned in stream order depends on no close");
	puppet_end(&a);
	end();
}

static void test_last(void)
{
	begin();
	ask(&a, do_not_wait, .value = true);
	ask(&a, do_return);
	POINT(ask(&a, do_trim) == -EIO && drains(), "where not even a last close waits, it stays");
	puppet_kill(&a);
	POINT(SOON(!status_buffers(&broker, "x", NULL)), "invariant 2: until its process is dead");
	end();
}

int main(void)
{
	harness_begin("closes", 60);
	test_waits();
	test_kept();
	test_in_the_background();
	test_in_stream_order();
	test_last();
	return harness_end();
}
