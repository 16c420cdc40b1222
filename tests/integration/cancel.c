/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.c - pthread_cancel() of a thread that waits in the library: the call ends as if nobody had cancelled it, then
 * the thread does, and meanwhile and afterwards all other threads go on.
 *
 * A thread cancels itself before each call: without the library's doing it would end at the first cancellation point in
 * it, with locks taken and waiters on its stack. So no verdict depends on when the cancel arrives. Each wait is ended
 * by another process, once the others were seen to go on.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "harness.h"

#define MIB (1u << 20)

static struct broker_process broker;
static struct puppet a, b;

/* ---- in the puppet: a thread in a waiting call ---- */

static int (*wait_in)(void);
static pthread_t waiting;
static bool waits;
static int wait_result;
static _Atomic bool wait_began;

static void *waiter_main(void *argument)
{
	atomic_store(&wait_began, true);
	pthread_cancel(pthread_self());
	wait_result = wait_in();
	pthread_testcancel();
	wait_result = -EPROTO; /* the cancel was lost */
	return argument;
}

static int begin_wait(int (*function)(void))
{
	wait_in = function;
	wait_result = -EINTR; /* cancelled in the call */
	atomic_store(&wait_began, false);
	waits = !pthread_create(&waiting, NULL, waiter_main, NULL);
	while (waits && !atomic_load(&wait_began))
		usleep(100);
	return waits ? 0 : -EAGAIN;
}

/* What the call returned, if its thread was cancelled behind it. */
static int do_end_wait(const struct order *order)
{
	void *ended = NULL;

	(void)order;
	if (!waits || pthread_join(waiting, &ended))
		return -ESRCH;
	waits = false;
	return ended == PTHREAD_CANCELED ? wait_result : -EPROTO;
}

static int wait_acquire(void)
{
	return gpub_acquire(client, "late", GPUB_READ, -1, &lease[2]);
}

static int wait_acquire_many(void)
{
	static const char *const names[] = { "x", "late2" };

	return gpub_acquire_many(client, names, 2, GPUB_READ, -1, &lease[3]);
}

static int wait_create(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 24 * MIB;
	spec.timeout_ms = -1;
	return gpub_create(client, "large", &spec);
}

static int wait_drain(void)
{
	return gpub_drain(client, "drained", -1);
}

static int wait_sync(void)
{
	return gpub_stream_sync(work);
}

static int wait_trim(void)
{
	return gpub_trim(client);
}

static int wait_disconnect(void)
{
	gpub_disconnect(client);
	return 0;
}

static int do_wait_in(const struct order *order)
{
	static int (*const waits_in[])(void) = { wait_acquire, wait_acquire_many, wait_create,    wait_drain,
						 wait_sync,    wait_trim,         wait_disconnect };

	return begin_wait(waits_in[order->value]);
}

enum { ACQUIRE, ACQUIRE_MANY, CREATE, DRAIN, SYNC, TRIM, DISCONNECT };

/* Questions to the broker and what needs none: by another thread of the same client. */
static int do_go_on(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_lease held;
	int error = 0;

	(void)order;
	for (int i = 0; !error && i < 100; i++) {
		error = gpub_stat(client, "x", &info);
		if (!error)
			error = gpub_acquire(client, "x", GPUB_READ, 0, &held);
		if (!error)
			error = gpub_return(&held);
	}
	return error;
}

static int do_cancel_service(const struct order *order)
{
	(void)order;
	return pthread_cancel(client->service) || pthread_cancel(client->closer);
}

static int do_background(const struct order *order)
{
	(void)order;
	return gpub_set_flags(client, GPUB_BACKGROUND_CLOSE);
}

/* ---- the points ---- */

static void begin(void)
{
	setenv("GPUB_HOST_MEMORY", "32M", 1);
	broker_start(&broker, "host");
	unsetenv("GPUB_HOST_MEMORY");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&a, do_create, .name = "x");
	ask(&a, do_create, .name = "t", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "t", .slot = 1);
	ask(&b, do_acquire, .name = "t", .slot = 1);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static void expect_others_go_on(const char *call)
{
	POINT(!ask(&a, do_go_on), "while a cancelled thread waits in %s(), other threads go on", call);
}

static void expect_end(const char *call)
{
	int result = ask(&a, do_end_wait);

	if (result)
		printf("# %d: %s\n", result, result == -EINTR ? "cancelled in the call" : a.last.text);
	POINT(!result, "%s() ends as it would have, and then its thread", call);
	POINT(!ask(&a, do_go_on), "and the others go on");
}

static void test_names(void)
{
	ask(&a, do_wait_in, .value = ACQUIRE);
	expect_others_go_on("gpub_acquire");
	ask(&b, do_create, .name = "late");
	expect_end("gpub_acquire");
	POINT(!ask(&a, do_return, .slot = 2), "what it acquired can be returned by another thread");
	ask(&a, do_wait_in, .value = ACQUIRE_MANY);
	expect_others_go_on("gpub_acquire_many");
	ask(&b, do_create, .name = "late2");
	expect_end("gpub_acquire_many");
	ask(&a, do_return, .slot = 3);
	ask(&a, do_return, .slot = 4);
}

static void test_memory(void)
{
	ask(&b, do_create, .name = "big", .size = 16 * MIB);
	ask(&a, do_wait_in, .value = CREATE);
	expect_others_go_on("gpub_create");
	ask(&b, do_unlink, .name = "big");
	expect_end("gpub_create");
	ask(&b, do_create, .name = "drained");
	ask(&b, do_acquire, .name = "drained", .slot = 2);
	ask(&a, do_wait_in, .value = DRAIN);
	expect_others_go_on("gpub_drain");
	ask(&b, do_return_on, .slot = 2);
	ask(&b, do_sync);
	ask(&b, do_trim);
	expect_end("gpub_drain");
}

/* Behind a stream that waits for the other process. */
static void test_device(void)
{
	ask(&a, do_wait, .slot = 1, .value = 1);
	ask(&a, do_wait_in, .value = SYNC);
	expect_others_go_on("gpub_stream_sync");
	ask(&b, do_signal, .slot = 1, .value = 1);
	expect_end("gpub_stream_sync");
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_wait, .slot = 1, .value = 2);
	ask(&a, do_return_on);
	ask(&a, do_wait_in, .value = TRIM);
	expect_others_go_on("gpub_trim");
	ask(&b, do_signal, .slot = 1, .value = 2);
	expect_end("gpub_trim");
}

static void test_disconnect(void)
{
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_wait, .slot = 1, .value = 3);
	ask(&a, do_return_on);
	ask(&a, do_wait_in, .value = DISCONNECT);
	ask(&b, do_signal, .slot = 1, .value = 3);
	POINT(!ask(&a, do_end_wait), "gpub_disconnect() ends as it would have, and then its thread");
	POINT(SOON(!status_holders(&broker, NULL, a.pid)), "and nothing is held any more");
}

/*
 * The library's own threads have ids, which whoever has an id may cancel: a tool's code, called on one, for example.
 * Last, for nothing may be parked in a process whose closer is at work.
 */
static void test_own_threads(void)
{
	puppet_end(&a);
	puppet_start(&a, &broker);
	ask(&a, do_stream);
	ask(&a, do_background);
	POINT(!ask(&a, do_cancel_service), "the library's own threads are cancelled");
	ask(&b, do_create, .name = "y");
	ask(&a, do_acquire, .name = "y");
	ask(&a, do_return);
	ask(&b, do_unlink, .name = "y");
	POINT(SOON(!status_buffers(&broker, "y", NULL)), "and go on: what is unlinked is let go of in the background");
	POINT(!ask(&a, do_go_on), "and others go on");
}

int main(void)
{
	harness_begin("cancel", 60);
	begin();
	test_names();
	test_memory();
	test_device();
	test_disconnect();
	test_own_threads();
	end();
	return harness_end();
}
