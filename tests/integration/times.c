/* SPDX-License-Identifier: Apache-2.0 */
/*
 * times.c - what a client asked for and got is timed once, in the histogram of its kind; what is refused, and what the
 * broker makes for itself, is not.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"

static struct broker_process broker;

/* -1: it has no such histogram. */
static int64_t timed(const char *kind, const char *key)
{
	json_t *status = status_json(&broker);
	const json_t *value = json_object_get(json_object_get(json_object_get(status, "times"), kind), key);
	int64_t number = value ? json_integer_value(value) : -1;

	json_decref(status);
	return number;
}

static bool counts(int64_t creates, int64_t acquires, int64_t waits, int64_t drains)
{
	return timed("create", "count") == creates && timed("acquire", "count") == acquires &&
	       timed("acquire_wait", "count") == waits && timed("drain", "count") == drains;
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

int main(void)
{
	struct puppet a, b;

	harness_begin("times", 60);
	broker_start(&broker, "host");
	POINT(SOON(counts(0, 0, 0, 0)), "a broker that starts has timed nothing");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_create, .name = "x");
	POINT(SOON(counts(1, 0, 0, 0)), "a create is timed");
	POINT(timed("create", "nanoseconds") > 0, "it took some time");
	ask(&a, do_acquire, .name = "x", .rights = GPUB_READ);
	POINT(SOON(counts(1, 1, 0, 0)), "an acquire is timed");
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "none", .rights = GPUB_READ, .slot = 1);
	tell(&b, do_acquire, .name = "later", .rights = GPUB_READ, .timeout = -1);
	POINT(SOON(status_number(&broker, "waiting") == 1), "another process waits for a name");
	ask(&a, do_create, .name = "later");
	POINT(receive(&b) == 0 && SOON(counts(2, 1, 1, 0)),
	      "its wait is timed, and neither a refused create nor a refused acquire");
	tell(&a, do_drain, .name = "later", .timeout = -1);
	POINT(SOON(status_buffers(&broker, "later", "draining") == 1) && counts(2, 1, 1, 0),
	      "a drain that waits is not timed yet");
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(receive(&a) == 0 && SOON(counts(2, 1, 1, 1)), "it is when its memory is freed");
	POINT(timed("acquire_wait", "nanoseconds") > timed("acquire", "nanoseconds"),
	      "a wait takes longer than an acquire");
	puppet_end(&b);
	puppet_end(&a);
	broker_end(&broker);
	return harness_end();
}
