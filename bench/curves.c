/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curves.c - how figures grow: one line a point, named CURVE/PARAMETER=VALUE.
 *
 * "renew/clients=N": processor time of gpub_renew() + gpub_return(), N processes at once, each on the same mapped
 * buffer.
 * "first/clients=N": first acquires a second of N processes together, 16 names each, closing them again within the
 * time;
 *                    against the bare round trips that N processes get of one server (floor.h).
 * "name/buffers=N":  gpub_acquire() by name + gpub_return() of N mapped buffers in an order without pattern.
 * "create/bytes=N", "first/bytes=N": creating a buffer of that size, and its first acquire.
 */
#include <string.h>
#include <time.h>

#include "bench.h"
#include "clients.h"
#include "floor.h"

struct point {
	struct bench  bench, more;
	struct floor *floor;
	unsigned      clients;
	char          name[64], more_name[64];
};

static void point_begin(struct point *point, const char *curve, const char *parameter, uint64_t value, const char *unit)
{
	snprintf(point->name, sizeof point->name, "%s/%s=%llu", curve, parameter, (unsigned long long)value);
	bench_begin(&point->bench, point->name, unit);
}

/* ---- renew ---- */

#define RENEWS 20000 /* a sample */

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void renew_main(unsigned number, void *context)
{
	struct point *point = context;
	gpub_client *client;
	gpub_lease lease;

	(void)number;
	bench_must(gpub_connect(&client, NULL));
	bench_must(gpub_acquire(client, "shared", GPUB_READ, -1, &lease));
	bench_must(gpub_return(&lease));
	clients_meet();
	for (int sample = 0; sample < 50; sample++) {
		double began = cpu_ns();

		for (int i = 0; i < RENEWS; i++)
			if (gpub_renew(&lease) || gpub_return(&lease))
				bench_fail("renew: %s", gpub_strerror_last());
		bench_sample(&point->bench, BENCH_OURS, (cpu_ns() - began) / RENEWS);
	}
	clients_meet();
	gpub_disconnect(client);
}

static void create_shared(unsigned number, void *context)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_client *client;

	(void)number;
	(void)context;
	spec.size = 4096;
	bench_must(gpub_connect(&client, NULL));
	bench_must(gpub_create(client, "shared", &spec));
	gpub_disconnect(client);
}

static void renew_point(unsigned clients)
{
	struct point point;

	point_begin(&point, "renew", "clients", clients, "ns");
	clients_run(clients, renew_main, &point);
	bench_end(&point.bench);
}

/* ---- first acquires ---- */

#define NAMES  16 /* a client */
#define PASSES 40 /* of all clients together */

static void first_pass(gpub_client *client, unsigned number)
{
	char name[CLIENTS_NAME];
	gpub_lease lease;

	for (unsigned i = 0; i < NAMES; i++) {
		clients_name(name, (number * NAMES + i) % (64 * NAMES));
		bench_must(gpub_acquire(client, name, GPUB_READ, 0, &lease));
		bench_must(gpub_return(&lease));
	}
	bench_must(gpub_trim(client));
}

static void first_main(unsigned number, void *context)
{
	struct point *point = context;
	unsigned passes = 1 + PASSES / point->clients;
	double total = (double)passes * NAMES * point->clients;
	gpub_client *client;
	uint64_t began;

	bench_must(gpub_connect(&client, NULL));
	for (int sample = 0; sample < 5; sample++) {
		clients_meet();
		began = bench_now_ns();
		for (unsigned i = 0; i < passes * NAMES; i++)
			floor_round(point->floor, number, 1);
		clients_meet();
		if (!number)
			bench_sample(&point->bench, BENCH_PEER, total / ((double)(bench_now_ns() - began) / 1e9));
		began = bench_now_ns();
		for (unsigned i = 0; i < passes; i++)
			first_pass(client, number);
		clients_meet();
		if (!number)
			bench_sample(&point->bench, BENCH_OURS, total / ((double)(bench_now_ns() - began) / 1e9));
	}
	gpub_disconnect(client);
}

static void first_point(unsigned clients)
{
	struct point point = { .clients = clients };

	point.floor = floor_start(clients, 1);
	point_begin(&point, "first", "clients", clients, "1/s");
	clients_run(clients, first_main, &point);
	bench_end(&point.bench);
	floor_stop(point.floor);
}

static void clients_curves(void)
{
	static const unsigned clients[] = { 1, 2, 4, 8, 16, 32, 64 };
	struct bench_broker broker;

	bench_pin(1); /* where the floor's server is too */
	clients_broker_start(&broker, 1000);
	clients_run(1, create_shared, NULL);
	for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
		renew_point(clients[i]);
	if (clients_create_apart(64 * NAMES, 4096) < 64 * NAMES)
		bench_fail("curves: the broker has no room");
	for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
		first_point(clients[i]);
	bench_broker_stop(&broker);
}

/* ---- buffers ---- */

static void name_point(gpub_client *client, unsigned count)
{
	struct point point;

	clients_map(client, count);
	point_begin(&point, "name", "buffers", count, "ns");
	clients_sample_by_name(client, count, &point.bench, 1000);
	bench_end(&point.bench);
}

static void name_main(unsigned number, void *context)
{
	unsigned count = *(unsigned *)context;
	gpub_client *client;

	(void)number;
	bench_must(gpub_connect(&client, NULL));
	count = clients_create(client, count, 4096);
	for (unsigned n = 1; n <= count; n *= 10)
		name_point(client, n);
	gpub_disconnect(client);
}

static void buffers_curve(void)
{
	unsigned count = clients_buffers(100000);
	struct bench_broker broker;

	bench_pin(1);
	clients_broker_start(&broker, count);
	clients_run(1, name_main, &count);
	bench_broker_stop(&broker);
}

/* ---- sizes ---- */

static void size_main(unsigned number, void *context)
{
	gpub_client *client;

	(void)number;
	(void)context;
	bench_must(gpub_connect(&client, NULL));
	for (uint64_t size = 4096; size <= 1u << 30; size *= 8) {
		struct point point;
		int rounds = size <= 1 << 21 ? 50 : size <= 1 << 27 ? 5 : 1;

		point_begin(&point, "create", "bytes", size, "us");
		snprintf(point.more_name, sizeof point.more_name, "first/bytes=%llu", (unsigned long long)size);
		bench_begin(&point.more, point.more_name, "us");
		for (int i = 0; i < rounds; i++)
			bench_must(clients_sample_size(client, size, &point.bench, &point.more));
		bench_end(&point.bench);
		bench_end(&point.more);
	}
	gpub_disconnect(client);
}

static void sizes_curve(void)
{
	struct bench_broker broker;

	bench_broker_start(&broker, "host");
	clients_run(1, size_main, NULL);
	bench_broker_stop(&broker);
}

int main(void)
{
	clients_curves();
	buffers_curve();
	sizes_curve();
	return 0;
}
