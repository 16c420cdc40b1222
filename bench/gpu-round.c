/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-round.c - gpub_renew(), a kernel, gpub_return_on(), 10,000 times and the stream synchronised at the end, against
 * the same kernel launched by the driver and one cuStreamWriteValue64() as often. A sample is the whole time, for one
 * round. Both sides synchronise after half of the rounds too: some 8,000 leases of one buffer may be on their way back
 * at once.
 */
#include "gpu.h"
#include "kernels/kernels.h"

#define ROUNDS  10000
#define SAMPLES 30
#define WARM    2

struct run {
	gpub_client *client;
	gpub_lease   lease;
	gpub_kernel  kernel;
	CUfunction   bare_kernel;
	void        *stream, *memory;
	CUdeviceptr  word;
};

static void bare(struct run *run)
{
	for (unsigned i = 0; i < ROUNDS / 2; i++) {
		gpu_fill(run->bare_kernel, run->memory, run->stream);
		gpu_driver(gpu.StreamWriteValue64(run->stream, run->word, i, CU_STREAM_WRITE_VALUE_DEFAULT));
	}
}

static void leased(struct run *run)
{
	gpub_launch_config grid = linear_grid(GPU_FILL_WORDS, run->stream);
	uint64_t count = GPU_FILL_WORDS;
	uint32_t value = 1;
	void *arguments[] = { &run->lease.ptr, &value, &count };

	for (unsigned i = 0; i < ROUNDS / 2; i++) {
		bench_must(gpub_renew(&run->lease));
		bench_must(gpub_launch(run->kernel, &grid, arguments));
		bench_must(gpub_return_on(&run->lease, run->stream));
	}
}

static double timed(struct run *run, void (*half)(struct run *run))
{
	uint64_t began = bench_now_ns();

	for (int i = 0; i < 2; i++) {
		half(run);
		bench_must(gpub_stream_sync(run->stream));
	}
	return (double)(bench_now_ns() - began) / ROUNDS / 1e3;
}

static void run_begin(struct run *run)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	bench_must(gpub_connect(&run->client, NULL));
	gpu_start();
	spec.size = GPU_GRANULE;
	bench_must(gpub_create(run->client, "round", &spec));
	bench_must(gpub_acquire(run->client, "round", GPUB_READ | GPUB_WRITE, 0, &run->lease));
	bench_must(gpub_return(&run->lease));
	run->kernel = gpu_leased_kernel(run->client, "fill");
	bench_must(gpub_stream_create(run->client, GPUB_CURRENT, &run->stream));
	run->bare_kernel = gpu_kernel("fill");
	gpu_must(cudaMalloc(&run->memory, GPU_GRANULE));
	run->word = gpu_registered_word();
}

static void rounds(void)
{
	struct bench_broker broker;
	struct bench bench;
	struct run run;

	bench_broker_start(&broker, GPU_KIND);
	run_begin(&run);
	bench_begin(&bench, "gpu-round", "us");
	for (int i = -WARM; i < SAMPLES; i++) {
		double peer = timed(&run, bare), ours = timed(&run, leased);

		bench_round(&bench, i, peer, ours);
	}
	bench_end(&bench);
	gpub_stream_destroy(run.stream);
	gpub_disconnect(run.client);
	bench_broker_stop(&broker);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-round", rounds, GPU_SECONDS);
	return gpu_finish();
}
