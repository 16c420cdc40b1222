/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pauses.c - how often the service thread looks for what it can let go of: ever more rarely while the device is busy,
 * from the beginning again when another buffer is unlinked, and not at all when nothing is due.
 *
 * The pauses are what the thread asks of poll(), which this program has in the library's stead.
 */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "harness.h"

#define PAUSES 4096

static struct broker_process broker;
static struct puppet a, b;

static _Atomic int pauses[PAUSES];
static _Atomic unsigned pause_count;

int poll(struct pollfd *on, nfds_t count, int timeout_ms)
{
	struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000 };
	unsigned number = atomic_load(&pause_count);

	if (number < PAUSES)
		atomic_store(&pauses[number], timeout_ms);
	atomic_store(&pause_count, number + 1);
	return (int)syscall(SYS_ppoll, on, count, timeout_ms < 0 ? NULL : &timeout, NULL, 0);
}

static int do_small(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 100;
	spec.flags = order->flags;
	return gpub_create(client, order->name, &spec);
}

/* How many pauses of that length there were, from that one on. */
static int do_count(const struct order *order)
{
	unsigned until = atomic_load(&pause_count);
	int found = 0;

	for (unsigned i = (unsigned)order->size; i < until && i < PAUSES; i++)
		found += atomic_load(&pauses[i]) == order->timeout;
	step_value = until;
	return found;
}

/* The last is longer than that: the thread sleeps so now, or is about to. */
static int do_last(const struct order *order)
{
	unsigned until = atomic_load(&pause_count);

	return until && until <= PAUSES && atomic_load(&pauses[until - 1]) > order->timeout;
}

static bool doubled(uint64_t from)
{
	for (int pause = 1; pause <= 128; pause *= 2)
		if (ask(&a, do_count, .timeout = pause, .size = from) < 1)
			return false;
	return true;
}

/*
 * All in one mapping, which one lease keeps open; what is returned on the stream lands once the timeline is signalled.
 */
static void prepare(void)
{
	static const char *const names[] = { "x", "y" };

	ask(&b, do_small, .name = "clock", .flags = GPUB_TIMELINE);
	ask(&b, do_acquire, .name = "clock");
	ask(&b, do_stream);
	ask(&a, do_stream);
	ask(&a, do_acquire, .name = "clock");
	ask(&a, do_small, .name = "held");
	ask(&a, do_acquire, .name = "held", .slot = 1);
	ask(&a, do_wait, .value = 1);
	for (int i = 0; i < 2; i++) {
		struct order order = { .run = do_small, .slot = 2 + i };

		strcpy(order.name, names[i]);
		puppet_tell(&a, order);
		receive(&a);
		order.run = do_acquire;
		puppet_tell(&a, order);
		receive(&a);
		if (ask(&a, do_return_on, .slot = 2 + i))
			bail_out("no lease of %s: %s", names[i], a.last.text);
	}
}

int main(void)
{
	uint64_t before;

	harness_begin("pauses", 60);
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	prepare();
	POINT(!ask(&a, do_count, .timeout = 1), "where nothing is due the service thread sleeps until it is told");
	ask(&b, do_unlink, .name = "x");
	POINT(SOON(ask(&a, do_count, .timeout = 128) >= 2) && doubled(0),
	      "what the device is busy with is looked at ever more rarely");
	ask(&a, do_count);
	before = a.last.value;
	POINT(SOON(ask(&a, do_count, .timeout = 128, .size = before) >= 1) &&
		      !ask(&a, do_count, .timeout = 1, .size = before) && !ask(&a, do_count, .timeout = 256),
	      "and no more rarely than that");
	ask(&b, do_unlink, .name = "y");
	POINT(SOON(doubled(before)), "what is unlinked then begins anew");
	ask(&b, do_signal, .value = 1);
	POINT(SOON(ask(&a, do_last, .timeout = 999)), "when all is let go of it sleeps again");
	POINT(SOON(status_counter(&broker, "ranges_cleaned") == 2), "and both were");
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
	return harness_end();
}
