/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-create.c - gpub_create() on a CUDA device, with a pool that has freed memory (once with a broker that polls while
 * busy) and with none, against cudaMalloc() and cudaIpcGetMemHandle() of that size, which gives memory that is not
 * zeroed. The rows that end in -vmm: with a broker of --export vmm, against the driver's calls that make, export and
 * map such memory. Freeing is not timed: the buffer of the round before is gone, and its memory back, before the next
 * is timed.
 */
#include <unistd.h>

#include "gpu.h"

#define ROUNDS 500
#define WARM   20

static double timed_raw(void)
{
	uint64_t began = bench_now_ns();
	cudaIpcMemHandle_t handle;
	void *memory;
	double took;

	gpu_must(cudaMalloc(&memory, GPU_GRANULE));
	gpu_must(cudaIpcGetMemHandle(&handle, memory));
	took = (double)(bench_now_ns() - began) / 1e3;
	gpu_must(cudaFree(memory));
	return took;
}

/* Beside the broker, whose exported descriptor makes this export quick, too (docs/facts.md). */
static double timed_raw_vmm(void)
{
	uint64_t began = bench_now_ns();
	struct gpu_mapped mapped;
	double took;
	int descriptor = gpu_vmm_make(GPU_GRANULE);

	gpu_vmm_map(descriptor, GPU_GRANULE, &mapped);
	took = (double)(bench_now_ns() - began) / 1e3;
	gpu_vmm_unmap(&mapped);
	close(descriptor);
	return took;
}

static double timed_create(gpub_client *client)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	uint64_t began = bench_now_ns();
	double took;

	spec.size = GPU_GRANULE;
	bench_must(gpub_create(client, "created", &spec));
	took = (double)(bench_now_ns() - began) / 1e3;
	bench_must(gpub_drain(client, "created", -1));
	return took;
}

static void create_against(const char *name, const char *const *options, double (*timed_bare)(void))
{
	struct bench_broker broker;
	struct bench bench;
	gpub_client *client;

	bench_broker_start_with(&broker, GPU_KIND, options);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	bench_begin(&bench, name, "us");
	for (int i = -WARM; i < ROUNDS; i++) {
		double raw = timed_bare(), ours = timed_create(client);

		bench_round(&bench, i, raw, ours);
	}
	bench_end(&bench);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

static void create(const char *name, const char *const *options)
{
	create_against(name, options, timed_raw);
}

static void pooled(void)
{
	static const char *const pool[] = { "--pool", "64M", NULL };

	create("gpu-create-pooled", pool);
}

/* It looks on for longer than the other side of a round takes. */
static void polled(void)
{
	static const char *const pool[] = { "--pool", "64M", "--poll", "2000", NULL };

	create("gpu-create-pooled-polled", pool);
}

static void cold(void)
{
	static const char *const no_pool[] = { "--pool", "0", NULL };

	create("gpu-create-without-pool", bench_broker_has("--pool") ? no_pool : NULL);
}

static void cold_vmm(void)
{
	static const char *const vmm[] = { "--pool", "0", "--export", "vmm", NULL };

	create_against("gpu-create-without-pool-vmm", vmm, timed_raw_vmm);
}

static void pooled_vmm(void)
{
	static const char *const vmm[] = { "--pool", "64M", "--export", "vmm", NULL };

	create_against("gpu-create-pooled-vmm", vmm, timed_raw_vmm);
}

int main(void)
{
	gpu_count();
	if (bench_broker_has("--pool"))
		gpu_part("gpu-create-pooled", pooled, GPU_SECONDS);
	if (bench_broker_has("--pool") && bench_broker_has("--poll"))
		gpu_part("gpu-create-pooled-polled", polled, GPU_SECONDS);
	gpu_part("gpu-create-without-pool", cold, GPU_SECONDS);
	if (bench_broker_has("--export")) {
		gpu_part("gpu-create-pooled-vmm", pooled_vmm, GPU_SECONDS);
		gpu_part("gpu-create-without-pool-vmm", cold_vmm, GPU_SECONDS);
	}
	return gpu_finish();
}
