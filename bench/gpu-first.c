/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-first.c - the first acquire of a buffer on a CUDA device, against the bare calls: a request on a socket, and in
 * the process that owns the memory cudaIpcGetMemHandle(), the answer, cudaIpcOpenMemHandle(). With a broker of --export
 * vmm: the answer is a descriptor, which is imported, mapped and made accessible. The client is on one
 * processor, the other side on another. Returning and closing are not timed; both sides take turns at going first.
 */
#include <unistd.h>

#include "gpu.h"

#define ROUNDS 1000
#define WARM   50

static void owner(int sock)
{
	cudaIpcMemHandle_t handle;
	char request;
	void *memory;

	gpu_start();
	gpu_must(cudaMalloc(&memory, GPU_GRANULE));
	for (;;) {
		gpu_receive(sock, &request, 1);
		gpu_must(cudaIpcGetMemHandle(&handle, memory));
		gpu_send(sock, &handle, sizeof handle);
	}
}

static void vmm_owner(int sock)
{
	char request;
	int descriptor;

	gpu_start();
	descriptor = gpu_vmm_make(GPU_GRANULE);
	for (;;) {
		gpu_receive(sock, &request, 1);
		gpu_descriptor_send(sock, descriptor);
	}
}

static double timed_vmm(int sock)
{
	uint64_t began = bench_now_ns();
	struct gpu_mapped mapped;
	int descriptor;
	double took;

	gpu_send(sock, "", 1);
	descriptor = gpu_descriptor_receive(sock);
	gpu_vmm_map(descriptor, GPU_GRANULE, &mapped);
	close(descriptor);
	took = (double)(bench_now_ns() - began) / 1e3;
	gpu_vmm_unmap(&mapped);
	return took;
}

static double timed_ipc(int sock)
{
	uint64_t began = bench_now_ns();
	cudaIpcMemHandle_t handle;
	void *memory;
	double took;

	gpu_send(sock, "", 1);
	gpu_receive(sock, &handle, sizeof handle);
	gpu_must(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
	took = (double)(bench_now_ns() - began) / 1e3;
	gpu_must(cudaIpcCloseMemHandle(memory));
	return took;
}

static double timed_acquire(gpub_client *client)
{
	gpub_info info = { .struct_size = sizeof info };
	uint64_t began;
	gpub_lease lease;
	double took;

	/* answered: the broker has received of the last round's close, and is not at it now */
	bench_must(gpub_stat(client, "first", &info));
	began = bench_now_ns();
	bench_must(gpub_acquire(client, "first", GPUB_READ | GPUB_WRITE, 0, &lease));
	took = (double)(bench_now_ns() - began) / 1e3;
	bench_must(gpub_return(&lease));
	bench_must(gpub_trim(client));
	return took;
}

static const struct kind {
	const char *name, *word;
	void (*owner)(int sock);
	double (*raw)(int sock);
} kinds[] = {
	{ "gpu-first-acquire", "ipc", owner, timed_ipc },
	{ "gpu-first-acquire-vmm", "vmm", vmm_owner, timed_vmm },
}, *kind;

static void first(void)
{
	const char *options[] = { "--export", kind->word, NULL };
	gpub_spec spec = GPUB_SPEC_INIT;
	struct bench_broker broker;
	struct bench bench;
	gpub_client *client;
	int sock;

	bench_pin(1);
	bench_broker_start_with(&broker, GPU_KIND, options);
	sock = gpu_helper(kind->owner);
	bench_pin(0);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	spec.size = GPU_GRANULE;
	bench_must(gpub_create(client, "first", &spec));
	bench_begin(&bench, kind->name, "us");
	for (int i = -WARM; i < ROUNDS; i++) {
		double ours = i & 1 ? timed_acquire(client) : 0, raw = kind->raw(sock);

		if (!(i & 1))
			ours = timed_acquire(client);
		bench_round(&bench, i, raw, ours);
	}
	bench_end(&bench);
	gpub_disconnect(client);
	close(sock);
	bench_broker_stop(&broker);
}

int main(void)
{
	gpu_count();
	for (kind = kinds; kind < kinds + 2; kind++)
		gpu_part(kind->name, first, GPU_SECONDS);
	return gpu_finish();
}
