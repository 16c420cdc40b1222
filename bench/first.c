/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.c - a first acquire against the bare round trip that it cannot do without (floor.h), with the client on one
 * processor and the other side on another, then all on one.
 *
 * A round times the bare round trip, the system calls that open shared memory, and gpub_acquire() of a buffer that is
 * not mapped; returning and closing it again is not timed. "first-acquire" is the acquire less the open of the same
 * round;
 * "whole" leaves it in, and "open" is what was taken away.
 */
#include "bench.h"
#include "floor.h"
#include "gpubroker.h"

#define ROUNDS 3000
#define WARM   200
#define SIZE   (2u << 20)

static void run(const char *name, const char *whole_name, const char *open_name, int server_cpu)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	struct bench_broker broker;
	struct bench less, whole, open;
	gpub_info info = { .struct_size = sizeof info };
	struct floor *floor;
	gpub_client *client;
	gpub_lease lease;

	bench_pin(server_cpu);
	bench_broker_start(&broker, "host");
	floor = floor_start(1, server_cpu);
	bench_pin(0);
	bench_must(gpub_connect(&client, NULL));
	spec.size = SIZE;
	bench_must(gpub_create(client, "first", &spec));
	bench_begin(&less, name, "us");
	bench_begin(&whole, whole_name, "us");
	bench_begin(&open, open_name, "us");
	for (int i = -WARM; i < ROUNDS; i++) {
		double bare, opened, acquired;
		uint64_t began;

		/*
		 * answered: the broker has received of the last round's close, and is not at it while the floor is
		 * timed
		 */
		bench_must(gpub_stat(client, "first", &info));
		opened = floor_open_ns(SIZE) / 1e3;
		began = bench_now_ns();
		floor_round(floor, 0, 1);
		bare = (double)(bench_now_ns() - began) / 1e3;
		began = bench_now_ns();
		bench_must(gpub_acquire(client, "first", GPUB_READ | GPUB_WRITE, 0, &lease));
		acquired = (double)(bench_now_ns() - began) / 1e3;
		bench_must(gpub_return(&lease));
		bench_must(gpub_trim(client));
		bench_round(&less, i, bare, acquired - opened);
		bench_round(&whole, i, bare, acquired);
		if (i >= 0)
			bench_sample(&open, BENCH_OURS, opened);
	}
	bench_end(&less);
	bench_end(&whole);
	bench_end(&open);
	gpub_disconnect(client);
	floor_stop(floor);
	bench_broker_stop(&broker);
}

int main(void)
{
	run("first-acquire", "first-acquire-whole", "first-acquire-open", 1);
	run("first-acquire-one-cpu", "first-acquire-one-cpu-whole", "first-acquire-one-cpu-open", 0);
	return 0;
}
