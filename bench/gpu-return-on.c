/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-return-on.c - what gpub_return_on() costs its caller, against one cuStreamWriteValue64() of a registered page. A
 * sample is the mean of a batch; the stream is synchronised behind each batch, so that its queue is never full.
 */
#include "gpu.h"

#define BATCH   64
#define SAMPLES 2000
#define WARM    100

struct run {
	gpub_client *client;
	gpub_lease   lease[BATCH];
	void        *stream;
	CUdeviceptr  word;
};

static double writes(struct run *run)
{
	uint64_t began = bench_now_ns(), ended;

	for (unsigned i = 0; i < BATCH; i++)
		gpu_driver(gpu.StreamWriteValue64(run->stream, run->word, i, CU_STREAM_WRITE_VALUE_DEFAULT));
	ended = bench_now_ns();
	bench_must(gpub_stream_sync(run->stream));
	return (double)(ended - began) / BATCH / 1e3;
}

static double returns(struct run *run)
{
	uint64_t began, ended;

	for (unsigned i = 0; i < BATCH; i++)
		bench_must(gpub_renew(&run->lease[i]));
	began = bench_now_ns();
	for (unsigned i = 0; i < BATCH; i++)
		bench_must(gpub_return_on(&run->lease[i], run->stream));
	ended = bench_now_ns();
	bench_must(gpub_stream_sync(run->stream));
	return (double)(ended - began) / BATCH / 1e3;
}

static void return_on(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	struct bench_broker broker;
	struct bench bench;
	struct run run;

	bench_broker_start(&broker, GPU_KIND);
	bench_must(gpub_connect(&run.client, NULL));
	gpu_start();
	spec.size = GPU_GRANULE;
	bench_must(gpub_create(run.client, "returned", &spec));
	for (unsigned i = 0; i < BATCH; i++)
		bench_must(gpub_acquire(run.client, "returned", GPUB_READ, 0, &run.lease[i]));
	for (unsigned i = 0; i < BATCH; i++)
		bench_must(gpub_return(&run.lease[i]));
	bench_must(gpub_stream_create(run.client, GPUB_CURRENT, &run.stream));
	run.word = gpu_registered_word();
	bench_begin(&bench, "gpu-return-on", "us");
	for (int i = -WARM; i < SAMPLES; i++) {
		double bare = writes(&run), ours = returns(&run);

		bench_round(&bench, i, bare, ours);
	}
	bench_end(&bench);
	gpub_stream_destroy(run.stream);
	gpub_disconnect(run.client);
	bench_broker_stop(&broker);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-return-on", return_on, GPU_SECONDS);
	return gpu_finish();
}
