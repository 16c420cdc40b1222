/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - gpub_create() of a buffer while the broker's pool has freed memory (broker-run --pool), against making
 * zeroed shared memory of that size under a random name, which is what the host device's allocation is (floor.h).
 *
 * The buffer of the round before is gone, and its memory back, before the next is timed.
 */
#include "bench.h"
#include "floor.h"
#include "gpubroker.h"

#define ROUNDS 250
#define WARM   20
#define SIZE   (2u << 20)

static void run(gpub_client *client, struct bench *bench, int round)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	double bare = floor_make_ns(SIZE) / 1e3, ours;
	uint64_t began = bench_now_ns();

	spec.size = SIZE;
	bench_must(gpub_create(client, "created", &spec));
	ours = (double)(bench_now_ns() - began) / 1e3;
	bench_must(gpub_drain(client, "created", -1));
	bench_round(bench, round, bare, ours);
}

int main(void)
{
	static const char *const pool[] = { "--pool", "64M", NULL };
	bool pooled = bench_broker_has("--pool");
	struct bench_broker broker;
	struct bench bench;
	gpub_client *client;

	bench_broker_start_with(&broker, "host", pooled ? pool : NULL);
	bench_must(gpub_connect(&client, NULL));
	bench_begin(&bench, pooled ? "create-pooled" : "create-without-pool", "us");
	for (int i = -WARM; i < ROUNDS; i++)
		run(client, &bench, i);
	bench_end(&bench);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
	return 0;
}
