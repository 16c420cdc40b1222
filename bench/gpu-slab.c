/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-slab.c - what slab.c measures, on a CUDA device: a first acquire where the process maps the allocation already
 * needs no CUDA call, so it is held against the bare round trip (floor.h).
 *
 * "gpu-first-acquire-slab": small buffers of one owner lie in one allocation; one of them is held throughout.
 * "gpu-first-acquire-recycled": a buffer was returned in stream order and unlinked, and one of the same size took its
 * place.
 */
#include "clients.h"
#include "floor.h"
#include "gpu.h"

#define BUFFERS 256
#define PASSES  4
#define LIVES   500
#define WARM    50

struct run {
	struct bench_broker broker;
	struct bench        bench;
	struct floor       *floor;
	gpub_client        *client;
};

static void run_begin(struct run *run, const char *name)
{
	bench_pin(1);
	bench_broker_start(&run->broker, GPU_KIND);
	run->floor = floor_start(1, 1);
	bench_pin(0);
	bench_must(gpub_connect(&run->client, NULL));
	bench_begin(&run->bench, name, "us");
}

static void run_end(struct run *run)
{
	bench_end(&run->bench);
	gpub_disconnect(run->client);
	floor_stop(run->floor);
	bench_broker_stop(&run->broker);
}

/* The bare round trip, and behind it the acquire. */
static void timed(struct run *run, const char *name, gpub_lease *lease, int round)
{
	gpub_info info = { .struct_size = sizeof info };
	uint64_t began, bare, ours;

	bench_must(gpub_stat(run->client, name, &info)); /* the broker is at nothing else */
	began = bench_now_ns();
	floor_round(run->floor, 0, 1);
	bare = bench_now_ns() - began;
	began = bench_now_ns();
	bench_must(gpub_acquire(run->client, name, GPUB_READ | GPUB_WRITE, 0, lease));
	ours = bench_now_ns() - began;
	bench_round(&run->bench, round, (double)bare / 1e3, (double)ours / 1e3);
}

/* Between passes all is closed, and the one that is held opens the allocation again. */
static void slab(void)
{
	char name[CLIENTS_NAME];
	gpub_lease kept, lease;
	struct run run;

	run_begin(&run, "gpu-first-acquire-slab");
	if (clients_create(run.client, BUFFERS, 4096) < BUFFERS)
		bench_fail("gpu-slab: the broker has no room");
	for (int pass = -1; pass < PASSES; pass++) {
		clients_name(name, 0);
		bench_must(gpub_acquire(run.client, name, GPUB_READ, 0, &kept));
		for (unsigned i = 1; i < BUFFERS; i++) {
			clients_name(name, i);
			timed(&run, name, &lease, pass);
			bench_must(gpub_return(&lease));
		}
		bench_must(gpub_return(&kept));
		bench_must(gpub_trim(run.client));
	}
	run_end(&run);
}

static void recycled(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;
	struct run run;
	void *stream;

	run_begin(&run, "gpu-first-acquire-recycled");
	bench_must(gpub_stream_create(run.client, GPUB_CURRENT, &stream));
	spec.size = 4096;
	for (int i = -WARM; i < LIVES; i++) {
		bench_must(gpub_create(run.client, "recycled", &spec));
		timed(&run, "recycled", &lease, i);
		bench_must(gpub_return_on(&lease, stream));
		bench_must(gpub_stream_sync(stream));
		bench_must(gpub_unlink(run.client, "recycled"));
	}
	gpub_stream_destroy(stream);
	run_end(&run);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-first-acquire-slab", slab, GPU_SECONDS);
	gpu_part("gpu-first-acquire-recycled", recycled, GPU_SECONDS);
	return gpu_finish();
}
