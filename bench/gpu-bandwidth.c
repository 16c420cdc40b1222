/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-bandwidth.c - what a kernel gets of leased memory, against the same work on memory that the process allocated: a
 * copy, and a stencil (kernels' heat_step). Samples are gigabytes a second by CUDA's events, bytes read and written
 * together.
 *
 * "gpu-bandwidth-*": all on device 0. "gpu-bandwidth-peer-*", with two devices that reach each other: a kernel on
 * device 0 reads memory of device 1, a lease or by cudaDeviceEnablePeerAccess(), and writes memory of its own; counted
 * once.
 */
#include "gpu.h"
#include "kernels/kernels.h"

#define EDGE    16384u /* cells: a field is 1 GiB */
#define BYTES   ((size_t)EDGE * EDGE * sizeof(float))
#define REPEAT  4 /* a sample */
#define SAMPLES 60
#define WARM    5

struct run {
	gpub_client *client;
	CUfunction   heat;
	cudaStream_t stream;
	cudaEvent_t  began, ended;
};

static void copy(struct run *run, void *to, const void *from)
{
	gpu_must(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDefault, run->stream));
}

static void stencil(struct run *run, void *to, const void *from)
{
	gpub_launch_config grid = heat_grid(EDGE, EDGE, run->stream);
	uint32_t edge = EDGE;
	void *outside = NULL;
	float r = 0.2f;
	void *arguments[] = { &to, &from, &outside, &outside, &edge, &edge, &r };

	gpu_driver(gpu.LaunchKernel(run->heat, grid.grid[0], grid.grid[1], grid.grid[2], grid.block[0], grid.block[1],
				    grid.block[2], 0, run->stream, arguments, NULL));
}

typedef void device_work(struct run *run, void *to, const void *from);

static double gigabytes(struct run *run, device_work *work, void *to, const void *from, unsigned passes)
{
	float milliseconds;

	gpu_must(cudaEventRecord(run->began, run->stream));
	for (int i = 0; i < REPEAT; i++)
		work(run, to, from);
	gpu_must(cudaEventRecord(run->ended, run->stream));
	gpu_must(cudaEventSynchronize(run->ended));
	gpu_must(cudaEventElapsedTime(&milliseconds, run->began, run->ended));
	return (double)BYTES * REPEAT * passes / 1e6 / (double)milliseconds;
}

struct memory {
	void *to, *from;
};

static void compare(struct run *run, const char *name, device_work *work, const struct memory *leased,
		    const struct memory *own, unsigned passes)
{
	struct bench bench;

	bench_begin(&bench, name, "GB/s");
	for (int i = -WARM; i < SAMPLES; i++) {
		double peer = gigabytes(run, work, own->to, own->from, passes);
		double ours = gigabytes(run, work, leased->to, leased->from, passes);

		bench_round(&bench, i, peer, ours);
	}
	bench_end(&bench);
}

/* The library's streams and ours are the same thing; this one is made by the runtime. */
static void run_begin(struct run *run, struct bench_broker *broker)
{
	bench_broker_start(broker, GPU_KIND);
	bench_must(gpub_connect(&run->client, NULL));
	gpu_start();
	run->heat = gpu_kernel("heat_step");
	gpu_must(cudaStreamCreateWithFlags(&run->stream, cudaStreamNonBlocking));
	gpu_must(cudaEventCreate(&run->began));
	gpu_must(cudaEventCreate(&run->ended));
}

static void run_end(struct run *run, struct bench_broker *broker)
{
	gpu_must(cudaDeviceSynchronize());
	gpub_disconnect(run->client);
	bench_broker_stop(broker);
}

static void *leased(struct run *run, const char *name, int device)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;

	spec.size = BYTES;
	spec.device = device;
	bench_must(gpub_create(run->client, name, &spec));
	bench_must(gpub_acquire(run->client, name, GPUB_READ | GPUB_WRITE, 0, &lease));
	return lease.ptr;
}

/* Zeroed, as a buffer is: what the bytes are can change how fast they move. */
static void *own(int device)
{
	void *memory;

	gpu_must(cudaSetDevice(device));
	gpu_must(cudaMalloc(&memory, BYTES));
	gpu_must(cudaMemset(memory, 0, BYTES));
	gpu_must(cudaDeviceSynchronize());
	gpu_must(cudaSetDevice(0));
	return memory;
}

static void one_device(void)
{
	struct bench_broker broker;
	struct memory ours, peer;
	struct run run;

	run_begin(&run, &broker);
	ours = (struct memory){ leased(&run, "to", 0), leased(&run, "from", 0) };
	peer = (struct memory){ own(0), own(0) };
	compare(&run, "gpu-bandwidth-copy", copy, &ours, &peer, 2);
	compare(&run, "gpu-bandwidth-stencil", stencil, &ours, &peer, 2);
	run_end(&run, &broker);
}

static void enable_peer(void)
{
	cudaError_t result = cudaDeviceEnablePeerAccess(1, 0);

	if (result == cudaErrorPeerAccessAlreadyEnabled)
		(void)cudaGetLastError();
	else
		gpu_check("cudaDeviceEnablePeerAccess(1, 0)", result);
}

static void two_devices(void)
{
	struct bench_broker broker;
	struct memory ours, peer;
	struct run run;
	int access = 0;
	void *to;

	run_begin(&run, &broker);
	gpu_must(cudaDeviceCanAccessPeer(&access, 0, 1));
	if (!access)
		fprintf(stderr, "gpu-bandwidth-peer is left out: device 0 does not reach device 1's memory\n");
	if (access) {
		enable_peer();
		to = own(0);
		ours = (struct memory){ to, leased(&run, "from", 1) };
		peer = (struct memory){ to, own(1) };
		compare(&run, "gpu-bandwidth-peer-copy", copy, &ours, &peer, 1);
		compare(&run, "gpu-bandwidth-peer-stencil", stencil, &ours, &peer, 1);
	}
	run_end(&run, &broker);
}

int main(void)
{
	int devices = gpu_count();

	gpu_part("gpu-bandwidth", one_device, GPU_SECONDS);
	if (devices > 1)
		gpu_part("gpu-bandwidth-peer", two_devices, GPU_SECONDS);
	else
		fprintf(stderr, "gpu-bandwidth-peer is left out: there is one device\n");
	return gpu_finish();
}
