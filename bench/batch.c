/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - first acquires a second: two clients, a broker of one thread, gpub_acquire_many() of 64 names at a time
 * until each client has all; against the bare loop of the same batches (floor.h): as many requests out, one answer
 * back, a handle sealed and opened for each. Closing between the passes is not timed. A library without
 * gpub_acquire_many() is asked for one name at a time, under another row's name.
 */
#include "bench.h"
#include "clients.h"
#include "floor.h"

#define CLIENTS 2
#define NAMES   10000
#define BATCH   64
#define PASSES  10

struct race {
	struct bench  bench;
	struct floor *floor;
	unsigned      count;
};

static void acquire_all(gpub_client *client, const char *const *name, gpub_lease *lease, unsigned count)
{
	for (unsigned i = 0; i < count; i += BATCH)
		bench_must(gpub_acquire_many(client, name + i, count - i < BATCH ? count - i : BATCH, GPUB_READ, 0,
					     lease + i));
}

static void floor_all(struct floor *floor, unsigned number, unsigned count)
{
	for (unsigned i = 0; i < count; i += BATCH)
		floor_round(floor, number, count - i < BATCH ? count - i : BATCH);
}

/* From the start of both to the end of both; the first client says how many that were in a second. */
static void finish(struct race *race, unsigned number, enum bench_side side, uint64_t began)
{
	clients_meet();
	if (!number)
		bench_sample(&race->bench, side, CLIENTS * race->count / ((double)(bench_now_ns() - began) / 1e9));
}

static void client_main(unsigned number, void *context)
{
	static char text[NAMES][CLIENTS_NAME];
	static const char *name[NAMES];
	static gpub_lease lease[NAMES];
	struct race *race = context;
	gpub_client *client;
	uint64_t began;

	bench_must(gpub_connect(&client, NULL));
	for (unsigned i = 0; i < race->count; i++) {
		clients_name(text[i], i);
		name[i] = text[i];
	}
	for (int pass = 0; pass < PASSES; pass++) {
		clients_meet();
		began = bench_now_ns();
		floor_all(race->floor, number, race->count);
		finish(race, number, BENCH_PEER, began);
		clients_meet();
		began = bench_now_ns();
		acquire_all(client, name, lease, race->count);
		finish(race, number, BENCH_OURS, began);
		for (unsigned i = 0; i < race->count; i++)
			bench_must(gpub_return(&lease[i]));
		bench_must(gpub_trim(client));
	}
	gpub_disconnect(client);
}

int main(void)
{
	unsigned names = clients_buffers(NAMES);
	struct bench_broker broker;
	struct race race;

	clients_broker_start(&broker, names);
	race.count = clients_create_apart(names, 4096);
	race.floor = floor_start(CLIENTS, 1);
	bench_begin(&race.bench, "first-acquires-batched", "1/s");
	clients_run(CLIENTS, client_main, &race);
	bench_end(&race.bench);
	floor_stop(race.floor);
	bench_broker_stop(&broker);
	return 0;
}
