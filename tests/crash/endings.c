/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endings.c - ends of brokers after which the keeper does something else than to start the next one at once: a loop
 * that hangs, brokers that crash at one message, and brokers that crash, one after the other, before they serve.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "common/crash-point.h"
#include "tests/integration/harness.h"

#define SECONDS 120
#define HANG_S  40 /* the watchdog waits for 20 s */

#ifndef CRASH_POINTS_ENABLED

int main(void)
{
	printf("1..0 # SKIP configure with --enable-crash-points\n");
	return 0;
}

#else

static struct broker_process broker;
static struct puppet user, other;
static char orders[64];

static void order(const char *text)
{
	FILE *file = fopen(orders, "we");

	if (!file || fputs(text, file) < 0 || fclose(file))
		bail_out("%s: %s", orders, strerror(errno));
}

/* Whether the status has that number of the broker's process. */
static bool shows(const char *key, int number)
{
	json_t *text = status_json(&broker);
	json_t *value = json_object_get(json_object_get(text, "broker_process"), key);
	bool good = json_integer_value(value) == number;

	json_decref(text);
	return good;
}

static void begin(void)
{
	char value[80];

	harness_begin("endings", SECONDS);
	snprintf(orders, sizeof orders, "%s/orders", harness_directory());
	order("");
	snprintf(value, sizeof value, "@%s", orders);
	setenv("TEST_BROKER", "brokerd", 1);
	setenv("GPUB_CRASH", value, 1);
	broker_start(&broker, "host");
	unsetenv("GPUB_CRASH");
}

/* At the next requests of the user so many brokers do this. */
static void order_at_request(const char *action, unsigned times)
{
	char text[256];
	int length = 0;

	for (unsigned i = 0; i < times; i++)
		length += snprintf(text + length, sizeof text - (size_t)length, "request_received:1:%s:%d:-1\n", action,
				   (int)user.pid);
	order(text);
}

static void test_hang(void)
{
	puppet_start(&user, &broker);
	POINT(!ask(&user, do_stream) && !ask(&user, do_create, .name = "a") &&
		      !ask(&user, do_acquire, .name = "a", .slot = 1, .rights = GPUB_READ | GPUB_WRITE) &&
		      !ask(&user, do_write, .slot = 1, .value = 7),
	      "a client has a buffer");
	order_at_request("hang", 1);
	tell(&user, do_stat, .name = "a");
	for (unsigned i = 0; i < HANG_S * 10 && !puppet_answered(&user); i++)
		usleep(100000);
	POINT(!receive(&user), "a message at which the loop hangs is answered by the next broker");
	POINT(broker_said(&broker, "the loop of the broker (pid ") && broker_said(&broker, "a broker hung: process ") &&
		      SOON(shows("restarts", 1)),
	      "log and status tell of it");
	POINT(!ask(&user, do_read, .slot = 1) && user.last.value == 7 && !ask(&user, do_return, .slot = 1),
	      "and the client has its bytes");
}

/* After one crash at a message the next broker handles it again; after two in a row its session is cut. */
static void test_blame(void)
{
	puppet_start(&other, &broker);
	order_at_request("abort", 1);
	POINT(!ask(&user, do_stat, .name = "a"),
	      "a message at which a broker crashes once is answered by the next one");
	POINT(SOON(shows("restarts", 2)) && broker_said(&broker, "a broker crashed"), "log and status tell of it");
	order_at_request("abort", 2);
	POINT(ask(&user, do_stat, .name = "a") == -ECONNRESET, "who sent a message at which two crash is cut off");
	POINT(SOON(shows("restarts", 4)) && broker_said(&broker, "2 brokers in a row have crashed at its message"),
	      "and the log says why");
	POINT(!ask(&other, do_stat, .name = "a") && !ask(&other, do_stream) &&
		      !ask(&other, do_acquire, .name = "a", .slot = 1, .rights = GPUB_READ) &&
		      !ask(&other, do_read, .slot = 1) && other.last.value == 7 && !ask(&other, do_return, .slot = 1),
	      "another client goes on, and the buffer of the other has its bytes");
	puppet_end(&other);
	puppet_kill(&user);
	puppet_start(&user, &broker);
}

static void test_cold_start(void)
{
	pid_t owner = owner_of(broker.pid);

	order("takeover_begun:1:abort\ntakeover_begun:1:abort\ntakeover_begun:1:abort\n");
	kill(server_of(broker.pid), SIGKILL);
	POINT(ask(&user, do_stat, .name = "a") == -ECONNRESET,
	      "three that crash before they serve: the next one begins with nothing, and clients are cut off");
	POINT(SOON(shows("cold_starts", 1)) && broker_said(&broker, "the next one starts with nothing"),
	      "log and status tell of it");
	POINT(owner_of(broker.pid) != owner, "the owner is another one");
	puppet_kill(&user);
	puppet_start(&user, &broker);
	POINT(ask(&user, do_stat, .name = "a") == -ENOENT && !ask(&user, do_stream) &&
		      !ask(&user, do_create, .name = "a") &&
		      !ask(&user, do_acquire, .name = "a", .slot = 1, .rights = GPUB_READ | GPUB_WRITE) &&
		      !ask(&user, do_read, .slot = 1) && user.last.value == 0,
	      "a new client finds no buffer, and creates one, which is zeroed");
	POINT(memory_objects(&broker) == 1, "nothing of the memory before is left");
	order("takeover_begun:1:abort\ntakeover_begun:1:abort\n");
	kill(server_of(broker.pid), SIGKILL);
	POINT(!ask(&user, do_stat, .name = "a") && !ask(&user, do_return, .slot = 1) && shows("cold_starts", 1),
	      "after two crashes the third goes on with the buffer");
	puppet_end(&user);
}

int main(void)
{
	begin();
	test_hang();
	test_blame();
	test_cold_start();
	broker_end(&broker);
	unlink(orders);
	return harness_end();
}

#endif
