/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.c - a first acquire where the process maps the allocation already, against the bare round trip (floor.h), the
 * client on one processor and the other side on another.
 *
 * "first-acquire-slab": small buffers of one owner lie in one allocation; one of them is held throughout.
 * "first-acquire-recycled": a buffer was returned in stream order and unlinked, and one of the same size took its
 * place.
 */
#include "bench.h"
#include "clients.h"
#include "floor.h"

#define BUFFERS  256
#define PASSES   12
#define RECYCLED 1000
#define WARM     50

static double timed_floor(struct floor *floor)
{
	uint64_t began = bench_now_ns();

	floor_round(floor, 0, 1);
	return (double)(bench_now_ns() - began) / 1e3;
}

static double timed_acquire(gpub_client *client, const char *name, gpub_lease *lease)
{
	uint64_t began = bench_now_ns();

	bench_must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, lease));
	return (double)(bench_now_ns() - began) / 1e3;
}

static void neighbours(gpub_client *client, struct floor *floor)
{
	char name[CLIENTS_NAME];
	gpub_lease kept, lease;
	struct bench bench;

	if (clients_create(client, BUFFERS, 4096) < BUFFERS)
		bench_fail("slab: the broker has no room");
	clients_name(name, 0);
	bench_must(gpub_acquire(client, name, GPUB_READ, 0, &kept));
	bench_begin(&bench, "first-acquire-slab", "us");
	for (int pass = -1; pass < PASSES; pass++) {
		for (unsigned i = 1; i < BUFFERS; i++) {
			double bare = timed_floor(floor), ours;

			clients_name(name, i);
			ours = timed_acquire(client, name, &lease);
			bench_must(gpub_return(&lease));
			bench_round(&bench, pass, bare, ours);
		}
		bench_must(gpub_trim(client));
	}
	bench_end(&bench);
}

/* One life of a buffer: what its first acquire took. */
static double life(gpub_client *client, void *stream)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;
	double took;

	spec.size = 4096;
	bench_must(gpub_create(client, "recycled", &spec));
	took = timed_acquire(client, "recycled", &lease);
	bench_must(gpub_return_on(&lease, stream));
	bench_must(gpub_stream_sync(stream));
	bench_must(gpub_unlink(client, "recycled"));
	return took;
}

static void recycled(gpub_client *client, struct floor *floor)
{
	struct bench bench;
	void *stream;

	bench_must(gpub_stream_create(client, GPUB_CURRENT, &stream));
	bench_begin(&bench, "first-acquire-recycled", "us");
	for (int i = -WARM; i < RECYCLED; i++) {
		double bare = timed_floor(floor), ours = life(client, stream);

		bench_round(&bench, i, bare, ours);
	}
	bench_end(&bench);
	gpub_stream_destroy(stream);
}

int main(void)
{
	struct bench_broker broker;
	struct floor *floor;
	gpub_client *client;

	bench_pin(1);
	bench_broker_start(&broker, "host");
	floor = floor_start(1, 1);
	bench_pin(0);
	bench_must(gpub_connect(&client, NULL));
	neighbours(client, floor);
	recycled(client, floor);
	gpub_disconnect(client);
	floor_stop(floor);
	bench_broker_stop(&broker);
	return 0;
}
