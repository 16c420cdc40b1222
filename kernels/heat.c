/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat.c - one step of the heat equation, the host twin of heat.cu: change both or none.
 *
 * Cells with four neighbours are computed in a loop that gcc vectorises. Cells at the edge of the domain are computed
 * one by one, with 0 for a missing neighbour. Both use heat_cell(), so the result is the same to the bit for any
 * split of the grid over workers.
 */
#include <stddef.h>

#include "gpubroker-host.h"
#include "kernels.h"

#ifdef __FAST_MATH__
#error "-ffast-math would give other bits than CUDA does"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

static inline float heat_cell(float u, float north, float south, float west, float east, float r)
{
	float sum = (north + south) + (west + east);

	return u + r * (sum - 4.0f * u);
}

/*
 * Computes cell j of a row, which may have fewer than four neighbours. north, south: the rows above and below; NULL:
 * cells there are 0.
 */
static void heat_edge(float *next, const float *now, const float *north, const float *south, size_t columns, size_t j,
		      float r)
{
	float west = j > 0 ? now[j - 1] : 0.0f;
	float east = j + 1 < columns ? now[j + 1] : 0.0f;

	next[j] = heat_cell(now[j], north ? north[j] : 0.0f, south ? south[j] : 0.0f, west, east, r);
}

/* Computes the cells of a row that have four neighbours: all cells but the first and the last. */
static void heat_inside(float *restrict next, const float *restrict now, const float *restrict north,
			const float *restrict south, size_t columns, float r)
{
	for (size_t j = 1; j + 1 < columns; j++)
		next[j] = heat_cell(now[j], north[j], south[j], now[j - 1], now[j + 1], r);
}

static void heat_row(float *next, const float *now, const float *north, const float *south, size_t columns, float r)
{
	heat_edge(next, now, north, south, columns, 0, r);
	if (north && south)
		heat_inside(next, now, north, south, columns, r);
	else
		for (size_t j = 1; j + 1 < columns; j++)
			heat_edge(next, now, north, south, columns, j, r);
	heat_edge(next, now, north, south, columns, columns - 1, r);
}

/* Computes every stride-th row, from the first row on. args: those of heat_step(). */
static void heat_rows(void **args, size_t stride)
{
	float *next = *(float **)args[0];
	const float *now = *(const float **)args[1];
	const float *above = *(const float **)args[2], *below = *(const float **)args[3];
	size_t rows = *(uint32_t *)args[4], columns = *(uint32_t *)args[5];
	float r = *(float *)args[6];

	for (size_t i = 0; columns && i < rows; i += stride) {
		const float *row = now + i * columns;

		heat_row(next + i * columns, row, i ? row - columns : above, i + 1 < rows ? row + columns : below,
			 columns, r);
	}
}

static void heat_step(const gpub_launch_config *config, void **args)
{
	(void)config;
	heat_rows(args, 1);
}

/* Computes the first and the last row, which may be one row. */
static void heat_edges(const gpub_launch_config *config, void **args)
{
	size_t rows = *(uint32_t *)args[4];

	(void)config;
	heat_rows(args, rows > 1 ? rows - 1 : 1);
}

GPUB_HOST_KERNEL(heat_step, heat_step, sizeof(float *), sizeof(float *), sizeof(float *), sizeof(float *),
		 sizeof(uint32_t), sizeof(uint32_t), sizeof(float));
GPUB_HOST_KERNEL(heat_edges, heat_edges, sizeof(float *), sizeof(float *), sizeof(float *), sizeof(float *),
		 sizeof(uint32_t), sizeof(uint32_t), sizeof(float));
