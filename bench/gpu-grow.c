/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-grow.c - a buffer that grows, on a CUDA device.
 *
 * gpu-grow: a buffer of 1 GiB gets 256 MiB more, and is acquired again; against what a program does without
 * gpub_resize(): it creates a buffer of 1.25 GiB, acquires it, copies what it has, and unlinks the one that it had.
 *
 * gpu-grow-acquire: the acquire behind a growth of 2 MiB, which maps the new memory; against the bare calls: a request
 * on a socket, a descriptor back, which is imported, mapped and made accessible.
 */
#include <unistd.h>

#include "gpu.h"

#define ROUNDS 30
#define WARM   10
#define LARGE  ((size_t)1 << 30)
#define MORE   ((size_t)256 << 20)
#define CHUNKS 30 /* that a buffer grows by before the next one is made */

static const char *const vmm[] = { "--export", "vmm", "--pool", "0", NULL };

static void create(gpub_client *client, const char *name, size_t size, size_t reserve)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = size;
	spec.reserve = reserve;
	bench_must(gpub_create(client, name, &spec));
}

static gpub_lease acquired(gpub_client *client, const char *name)
{
	gpub_lease lease;

	bench_must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease));
	return lease;
}

static double since(uint64_t began)
{
	return (double)(bench_now_ns() - began) / 1e3;
}

/* ---- in place, or by a copy ---- */

static double timed_growth(gpub_client *client, void *stream)
{
	gpub_lease before, after;
	uint64_t   began;
	double     took;

	create(client, "grows", LARGE, LARGE + MORE);
	before = acquired(client, "grows");
	began = bench_now_ns();
	bench_must(gpub_resize(client, "grows", LARGE + MORE, 0));
	after = acquired(client, "grows");
	took = since(began);
	bench_must(gpub_return_on(&before, stream));
	bench_must(gpub_return_on(&after, stream));
	bench_must(gpub_drain(client, "grows", -1));
	return took;
}

static double timed_copy(gpub_client *client, void *stream)
{
	gpub_lease before, after;
	uint64_t   began;
	double     took;

	create(client, "small", LARGE, 0);
	before = acquired(client, "small");
	began = bench_now_ns();
	create(client, "large", LARGE + MORE, 0);
	after = acquired(client, "large");
	bench_must(gpub_copy_on(client, after.ptr, before.ptr, LARGE, stream));
	bench_must(gpub_stream_sync(stream));
	bench_must(gpub_return_on(&before, stream));
	bench_must(gpub_unlink(client, "small"));
	took = since(began);
	bench_must(gpub_return_on(&after, stream));
	bench_must(gpub_drain(client, "large", -1));
	(void)gpub_drain(client, "small", -1); /* which may have ended by now */
	return took;
}

static void grow(void)
{
	struct bench_broker broker;
	struct bench        bench;
	gpub_client        *client;
	void               *stream;

	bench_broker_start_with(&broker, GPU_KIND, vmm);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	bench_must(gpub_stream_create(client, 0, &stream));
	bench_begin(&bench, "gpu-grow", "us");
	for (int i = 0; i < WARM + ROUNDS; i++) {
		double ours = timed_growth(client, stream), peer = timed_copy(client, stream);

		if (i < WARM)
			continue;
		bench_sample(&bench, BENCH_OURS, ours);
		bench_sample(&bench, BENCH_PEER, peer);
	}
	bench_end(&bench);
	gpub_stream_destroy(stream);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* ---- the acquire ---- */

static void owner(int sock)
{
	gpu_vmm_serve(sock, GPU_GRANULE);
}

static double timed_bare(int sock)
{
	uint64_t          began = bench_now_ns();
	struct gpu_mapped mapped;
	double            took;
	int               descriptor;

	gpu_send(sock, "", 1);
	descriptor = gpu_descriptor_receive(sock);
	gpu_vmm_map(descriptor, GPU_GRANULE, &mapped);
	close(descriptor);
	took = since(began);
	gpu_vmm_unmap(&mapped);
	return took;
}

static void rounds(struct bench *bench, gpub_client *client, void *stream, int sock)
{
	gpub_lease lease;

	create(client, "grows", GPU_GRANULE, (CHUNKS + 1) * GPU_GRANULE);
	lease = acquired(client, "grows");
	for (int i = 0; i < CHUNKS; i++) {
		double   ours, peer = timed_bare(sock);
		uint64_t began;

		bench_must(gpub_return_on(&lease, stream));
		bench_must(gpub_resize(client, "grows", (size_t)(i + 2) * GPU_GRANULE, 0));
		began = bench_now_ns();
		lease = acquired(client, "grows");
		ours = since(began);
		if (!bench)
			continue;
		bench_sample(bench, BENCH_OURS, ours);
		bench_sample(bench, BENCH_PEER, peer);
	}
	bench_must(gpub_return_on(&lease, stream));
	bench_must(gpub_drain(client, "grows", -1));
}

static void acquire(void)
{
	struct bench_broker broker;
	struct bench        bench;
	gpub_client        *client;
	void               *stream;
	int                 sock;

	bench_broker_start_with(&broker, GPU_KIND, vmm);
	sock = gpu_helper(owner);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	bench_must(gpub_stream_create(client, 0, &stream));
	bench_begin(&bench, "gpu-grow-acquire", "us");
	rounds(NULL, client, stream, sock);
	for (int i = 0; i < ROUNDS; i++)
		rounds(&bench, client, stream, sock);
	bench_end(&bench);
	gpub_stream_destroy(stream);
	gpub_disconnect(client);
	close(sock);
	bench_broker_stop(&broker);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-grow", grow, 2 * GPU_SECONDS);
	gpu_part("gpu-grow-acquire", acquire, GPU_SECONDS);
	return gpu_finish();
}
