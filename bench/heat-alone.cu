/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat-alone.cu - the floor of examples/heat: the same stencil in one process, without a broker.
 *
 * usage: heat-alone SIZE STEPS [DEVICES]
 *
 * Rows are split over the devices as examples/heat splits them over workers; a step on a device waits for its
 * neighbours' last step by events and reads their edge rows by peer access. Prints the time per step. Owns
 * its memory and touches no broker.
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "kernels/heat.cu"

#define CHECK(call)                                                                                    \
	do {                                                                                           \
		cudaError_t error = (call);                                                            \
		if (error != cudaSuccess) {                                                            \
			fprintf(stderr, "heat-alone: %s: %s\n", #call, cudaGetErrorString(error));     \
			exit(1);                                                                       \
		}                                                                                      \
	} while (0)

struct part {
	float       *field[2];
	uint32_t     rows;
	cudaStream_t stream;
	cudaEvent_t  done[2]; /* of the last even and the last odd step */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void part_make(part *p, int device, int devices, uint32_t size)
{
	CHECK(cudaSetDevice(device));
	for (int other = 0; other < devices; other++)
		if (other != device)
			CHECK(cudaDeviceEnablePeerAccess(other, 0));
	p->rows = size / devices + ((uint32_t)device < size % devices);
	for (int i = 0; i < 2; i++) {
		CHECK(cudaMalloc(&p->field[i], (size_t)p->rows * size * sizeof(float)));
		CHECK(cudaMemset(p->field[i], 0, (size_t)p->rows * size * sizeof(float)));
		CHECK(cudaEventCreateWithFlags(&p->done[i], cudaEventDisableTiming));
		CHECK(cudaEventRecord(p->done[i], 0));
	}
	CHECK(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
	CHECK(cudaDeviceSynchronize());
}

static void step(std::vector<part> &parts, size_t d, uint32_t size, uint64_t k)
{
	part              &p = parts[d];
	const float       *above = NULL, *below = NULL;
	gpub_launch_config grid = heat_grid(p.rows, size, NULL);

	CHECK(cudaSetDevice((int)d));
	if (d > 0) {
		above = parts[d - 1].field[(k - 1) % 2] + (size_t)(parts[d - 1].rows - 1) * size;
		CHECK(cudaStreamWaitEvent(p.stream, parts[d - 1].done[(k - 1) % 2], 0));
	}
	if (d + 1 < parts.size()) {
		below = parts[d + 1].field[(k - 1) % 2];
		CHECK(cudaStreamWaitEvent(p.stream, parts[d + 1].done[(k - 1) % 2], 0));
	}
	heat_step<<<dim3(grid.grid[0], grid.grid[1], grid.grid[2]), dim3(grid.block[0], grid.block[1], grid.block[2]),
		    0, p.stream>>>(p.field[k % 2], p.field[(k - 1) % 2], above, below, p.rows, size, 0.2f);
	CHECK(cudaGetLastError());
	CHECK(cudaEventRecord(p.done[k % 2], p.stream));
}

int main(int argc, char **argv)
{
	uint32_t size = argc > 2 ? (uint32_t)atoi(argv[1]) : 0;
	uint64_t steps = argc > 2 ? (uint64_t)atoll(argv[2]) : 0;
	int      devices = argc > 3 ? atoi(argv[3]) : 1;

	if (size < 1 || steps < 1 || devices < 1) {
		fprintf(stderr, "usage: heat-alone SIZE STEPS [DEVICES]\n");
		return 2;
	}
	std::vector<part> parts(devices);
	for (int d = 0; d < devices; d++)
		part_make(&parts[d], d, devices, size);
	for (int pass = 0; pass < 2; pass++) { /* the first warms up */
		double   began = now();
		uint64_t count = pass ? steps : 50;

		for (uint64_t k = 1; k <= count; k++)
			for (size_t d = 0; d < parts.size(); d++)
				step(parts, d, size, k);
		for (int d = 0; d < devices; d++) {
			CHECK(cudaSetDevice(d));
			CHECK(cudaDeviceSynchronize());
		}
		if (pass)
			printf("%d device%s, one process, no broker: time per step: %.2f us\n", devices,
			       devices == 1 ? "" : "s", (now() - began) / (double)steps * 1e6);
	}
	return 0;
}
