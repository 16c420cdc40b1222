/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visible.c - broker and clients see different host devices, in different orders, and agree which is which.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* An environment's GPUB_HOST_VISIBLE for what is started next; NULL: none. */
static void see(const char *devices)
{
	if (devices)
		setenv("GPUB_HOST_VISIBLE", devices, 1);
	else
		unsetenv("GPUB_HOST_VISIBLE");
}

static void client_start(struct puppet *puppet, const struct broker_process *broker, const char *devices)
{
	see(devices);
	puppet_start_unconnected(puppet, broker);
	see(NULL);
}

/* order.value: the ordinal */
static int do_set_device(const struct order *order)
{
	return gpub_set_device(client, (int)order->value);
}

/* order.value: the ordinal */
static int do_create_on(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 65536;
	spec.device = (int)order->value;
	return gpub_create(client, order->name, &spec);
}

/* Value: the number of the host device that has the buffer; result: this process's ordinal of it. */
static int do_where(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	unsigned number = 99;
	int error = gpub_stat(client, order->name, &info);

	if (error)
		return error;
	sscanf((const char *)info.device_uuid, "host device %u", &number);
	step_value = number;
	return info.device;
}

static int do_count(const struct order *order)
{
	int count = 0, error = gpub_device_count(client, &count);

	(void)order;
	return error ? error : count;
}

/* The step with a name that is no literal: its result. */
static int on(struct puppet *puppet, step *run, const char *name, uint64_t value)
{
	struct order order = { .run = run, .value = value, .size = value };

	snprintf(order.name, sizeof order.name, "%s", name);
	puppet_tell(puppet, order);
	return receive(puppet);
}

static bool is_at(struct puppet *puppet, const char *name, int ordinal, uint64_t number)
{
	return on(puppet, do_where, name, 0) == ordinal && puppet->last.value == number;
}

static bool write_at(struct puppet *puppet, const char *name, uint64_t ordinal, uint64_t value)
{
	return !ask(puppet, do_set_device, .value = ordinal) && !on(puppet, do_acquire, name, 0) &&
	       !ask(puppet, do_write, .value = value) && !ask(puppet, do_return);
}

static bool reads_at(struct puppet *puppet, const char *name, uint64_t ordinal, uint64_t value)
{
	return !ask(puppet, do_set_device, .value = ordinal) && !on(puppet, do_acquire, name, 0) &&
	       !ask(puppet, do_read) && puppet->last.value == value && !ask(puppet, do_return);
}

static void broker_sees_one(void)
{
	struct broker_process broker;
	struct puppet all, same, none;

	see("1");
	broker_start(&broker, "host:2");
	client_start(&all, &broker, NULL);
	client_start(&same, &broker, "1");
	client_start(&none, &broker, "0");
	POINT(!ask(&all, do_connect), "a client that sees all devices connects to a broker that sees one: %s",
	      all.last.text);
	POINT(ask(&all, do_count) == 1, "and may use that one");
	POINT(!ask(&same, do_connect) && ask(&same, do_count) == 1, "so does one that sees the same: %s",
	      same.last.text);
	POINT(ask(&none, do_connect) == -ENODEV, "one that sees only the other is refused: %s", none.last.text);
	POINT(!ask(&all, do_create_on, .name = "x", .value = 1) && is_at(&all, "x", 1, 1) && is_at(&same, "x", 0, 1),
	      "each knows the device by its own ordinal");
	POINT(ask(&all, do_create_on, .name = "y", .value = 0) == -ENODEV, "a device that the broker does not see");
	POINT(write_at(&all, "x", 1, 41) && reads_at(&same, "x", 0, 41), "they share a buffer");
	puppet_kill(&none);
	puppet_end(&all);
	puppet_end(&same);
	broker_end(&broker);
}

static void clients_permuted(void)
{
	struct broker_process broker;
	struct puppet straight, crossed, crossed_too;

	see(NULL);
	broker_start(&broker, "host:2");
	client_start(&straight, &broker, "0,1");
	client_start(&crossed, &broker, "1,0");
	client_start(&crossed_too, &broker, "1,0");
	POINT(!ask(&straight, do_connect) && !ask(&crossed, do_connect) && !ask(&crossed_too, do_connect),
	      "clients that number the devices differently");
	POINT(!ask(&crossed, do_create_on, .name = "x", .value = 0) && is_at(&crossed, "x", 0, 1) &&
	      is_at(&straight, "x", 1, 1),
	      "a buffer on the first device of one is on the second of the other");
	POINT(write_at(&crossed, "x", 0, 42) && reads_at(&straight, "x", 1, 42) && reads_at(&crossed_too, "x", 0, 42),
	      "they share it on its own device");
	POINT(write_at(&straight, "x", 0, 43) && reads_at(&crossed, "x", 0, 43), "and across devices");
	puppet_end(&straight);
	puppet_end(&crossed);
	puppet_end(&crossed_too);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("visible", 60);
	broker_sees_one();
	clients_permuted();
	return harness_end();
}
