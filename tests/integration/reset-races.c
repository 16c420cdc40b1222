/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reset-races.c - a reset of the device is noticed by one thread while another is in the middle of a call, or while the
 * library is in the middle of a close or an open: nobody is given what is gone, and nothing is kept.
 *
 * The middle is a function of the device that the library calls there. It is replaced in the puppet by one that has the
 * other thread's part done first. Of the host device alone.
 */
#include <string.h>

#include "client/client.h"
#include "client/close.h"
#include "device/host.h"
#include "harness.h"

#define VALUE 4711

static struct broker_process broker;
static struct puppet a;

/* ---- steps ---- */

/* A device as it is, but for what is done once in the middle of one function. */
static struct device hooked;
static bool armed;

static bool due(void)
{
	bool now = armed;

	armed = false;
	return now;
}

static int hook(void)
{
	hooked = *client->device;
	client->device = &hooked;
	armed = true;
	return 0;
}

static int do_reset(const struct order *order)
{
	streams_forget();
	return host_reset((int)order->value);
}

/* Another thread's acquire, which notices the reset. */
static void notice(void)
{
	gpub_lease other;

	if (!gpub_acquire(client, "y", GPUB_READ, 0, &other))
		gpub_return(&other);
}

static uint64_t epoch_behind_notice(int ordinal)
{
	if (due())
		notice();
	return device_host.epoch(ordinal);
}

static int do_notice_at_epoch(const struct order *order)
{
	(void)order;
	hook();
	hooked.epoch = epoch_behind_notice;
	return 0;
}

/* All that it lets go of is given back at once. */
static void notice_and_trim(void)
{
	notice();
	gpub_trim(client);
}

static int stream_write_behind_notice(void *stream, uint64_t *word, uint64_t value)
{
	if (due())
		notice_and_trim();
	return device_host.stream_write(stream, word, value);
}

static int stream_wait_behind_notice(void *stream, const uint64_t *word, uint64_t value)
{
	if (due())
		notice_and_trim();
	return device_host.stream_wait(stream, word, value);
}

static int do_notice_at_stream(const struct order *order)
{
	(void)order;
	hook();
	hooked.stream_write = stream_write_behind_notice;
	hooked.stream_wait = stream_wait_behind_notice;
	return 0;
}

static int close_behind_reset(int ordinal, void *ptr)
{
	if (due())
		host_reset(ordinal);
	return device_host.close(ordinal, ptr);
}

static int do_reset_at_close(const struct order *order)
{
	(void)order;
	hook();
	hooked.close = close_behind_reset;
	return 0;
}

static int open_before_reset(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	int error = device_host.open(ordinal, handle, size, ptr);

	if (!error && due())
		host_reset(ordinal);
	return error;
}

static int map_before_reset(int ordinal, const struct device_memory *memory, void **ptr)
{
	int error = device_host.map(ordinal, memory, ptr);

	if (!error && due())
		host_reset(ordinal);
	return error;
}

static int do_reset_at_open(const struct order *order)
{
	(void)order;
	hook();
	hooked.open = open_before_reset;
	hooked.map = map_before_reset;
	return 0;
}

/*
 * The epoch that the handle was opened in; the device is reset behind that, and all that is listed then is looked
 * through.
 */
static uint64_t epoch_before_notice(int ordinal)
{
	uint64_t epoch = device_host.epoch(ordinal);

	hooked.epoch = device_host.epoch;
	host_reset(ordinal);
	pthread_mutex_lock(&client->lock);
	client_notice_reset(client, ordinal);
	pthread_mutex_unlock(&client->lock);
	return epoch;
}

static int open_and_wait_for_epoch(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	int error = device_host.open(ordinal, handle, size, ptr);

	if (!error && due())
		hooked.epoch = epoch_before_notice;
	return error;
}

static int map_and_wait_for_epoch(int ordinal, const struct device_memory *memory, void **ptr)
{
	int error = device_host.map(ordinal, memory, ptr);

	if (!error && due())
		hooked.epoch = epoch_before_notice;
	return error;
}

static int do_notice_behind_open(const struct order *order)
{
	(void)order;
	hook();
	hooked.open = open_and_wait_for_epoch;
	hooked.map = map_and_wait_for_epoch;
	return 0;
}

/* ---- */

/* Both are mapped, with the value in x, and returned. */
static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&a, do_create, .name = "y");
	if (ask(&a, do_acquire, .name = "x") || ask(&a, do_acquire, .name = "y", .slot = 1) ||
	    ask(&a, do_write, .value = VALUE) || ask(&a, do_return) || ask(&a, do_return, .slot = 1))
		bail_out("no leases: %s", a.last.text);
}

static void end(void)
{
	puppet_end(&a);
	broker_end(&broker);
}

static void test_renew(void)
{
	begin();
	ask(&a, do_reset);
	ask(&a, do_notice_at_epoch);
	POINT(!ask(&a, do_renew) && !ask(&a, do_return),
	      "invariant 8: a renew whose hold was ended while it looked for a reset gives no lease of what is gone");
	POINT(!ask(&a, do_renew) && !ask(&a, do_read) && a.last.value == VALUE, "but one of what is mapped anew");
	end();
}

static void test_renew_behind_stream(void)
{
	begin();
	ask(&a, do_renew);
	ask(&a, do_stream);
	ask(&a, do_return_on);
	ask(&a, do_sync);
	ask(&a, do_reset);
	ask(&a, do_notice_at_epoch);
	POINT(!ask(&a, do_renew) && !ask(&a, do_return),
	      "invariant 8: nor does one of a lease that was returned on a stream");
	end();
}

static void test_acquire(void)
{
	begin();
	ask(&a, do_reset);
	ask(&a, do_notice_at_epoch);
	POINT(!ask(&a, do_acquire, .name = "x", .slot = 2) && !ask(&a, do_return, .slot = 2),
	      "invariant 8: nor does an acquire");
	end();
}

/* The lease is one of before the reset, and stands until that is noticed. */
static void test_timeline(step *run, uint64_t value, const char *what)
{
	begin();
	ask(&a, do_renew);
	ask(&a, do_stream);
	ask(&a, do_signal, .value = 5);
	ask(&a, do_wait, .value = 5);
	ask(&a, do_sync);
	ask(&a, do_reset);
	ask(&a, do_stream);
	ask(&a, do_notice_at_stream);
	POINT(!ask(&a, run, .value = value), "%s is not disturbed when its lease ends meanwhile", what);
	POINT(!ask(&a, do_acquire, .name = "x") && !ask(&a, do_signal, .value = 7) && !ask(&a, do_wait, .value = 7) &&
		      !ask(&a, do_sync) && !ask(&a, do_timeline) && a.last.value == 7,
	      "and the timeline goes on");
	end();
}

/* As the closer's: a program that resets a device cannot know of it. */
static void test_close(void)
{
	begin();
	ask(&a, do_reset_at_close);
	POINT(!ask(&a, do_trim), "a close that finds nothing, for the device was reset, has not failed");
	POINT(SOON(status_counter(&broker, "mappings_closed") == 2), "invariant 10: what was mapped is given back");
	POINT(!ask(&a, do_acquire, .name = "x") && !ask(&a, do_acquire, .name = "y", .slot = 1) && !ask(&a, do_read) &&
		      a.last.value == VALUE,
	      "and can be mapped anew");
	end();
}

/* As the library's thread opens what was asked for by a caller that no longer waits. */
static void test_open(step *at, const char *what)
{
	begin();
	ask(&a, do_trim);
	ask(&a, at);
	POINT(!ask(&a, do_acquire, .name = "x"), "the device is reset %s", what);
	POINT(!ask(&a, do_acquire, .name = "x", .slot = 1) && !ask(&a, do_return) && !ask(&a, do_read, .slot = 1) &&
		      a.last.value == VALUE,
	      "invariant 8: what is given out is mapped");
	ask(&a, do_return, .slot = 1);
	POINT(!ask(&a, do_trim) && SOON(status_counter(&broker, "mappings_closed") == 3),
	      "invariant 10: and closes");
	end();
}

int main(void)
{
	harness_begin("reset-races", 60);
	test_renew();
	test_renew_behind_stream();
	test_acquire();
	test_timeline(do_signal, 6, "a signal");
	test_timeline(do_wait, 5, "a wait");
	test_close();
	test_open(do_reset_at_open, "as soon as a handle is open");
	test_open(do_notice_behind_open, "and that is noticed, before a mapping is listed");
	return harness_end();
}
