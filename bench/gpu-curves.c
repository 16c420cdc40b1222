/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-curves.c - how figures grow on CUDA devices: one line a point, named CURVE/PARAMETER=VALUE.
 *
 * "create/bytes=N", "first/bytes=N": creating a buffer of that size, and its first acquire, as far as memory goes.
 * "create/gpus=N", "first/gpus=N": creates, and first acquires, a second of N processes together, each on a device of
 * its own; draining, returning and closing again lie within the time.
 */
#include "clients.h"
#include "gpu.h"

/* ---- sizes ---- */

#define LARGEST ((uint64_t)64 << 30)

struct point {
	struct bench create, first;
	char         create_name[64], first_name[64];
	unsigned     clients;
};

static void point_begin(struct point *point, const char *parameter, uint64_t value, const char *unit)
{
	snprintf(point->create_name, sizeof point->create_name, "create/%s=%llu", parameter, (unsigned long long)value);
	snprintf(point->first_name, sizeof point->first_name, "first/%s=%llu", parameter, (unsigned long long)value);
	bench_begin(&point->create, point->create_name, unit);
	bench_begin(&point->first, point->first_name, unit);
}

static void point_end(struct point *point)
{
	bench_end(&point->create);
	bench_end(&point->first);
}

/* False: there is no room for one of that size. */
static bool size_round(gpub_client *client, struct point *point, uint64_t size)
{
	if (!clients_sample_size(client, size, &point->create, &point->first))
		return true;
	fprintf(stderr, "gpu-curves: the curve ends below %llu bytes: %s\n", (unsigned long long)size,
		gpub_strerror_last());
	return false;
}

static void sizes(void)
{
	struct bench_broker broker;
	gpub_client *client;
	bool room = true;

	bench_broker_start(&broker, GPU_KIND);
	bench_must(gpub_connect(&client, NULL));
	for (uint64_t size = 4096; size <= LARGEST && room; size *= 8) {
		int rounds = size <= GPU_GRANULE ? 50 : size <= 1 << 30 ? 10 : 3;
		struct point point;

		point_begin(&point, "bytes", size, "us");
		for (int i = 0; i < rounds && room; i++)
			room = size_round(client, &point, size);
		if (room)
			point_end(&point);
	}
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* ---- devices ---- */

#define TIMES   200 /* of each client, a sample */
#define SAMPLES 5

static int devices;

static void creates(gpub_client *client, const char *name)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = GPU_GRANULE;
	spec.device = GPUB_CURRENT;
	for (int i = 0; i < TIMES; i++) {
		bench_must(gpub_create(client, name, &spec));
		bench_must(gpub_drain(client, name, -1));
	}
}

static void firsts(gpub_client *client, const char *name)
{
	gpub_lease lease;

	for (int i = 0; i < TIMES; i++) {
		bench_must(gpub_acquire(client, name, GPUB_READ, 0, &lease));
		bench_must(gpub_return(&lease));
		bench_must(gpub_trim(client));
	}
}

/* All begin together; the first client says how many that were in a second when all are done. */
static void timed(struct point *point, struct bench *bench, unsigned number, void (*work)(gpub_client *, const char *),
		  gpub_client *client, const char *name, bool counts)
{
	uint64_t began;

	clients_meet();
	began = bench_now_ns();
	work(client, name);
	clients_meet();
	if (!number && counts)
		bench_sample(bench, BENCH_OURS, TIMES * point->clients / ((double)(bench_now_ns() - began) / 1e9));
}

static void device_main(unsigned number, void *context)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	struct point *point = context;
	char made[CLIENTS_NAME], kept[CLIENTS_NAME];
	gpub_client *client;

	clients_name(made, number);
	clients_name(kept, 1000 + number);
	bench_must(gpub_connect(&client, NULL));
	bench_must(gpub_set_device(client, (int)number));
	spec.size = GPU_GRANULE;
	spec.device = GPUB_CURRENT;
	bench_must(gpub_create(client, kept, &spec));
	for (int i = -1; i < SAMPLES; i++) {
		timed(point, &point->create, number, creates, client, made, i >= 0);
		timed(point, &point->first, number, firsts, client, kept, i >= 0);
	}
	bench_must(gpub_drain(client, kept, -1));
	gpub_disconnect(client);
}

static void gpus(void)
{
	struct bench_broker broker;

	bench_broker_start(&broker, GPU_KIND);
	for (int n = 1; n <= devices; n *= 2) {
		struct point point = { .clients = (unsigned)n };

		point_begin(&point, "gpus", (uint64_t)n, "1/s");
		clients_run(point.clients, device_main, &point);
		point_end(&point);
	}
	bench_broker_stop(&broker);
}

int main(void)
{
	devices = gpu_count();
	gpu_part("gpu-curves: bytes", sizes, GPU_SECONDS);
	gpu_part("gpu-curves: gpus", gpus, GPU_SECONDS);
	return gpu_finish();
}
