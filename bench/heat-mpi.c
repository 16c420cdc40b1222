/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat-mpi.c - what examples/heat --mpi is compared with: the same stencil and the same order of a step, with MPI and
 * CUDA alone.
 *
 * usage: mpirun -n RANKS heat-mpi SIZE STEPS
 *
 * One rank a GPU, and every edge goes by MPI through pinned memory, inside a machine as between machines. A step queues
 * the kernel of the edges and their copies to the host on a stream of higher priority, then the kernel of the rows
 * between on another one. The CPU exchanges the edges while the device computes those. Rank 0 prints the time per step
 * of STEPS steps behind 50 that warm up, and a sum of the field's bits that is the same for every number of ranks. Owns
 * its memory and touches no broker.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu.h"
#include "kernels/kernels.h"

#define WARM 50

/* The rank above, then the one below; MPI_PROC_NULL where there is none. Two rows each, of even and of odd steps. */
struct neighbour {
	int    rank;
	float *ghost; /* on the device */
	float *out, *in; /* pinned */
};

struct part {
	uint32_t         rows, columns;
	uint64_t         first; /* row of the whole field */
	float           *field[2];
	struct neighbour neighbour[2];
	cudaStream_t     edges, inside;
	cudaEvent_t      edges_done[2], inside_done[2], copied; /* of even and of odd steps */
	CUfunction       kernel_step, kernel_edges;
};

static void must_mpi(int error)
{
	if (error != MPI_SUCCESS)
		bench_fail("MPI failed");
}

/* Any pattern: bits that differ from cell to cell. */
static float cell_initial(uint64_t row, uint64_t column)
{
	return (float)((row * 2654435761u + column * 40503u) % 1000u) / 1000.0f;
}

static void neighbour_make(struct neighbour *neighbour, int rank, int size, uint32_t columns)
{
	size_t bytes = 2 * columns * sizeof(float);

	memset(neighbour, 0, sizeof *neighbour);
	neighbour->rank = rank < 0 || rank >= size ? MPI_PROC_NULL : rank;
	if (neighbour->rank == MPI_PROC_NULL)
		return;
	gpu_must(cudaMalloc((void **)&neighbour->ghost, bytes));
	gpu_must(cudaMallocHost((void **)&neighbour->out, bytes));
	gpu_must(cudaMallocHost((void **)&neighbour->in, bytes));
}

static void part_fill(struct part *part)
{
	size_t bytes = (size_t)part->rows * part->columns * sizeof(float);
	float *cells = malloc(bytes);

	if (!cells)
		bench_fail("no memory for the field");
	for (uint64_t i = 0; i < part->rows; i++)
		for (uint64_t j = 0; j < part->columns; j++)
			cells[i * part->columns + j] = cell_initial(part->first + i, j);
	for (int i = 0; i < 2; i++)
		gpu_must(cudaMalloc((void **)&part->field[i], bytes));
	gpu_must(cudaMemcpy(part->field[0], cells, bytes, cudaMemcpyHostToDevice));
	free(cells);
}

static void part_make(struct part *part, int rank, int size, uint32_t columns)
{
	int lowest, highest;

	part->columns = columns;
	part->first = (uint64_t)columns * (unsigned)rank / (unsigned)size;
	part->rows = (uint32_t)((uint64_t)columns * ((unsigned)rank + 1) / (unsigned)size - part->first);
	part_fill(part);
	neighbour_make(&part->neighbour[0], rank - 1, size, columns);
	neighbour_make(&part->neighbour[1], rank + 1, size, columns);
	gpu_must(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
	gpu_must(cudaStreamCreateWithPriority(&part->edges, cudaStreamNonBlocking, highest));
	gpu_must(cudaStreamCreateWithPriority(&part->inside, cudaStreamNonBlocking, lowest));
	gpu_must(cudaEventCreateWithFlags(&part->copied, cudaEventDisableTiming));
	for (int i = 0; i < 2; i++) {
		gpu_must(cudaEventCreateWithFlags(&part->edges_done[i], cudaEventDisableTiming));
		gpu_must(cudaEventCreateWithFlags(&part->inside_done[i], cudaEventDisableTiming));
	}
	part->kernel_step = gpu_kernel("heat_step");
	part->kernel_edges = gpu_kernel("heat_edges");
}

/* ---- a step ---- */

static void launch(CUfunction kernel, uint32_t rows_computed, float *next, const float *now, const float *above,
		   const float *below, uint32_t rows, uint32_t columns, cudaStream_t stream)
{
	gpub_launch_config grid = heat_grid(rows_computed, columns, stream);
	float r = 0.2f;
	void *arguments[] = { &next, &now, &above, &below, &rows, &columns, &r };

	gpu_driver(gpu.LaunchKernel(kernel, grid.grid[0], grid.grid[1], 1, grid.block[0], 1, 1, 0, stream, arguments,
				    NULL));
}

static const float *ghost(const struct part *part, int side, uint64_t k)
{
	const struct neighbour *neighbour = &part->neighbour[side];

	return neighbour->ghost ? neighbour->ghost + k % 2 * part->columns : NULL;
}

/* The first and the last row of step k, on their way to the host. */
static void edges_out(struct part *part, uint64_t k)
{
	size_t bytes = part->columns * sizeof(float);

	for (int side = 0; side < 2; side++) {
		struct neighbour *neighbour = &part->neighbour[side];
		const float *row = part->field[k % 2] + (side ? (size_t)(part->rows - 1) * part->columns : 0);

		if (neighbour->out)
			gpu_must(cudaMemcpyAsync(neighbour->out + k % 2 * part->columns, row, bytes,
						 cudaMemcpyDeviceToHost, part->edges));
	}
	gpu_must(cudaEventRecord(part->copied, part->edges));
}

static void edges_exchange(struct part *part, uint64_t k)
{
	MPI_Request requests[4];
	size_t      at = k % 2 * part->columns, bytes = part->columns * sizeof(float);
	int         count = 0;

	if (!part->neighbour[0].out && !part->neighbour[1].out)
		return;
	while (cudaEventQuery(part->copied) == cudaErrorNotReady)
		;
	gpu_must(cudaEventQuery(part->copied));
	for (int side = 0; side < 2; side++) {
		struct neighbour *neighbour = &part->neighbour[side];

		if (!neighbour->out)
			continue;
		must_mpi(MPI_Irecv(neighbour->in + at, (int)part->columns, MPI_FLOAT, neighbour->rank, 1,
				   MPI_COMM_WORLD, &requests[count++]));
		must_mpi(MPI_Isend(neighbour->out + at, (int)part->columns, MPI_FLOAT, neighbour->rank, 1,
				   MPI_COMM_WORLD, &requests[count++]));
	}
	must_mpi(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
	for (int side = 0; side < 2; side++) {
		struct neighbour *neighbour = &part->neighbour[side];

		if (neighbour->in)
			gpu_must(cudaMemcpyAsync(neighbour->ghost + at, neighbour->in + at, bytes,
						 cudaMemcpyHostToDevice, part->edges));
	}
}

static void inside_launch(struct part *part, uint64_t k)
{
	float       *next = part->field[k % 2] + part->columns;
	const float *now = part->field[(k - 1) % 2];

	if (part->rows > 2)
		launch(part->kernel_step, part->rows - 2, next, now + part->columns, now,
		       now + (size_t)(part->rows - 1) * part->columns, part->rows - 2, part->columns, part->inside);
	gpu_must(cudaEventRecord(part->inside_done[k % 2], part->inside));
}

static void step(struct part *part, uint64_t k)
{
	gpu_must(cudaStreamWaitEvent(part->edges, part->inside_done[(k - 1) % 2], 0));
	gpu_must(cudaStreamWaitEvent(part->inside, part->edges_done[(k - 1) % 2], 0));
	launch(part->kernel_edges, 2, part->field[k % 2], part->field[(k - 1) % 2], ghost(part, 0, k - 1),
	       ghost(part, 1, k - 1), part->rows, part->columns, part->edges);
	gpu_must(cudaEventRecord(part->edges_done[k % 2], part->edges));
	edges_out(part, k);
	inside_launch(part, k);
	edges_exchange(part, k);
}

/* From step first on; returns the seconds, once all ranks are through. */
static double steps_run(struct part *part, uint64_t first, uint64_t count)
{
	double began;

	must_mpi(MPI_Barrier(MPI_COMM_WORLD));
	began = MPI_Wtime();
	for (uint64_t k = first; k < first + count; k++)
		step(part, k);
	gpu_must(cudaDeviceSynchronize());
	must_mpi(MPI_Barrier(MPI_COMM_WORLD));
	return MPI_Wtime() - began;
}

/* Of all ranks. Each cell's bits count by its place, so that rows that went astray are noticed. */
static uint64_t field_sum(struct part *part, uint64_t k)
{
	size_t   cells = (size_t)part->rows * part->columns;
	uint32_t *bits = malloc(cells * sizeof *bits);
	uint64_t sum = 0, all = 0;

	if (!bits)
		bench_fail("no memory for the field");
	gpu_must(cudaMemcpy(bits, part->field[k % 2], cells * sizeof *bits, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < cells; i++)
		sum += bits[i] * (2 * (part->first * part->columns + i) + 1);
	free(bits);
	must_mpi(MPI_Reduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
	return all;
}

/* Ranks of one machine take its devices in turn. */
static int own_device(void)
{
	MPI_Comm machine;
	int      rank, devices;

	must_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
	must_mpi(MPI_Comm_rank(machine, &rank));
	must_mpi(MPI_Comm_free(&machine));
	gpu_must(cudaGetDeviceCount(&devices));
	return rank % devices;
}

int main(int argc, char **argv)
{
	uint32_t    size = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	uint64_t    steps = argc == 3 ? strtoull(argv[2], NULL, 10) : 0, sum;
	struct part part;
	double      seconds;
	int         rank, ranks;

	must_mpi(MPI_Init(&argc, &argv));
	must_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	must_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
	if (size < (uint32_t)ranks || !steps)
		bench_fail("usage: mpirun -n RANKS heat-mpi SIZE STEPS, with a row for each rank at least");
	gpu_start_on(own_device());
	part_make(&part, rank, ranks, size);
	edges_out(&part, 0);
	edges_exchange(&part, 0);
	steps_run(&part, 1, WARM);
	seconds = steps_run(&part, 1 + WARM, steps);
	sum = field_sum(&part, WARM + steps);
	if (rank == 0)
		printf("%d rank%s, MPI, no broker: time per step: %.2f us, field %016llx\n", ranks,
		       ranks == 1 ? "" : "s", seconds / (double)steps * 1e6, (unsigned long long)sum);
	must_mpi(MPI_Finalize());
	return 0;
}
