/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retire.c - a drain of a small buffer whose memory is mapped for another one beside it: a call that waits for it reads
 * the socket itself, and so is the one who has to let go of it.
 */
#include <errno.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

static int do_small(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 200;
	return gpub_create(client, order->name, &spec);
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

/* It holds the one and has returned the other in stream order, all in one mapping. */
static void use(struct puppet *puppet)
{
	if (ask(puppet, do_stream) || ask(puppet, do_acquire, .name = "held") ||
	    ask(puppet, do_acquire, .name = "x", .slot = 1) || ask(puppet, do_return_on, .slot = 1) ||
	    ask(puppet, do_sync))
		bail_out("no leases: %s", puppet->last.text);
}

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_small, .name = "held");
	ask(&a, do_small, .name = "x");
}

static void end(const char *who)
{
	status_stable(&broker, &a);
	POINT(status_counter(&broker, "mappings_closed") == 0 && !ask(&a, do_write, .value = 5) && !ask(&a, do_read) &&
		      a.last.value == 5,
	      "%s: what is held beside it stays mapped", who);
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static void test_own(void)
{
	begin();
	use(&a);
	POINT(!ask(&a, do_drain, .name = "x", .timeout = 10000),
	      "a drain lets go of what its own process has returned");
	end("one process");
}

/* The other's service thread does, as nobody reads there. */
static void test_both(void)
{
	begin();
	use(&a);
	use(&b);
	POINT(!ask(&a, do_drain, .name = "x", .timeout = 10000), "so it does where another process has it mapped, too");
	end("two processes");
}

/* Which begins when it is returned, while the drain waits already. */
static void test_held(void)
{
	begin();
	use(&a);
	use(&b);
	ask(&b, do_acquire, .name = "x", .slot = 1);
	tell(&a, do_drain, .name = "x", .timeout = 10000);
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1 && !status_holders(&broker, "x", a.pid)),
	      "what another still holds is waited for, and the own is let go of");
	POINT(!ask(&b, do_return_on, .slot = 1) && !ask(&b, do_sync) && !receive(&a), "until that is returned");
	end("a holder");
}

int main(void)
{
	harness_begin("retire", 60);
	test_own();
	test_both();
	test_held();
	return harness_end();
}
