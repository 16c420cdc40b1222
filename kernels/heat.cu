/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat.cu - one step of the heat equation, on CUDA. heat.c is its host twin: change both or none.
 *
 * A thread processes HEAT_STRIP rows of one column from the top down. So each cell is loaded once from memory, the
 * cells above and below stay in registers, and the cells to the left and right come from the L1 cache. The intrinsics
 * keep the compiler from fusing a multiplication with an addition, which would give other bits than the host.
 */
#include "kernels.h"

static __device__ __forceinline__ float heat_cell(float u, float north, float south, float west, float east, float r)
{
	float sum = __fadd_rn(__fadd_rn(north, south), __fadd_rn(west, east));

	return __fadd_rn(u, __fmul_rn(r, __fsub_rn(sum, __fmul_rn(4.0f, u))));
}

/*
 * Computes the cells in rows `first` to `last` of column j. north: value of the cell above row `first`. below: the row
 * below the last row of the array; NULL: its cells are 0.
 */
static __device__ __forceinline__ void heat_strip(float *__restrict__ next, const float *__restrict__ now, float north,
						  const float *__restrict__ below, uint64_t first, uint64_t last,
						  uint64_t rows, uint64_t columns, uint64_t j, float r)
{
	float u = now[first * columns + j];

#pragma unroll
	for (uint64_t i = first; i < first + HEAT_STRIP; i++) {
		if (i > last)
			break;
		const float *row = now + i * columns;
		float south = i + 1 < rows ? row[columns + j] : below ? below[j] : 0.0f;
		float west = j > 0 ? row[j - 1] : 0.0f;
		float east = j + 1 < columns ? row[j + 1] : 0.0f;

		next[i * columns + j] = heat_cell(u, north, south, west, east, r);
		north = u;
		u = south;
	}
}

extern "C" __global__ void heat_step(float *__restrict__ next, const float *__restrict__ now,
				     const float *__restrict__ above, const float *__restrict__ below, uint32_t rows,
				     uint32_t columns, float r)
{
	uint64_t across = (uint64_t)gridDim.x * blockDim.x;
	uint64_t down = (uint64_t)gridDim.y * blockDim.y * HEAT_STRIP;

	for (uint64_t j = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; j < columns; j += across) {
		uint64_t first = ((uint64_t)blockIdx.y * blockDim.y + threadIdx.y) * HEAT_STRIP;

		for (; first < rows; first += down) {
			uint64_t last = first + HEAT_STRIP < rows ? first + HEAT_STRIP - 1 : rows - 1;
			float north = first > 0 ? now[(first - 1) * columns + j] : above ? above[j] : 0.0f;

			heat_strip(next, now, north, below, first, last, rows, columns, j, r);
		}
	}
}

extern "C" __global__ void heat_edges(float *__restrict__ next, const float *__restrict__ now,
				      const float *__restrict__ above, const float *__restrict__ below, uint32_t rows,
				      uint32_t columns, float r)
{
	uint64_t across = (uint64_t)gridDim.x * blockDim.x, edges = rows < 2 ? rows : 2;

	for (uint64_t j = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; j < columns; j += across) {
		for (uint64_t edge = blockIdx.y; edge < edges; edge += gridDim.y) {
			uint64_t row = edge ? rows - 1 : 0;
			float north = row > 0 ? now[(row - 1) * columns + j] : above ? above[j] : 0.0f;

			heat_strip(next, now, north, below, row, row, rows, columns, j, r);
		}
	}
}
