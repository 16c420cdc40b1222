/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field.c - the field by formula: how its rows are shared out, how it begins, how it must end.
 *
 * The initial field sin(pi M (i+1)/(NY+1)) sin(pi N (j+1)/(NX+1)) is an eigenvector of the explicit step with
 * the boundary held at 0: each step multiplies it by
 *     lambda = 1 + 2r (cos(pi M/(NY+1)) - 1) + 2r (cos(pi N/(NX+1)) - 1)
 * so the discrete solution, not merely the continuous one, is known after any number of steps.
 *
 * A value depends on its place in the whole grid alone, so every split over workers begins with the same bits.
 * Works in host memory; never touches a device.
 */
#include <math.h>
#include <stdlib.h>

#include "heat.h"

/* Earlier ranks take the remainder. */
struct share field_share(uint32_t rows, unsigned rank, unsigned size)
{
	uint32_t     each = rows / size, more = rows % size;
	struct share share;

	share.rows = each + (rank < more);
	share.first = rank * each + (rank < more ? rank : more);
	return share;
}

/* sin(pi waves (i+1) / (count+1)), the angle first reduced in whole numbers so that no digits are lost. */
static double wave(uint32_t waves, uint32_t count, uint32_t i)
{
	uint64_t period = 2 * ((uint64_t)count + 1);
	uint64_t phase = (uint64_t)waves * ((uint64_t)i + 1) % period;

	return sin(2 * M_PI * (double)phase / (double)period);
}

static double *wave_table(uint32_t waves, uint32_t count)
{
	double *values = malloc(count * sizeof(*values));

	for (uint32_t i = 0; values && i < count; i++)
		values[i] = wave(waves, count, i);
	return values;
}

static void field_formula(const struct options *options, struct share share, const double *across, float *field)
{
	for (uint32_t i = 0; i < share.rows; i++) {
		double down = wave(options->m, options->ny, share.first + i);

		for (uint32_t j = 0; j < options->nx; j++)
			field[(size_t)i * options->nx + j] = (float)(down * across[j]);
	}
}

static void field_image(const struct options *options, struct share share, const float *image, float *field)
{
	size_t first = (size_t)share.first * options->nx, count = (size_t)share.rows * options->nx;

	for (size_t i = 0; i < count; i++)
		field[i] = image[first + i];
}

float *field_initial(const struct options *options, struct share share, const float *image)
{
	float  *field = malloc((size_t)share.rows * options->nx * sizeof(*field));
	double *across = image ? NULL : wave_table(options->n, options->nx);

	if (field && image) {
		field_image(options, share, image, field);
	} else if (field && across) {
		field_formula(options, share, across, field);
	} else {
		heat_fail("no memory for the initial field of %u x %u", share.rows, options->nx);
		free(field);
		field = NULL;
	}
	free(across);
	return field;
}

/* 1 - lambda; cos(x) - 1 is -2 sin^2(x/2), which keeps its digits when x is small. */
static double field_decay(const struct options *options)
{
	double down = sin(M_PI * options->m / (2.0 * ((double)options->ny + 1)));
	double across = sin(M_PI * options->n / (2.0 * ((double)options->nx + 1)));

	return 4 * HEAT_R * (down * down + across * across);
}

static double field_factor(const struct options *options)
{
	return pow(1 - field_decay(options), (double)options->steps);
}

/* Written so that a value that is not a number becomes, and stays, the largest error. */
static double field_row_error(const float *row, const double *across, uint32_t columns, double down, double worst)
{
	for (uint32_t j = 0; j < columns; j++) {
		double off = fabs(row[j] - down * across[j]);

		if (!(off <= worst))
			worst = off;
	}
	return worst;
}

double field_error(const struct options *options, const float *field)
{
	double *across = wave_table(options->n, options->nx), factor = field_factor(options), worst = 0;

	if (!across)
		return heat_fail("no memory for the exact solution");
	for (uint32_t i = 0; i < options->ny && !isnan(worst); i++) {
		double down = factor * wave(options->m, options->ny, i);

		worst = field_row_error(field + (size_t)i * options->nx, across, options->nx, down, worst);
	}
	free(across);
	return worst;
}

/*
 * The bound, with e = 2^-24 (float rounding) and m the largest |u| of a step. Sums of two neighbours are off by 2me
 * each, their sum by 4me more, four times u by nothing, the difference by 8me: 16me at most, which r makes 3.2me; the
 * product rounds by 1.6me, the last sum by me, and r itself was rounded, 0.4me: below 7me. The step is a mean with
 * weights 1-4r, r, r, r, r: it never enlarges an error it is given, so errors at most add up. Hence, with one e for the
 * rounded initial field,
 *     error <= e (1 + 7 (1 + |lambda| + |lambda|^2 + ... )) exp(7 e steps)
 * where the last factor covers the roundings of the error's own part of u. Below 1e-40 floats are subnormal
 * and round by an absolute amount: hence the last term. True errors are usually some ten times smaller.
 */
double field_bound(const struct options *options)
{
	double e = ldexp(1, -24), steps = (double)options->steps;
	double lambda = fabs(1 - field_decay(options)), sum = steps;

	if (lambda < 1 && steps > 0)
		sum = fmin(steps, (1 - pow(lambda, steps)) / (1 - lambda));
	return e * (1 + 7 * sum) * exp(7 * e * steps) + steps * ldexp(1, -146);
}
