/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blamed.c - a message at which brokers crash: after one crash the next broker handles it again; after two in a row its
 * session is cut, and nobody else notices more than the pause.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "common/crash-point.h"
#include "tests/integration/harness.h"

#define SECONDS 60

#ifndef CRASH_POINTS_ENABLED

int main(void)
{
	printf("1..0 # SKIP configure with --enable-crash-points\n");
	return 0;
}

#else

static struct broker_process broker;
static struct puppet guilty, other;
static char orders[64];

static void order(unsigned crashes)
{
	FILE *file = fopen(orders, "we");

	if (!file)
		bail_out("%s: %s", orders, strerror(errno));
	while (crashes--)
		fprintf(file, "request_received:1:abort:%d:-1\n", (int)guilty.pid);
	fclose(file);
}

static bool has_crashed(int times)
{
	json_t *text = status_json(&broker);
	json_t *restarts = json_object_get(json_object_get(text, "broker_process"), "restarts");
	bool good = broker_said(&broker, "a broker crashed") && json_integer_value(restarts) == times;

	json_decref(text);
	return good;
}

static void begin(void)
{
	char value[80];

	harness_begin("blamed", SECONDS);
	snprintf(orders, sizeof orders, "%s/orders", harness_directory());
	order(0);
	snprintf(value, sizeof value, "@%s", orders);
	setenv("TEST_BROKER", "brokerd", 1);
	setenv("GPUB_CRASH", value, 1);
	broker_start(&broker, "host");
	unsetenv("GPUB_CRASH");
	puppet_start(&other, &broker);
	puppet_start(&guilty, &broker);
	POINT(!ask(&other, do_stream) && !ask(&other, do_create, .name = "a") &&
		      !ask(&other, do_acquire, .name = "a", .slot = 1, .rights = GPUB_READ | GPUB_WRITE) &&
		      !ask(&other, do_write, .slot = 1, .value = 7) && !ask(&guilty, do_create, .name = "b"),
	      "two clients and their buffers");
}

int main(void)
{
	begin();
	order(1);
	POINT(!ask(&guilty, do_stat, .name = "b"),
	      "a message at which a broker crashes once is answered by the next one");
	POINT(SOON(has_crashed(1)), "the log and the status tell of the crash");
	order(2);
	POINT(ask(&guilty, do_stat, .name = "b") == -ECONNRESET, "who sent a message at which two crash is cut off");
	POINT(SOON(has_crashed(3)) && broker_said(&broker, "2 brokers in a row have crashed at its message"),
	      "and the log says why");
	POINT(!ask(&other, do_stat, .name = "a") && !ask(&other, do_read, .slot = 1) && other.last.value == 7 &&
		      !ask(&other, do_return, .slot = 1),
	      "another client goes on, and has its bytes");
	POINT(!ask(&other, do_unlink, .name = "a") && !ask(&other, do_unlink, .name = "b"),
	      "the buffers are there, also that of the other");
	puppet_kill(&guilty);
	puppet_end(&other);
	broker_end(&broker);
	unlink(orders);
	return harness_end();
}

#endif
