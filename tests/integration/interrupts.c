/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupts.c - gpub_set_interrupt(): each call that waits ends when its thread's function says so, nothing of it is
 * left in the broker, and whoever waits behind it goes on.
 *
 * The function of puppet a says so while the buffer "go" is called "stop", as puppet c calls it when the call is seen
 * to wait. It asks the broker itself, as the signal handler of an interpreter may: so no lock is held while it runs.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "harness.h"

#define MIB (1u << 20)

static struct broker_process broker;
static struct puppet a, b, c;

/* ---- in the puppet ---- */

static int stop_is_there(void *context)
{
	gpub_info info = { .struct_size = sizeof info };

	(void)context;
	return !gpub_stat(client, "stop", &info);
}

static int do_interrupt(const struct order *order)
{
	(void)order;
	return gpub_set_interrupt(stop_is_there, NULL);
}

static int always(void *context)
{
	(void)context;
	return 1;
}

static int do_interrupt_always(const struct order *order)
{
	(void)order;
	return gpub_set_interrupt(always, NULL);
}

static const struct order *signalling; /* of the signal under way */
static int own_signal;                  /* what the function's own signal returned */

/* Lets the broker go on, and signals the same timeline, at first or before the call that it interrupts. */
static int signal_too(void *context)
{
	(void)context;
	broker_resume(&broker);
	own_signal = gpub_signal_on(&lease[signalling->slot], (uint64_t)signalling->size, work);
	return 0;
}

/* order.value: what it signals; order.size: what its function signals. answer.value: what the timeline reaches. */
static int do_signal_twice(const struct order *order)
{
	int error;

	signalling = order;
	gpub_set_interrupt(signal_too, NULL);
	error = gpub_signal_on(&lease[order->slot], order->value, work);
	gpub_set_interrupt(stop_is_there, NULL);
	if (own_signal || gpub_stream_sync(work) || gpub_timeline(&lease[order->slot], &step_value))
		return -EPROTO;
	return error;
}

static int do_connect_again(const struct order *order)
{
	gpub_client *other;

	(void)order;
	return gpub_connect(&other, NULL);
}

static int do_acquire_many(const struct order *order)
{
	static const char *const names[] = { "missing", "x", "missing-too" };

	return gpub_acquire_many(client, names, 3, GPUB_READ, order->timeout, &lease[4]);
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

static int do_acquire_bad(const struct order *order)
{
	static const char *const names[] = { "missing", "no name" };

	return gpub_acquire_many(client, names, 2, GPUB_READ, order->timeout, &lease[4]);
}

/* Another thread of the process, without a function. */
static pthread_t  first;
static gpub_lease first_lease;

static void *first_main(void *argument)
{
	return gpub_acquire(client, "late", GPUB_READ, -1, &first_lease) ? argument : NULL;
}

static int do_begin_first(const struct order *order)
{
	(void)order;
	return -pthread_create(&first, NULL, first_main, &first_lease);
}

static int do_end_first(const struct order *order)
{
	void *failed;

	(void)order;
	return pthread_join(first, &failed) || failed ? -EPROTO : gpub_return(&first_lease);
}

/* ---- the points ---- */

static bool waiting(int64_t count)
{
	return SOON(status_number(&broker, "waiting") == count);
}

/* What puppet a waits in ends, and of all that wait so many are left. */
static bool interrupted(int64_t left)
{
	int result;

	ask(&c, do_rename, .name = "go stop");
	result = receive(&a);
	ask(&c, do_rename, .name = "stop go");
	if (result != -EINTR)
		printf("# %d: %s\n", result, a.last.text);
	return result == -EINTR && waiting(left);
}

static void begin(void)
{
	setenv("GPUB_HOST_MEMORY", "64M", 1);
	broker_start(&broker, "host");
	unsetenv("GPUB_HOST_MEMORY");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	puppet_start(&c, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&c, do_create, .name = "go");
	ask(&b, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "x");
	ask(&b, do_acquire, .name = "x");
	ask(&a, do_interrupt);
}

/* b is gone. */
static void end(void)
{
	puppet_end(&a);
	puppet_end(&c);
	broker_end(&broker);
}

static void test_names(void)
{
	tell(&a, do_acquire, .name = "missing", .timeout = -1, .slot = 1);
	POINT(waiting(1) && interrupted(0), "gpub_acquire() is interrupted, and nothing waits for it");
	tell(&a, do_acquire, .name = "missing", .timeout = 60000, .slot = 1);
	POINT(waiting(1) && interrupted(0), "also one with a timeout");
	tell(&a, do_acquire_many, .timeout = -1);
	POINT(waiting(2) && interrupted(0), "gpub_acquire_many() is interrupted");
	POINT(ask(&a, do_acquire_bad, .timeout = -1) == -EINVAL && waiting(0),
	      "one with a name that cannot be does not wait for the others");
	tell(&a, do_newer, .name = "missing", .timeout = -1);
	POINT(waiting(1) && interrupted(0), "gpub_wait_newer() is interrupted");
	ask(&b, do_create, .name = "missing");
	POINT(!ask(&a, do_acquire, .name = "missing", .slot = 1) && !ask(&a, do_return, .slot = 1),
	      "the name can be acquired when it is there");
}

/* A process asks the broker once: the thread that joined goes, and the one that asked stays. */
static void test_joined(void)
{
	ask(&a, do_begin_first);
	POINT(waiting(1), "a thread without a function waits for a name");
	tell(&a, do_acquire, .name = "late", .timeout = -1, .slot = 1);
	POINT(interrupted(1), "another one that waits for it is interrupted alone");
	ask(&b, do_create, .name = "late");
	POINT(!ask(&a, do_end_first), "the first waits until the name is there");
}

static void test_memory(void)
{
	ask(&c, do_create, .name = "big", .size = 32 * MIB);
	ask(&c, do_create, .name = "growing", .size = 2 * MIB, .value = 64 * MIB);
	tell(&a, do_create, .name = "large", .size = 56 * MIB, .timeout = -1);
	POINT(waiting(1), "a create waits for memory");
	tell(&b, do_create, .name = "behind", .size = 4 * MIB, .timeout = -1);
	POINT(waiting(2), "and behind it one for which there is enough");
	POINT(interrupted(0) && !receive(&b), "gpub_create() is interrupted, and the next goes on");
	POINT(!ask(&b, do_create, .name = "large"), "its name is free");
	tell(&a, do_resize, .name = "growing", .size = 60 * MIB, .timeout = -1);
	POINT(waiting(1) && interrupted(0), "gpub_resize() is interrupted");
	POINT(!ask(&a, do_resize, .name = "growing", .size = 4 * MIB), "and the buffer can be resized again");
}

static void test_drain(void)
{
	ask(&b, do_create, .name = "held");
	ask(&b, do_acquire, .name = "held", .slot = 1);
	tell(&a, do_drain, .name = "held", .timeout = -1);
	POINT(waiting(1) && interrupted(0), "gpub_drain() is interrupted");
	ask(&b, do_return, .slot = 1);
}

static void test_device(void)
{
	tell(&a, do_await, .value = 1, .timeout = -1);
	POINT(interrupted(0), "gpub_timeline_wait() is interrupted");
	ask(&a, do_wait, .value = 1);
	tell(&a, do_sync);
	POINT(interrupted(0), "gpub_stream_sync() is interrupted");
	ask(&b, do_signal, .value = 1);
	POINT(!ask(&a, do_sync), "and the stream goes on");
}

/* The first signal waits for the broker, which is to make the session the writer. Meanwhile the function signals. */
static void test_signal(void)
{
	ask(&a, do_create, .name = "y", .flags = GPUB_TIMELINE);
	ask(&a, do_create, .name = "z", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "y", .slot = 2);
	ask(&a, do_acquire, .name = "z", .slot = 3);
	broker_pause(&broker);
	POINT(!ask(&a, do_signal_twice, .slot = 2, .value = 2, .size = 1) && a.last.value == 2,
	      "a function may signal the timeline that its call is about to signal");
	broker_pause(&broker);
	POINT(ask(&a, do_signal_twice, .slot = 3, .value = 1, .size = 2) == -EINVAL && a.last.value == 2,
	      "after a larger value of the function the call's own is refused");
	ask(&a, do_return, .slot = 2);
	ask(&a, do_return, .slot = 3);
}

/* A disconnect that is cut short would be a death. */
static void test_disconnect(void)
{
	ask(&b, do_interrupt_always);
	puppet_end(&b);
	POINT(!ask(&a, do_timeline) && a.last.value == 1, "gpub_disconnect() is not interrupted: the writer has left");
}

/* The answer does not come: after the second time the call does not wait for it any longer. */
static void test_stopped_broker(void)
{
	ask(&a, do_interrupt_always);
	broker_pause(&broker);
	tell(&a, do_stat, .name = "x");
	POINT(receive(&a) == -EINTR, "a call of a broker that does not answer is interrupted");
	POINT(ask(&a, do_connect_again) == -EINTR, "so is a connect");
	broker_resume(&broker);
	ask(&a, do_interrupt);
	POINT(!ask(&a, do_stat, .name = "x"), "and the next one is answered when it does");
}

int main(void)
{
	harness_begin("interrupts", 120);
	begin();
	test_names();
	test_joined();
	test_memory();
	test_drain();
	test_device();
	test_signal();
	test_disconnect();
	test_stopped_broker();
	end();
	return harness_end();
}
