/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - the result in files: raw floats, and a picture in a perceptual colour map.
 *
 * The picture spreads the map over the field's own range, smallest value black, largest pale yellow; a field
 * with a side above PICTURE_SIDE is drawn smaller, each pixel the mean of a square of cells. Runs on rank 0
 * only, in host memory; never touches a device.
 */
#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

#define PICTURE_SIDE 2048u

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "--dump promises little-endian floats"
#endif

/*
 * Eleven colours of the map "inferno" (CC0), evenly apart: lightness rises steadily, also in grey and for the
 * colour-blind.
 */
static const uint8_t inferno[][3] = {
	{ 0x00, 0x00, 0x04 }, { 0x16, 0x0b, 0x39 }, { 0x42, 0x0a, 0x68 }, { 0x6a, 0x17, 0x6e },
	{ 0x93, 0x26, 0x67 }, { 0xbc, 0x37, 0x54 }, { 0xdd, 0x51, 0x3a }, { 0xf3, 0x78, 0x19 },
	{ 0xfc, 0xa5, 0x0a }, { 0xf6, 0xd7, 0x46 }, { 0xfc, 0xff, 0xa4 },
};

#define INFERNO_LAST (sizeof(inferno) / sizeof(inferno[0]) - 1)

struct picture {
	const float *field;
	uint32_t     ny, nx, square; /* cells a side of a pixel */
	uint32_t     rows, columns;
	float        low, high;
	png_structp  png;
	png_infop    info;
	png_bytep    line;
	FILE        *file;
	const char  *path;
};

static int output_open_one(FILE **file, const char *option, const char *path)
{
	if (!path)
		return 0;
	*file = fopen(path, "wbe");
	return *file ? 0 : heat_fail("--%s %s: %s", option, path, strerror(errno));
}

int output_open(struct output *output, const struct options *options)
{
	*output = (struct output){ NULL, NULL };
	if (output_open_one(&output->dump, "dump", options->dump))
		return -1;
	return output_open_one(&output->png, "png", options->png);
}

/* A full disk may be told as late as here. */
static int output_close(FILE *file, const char *path, bool good)
{
	good = good && !ferror(file);
	if (fclose(file) || !good)
		return heat_fail("%s: cannot write: %s", path, strerror(errno));
	return 0;
}

static int dump_write(FILE *file, const struct options *options, const float *field)
{
	size_t count = (size_t)options->ny * options->nx;
	bool   good = fwrite(field, sizeof(*field), count, file) == count;

	return output_close(file, options->dump, good);
}

/* ---- the picture ---- */

static void picture_range(struct picture *picture)
{
	size_t count = (size_t)picture->ny * picture->nx;

	picture->low = picture->high = picture->field[0];
	for (size_t i = 1; i < count; i++) {
		picture->low = fminf(picture->low, picture->field[i]);
		picture->high = fmaxf(picture->high, picture->field[i]);
	}
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The mean of the cells under a pixel; the last square of a row or column may be cut. */
static double picture_mean(const struct picture *picture, uint32_t row, uint32_t column)
{
	uint32_t top = row * picture->square, left = column * picture->square;
	uint32_t bottom = least(top + picture->square, picture->ny), right = least(left + picture->square, picture->nx);
	double   sum = 0;

	for (uint32_t i = top; i < bottom; i++)
		for (uint32_t j = left; j < right; j++)
			sum += picture->field[(size_t)i * picture->nx + j];
	return sum / ((double)(bottom - top) * (right - left));
}

static void picture_colour(double share, png_bytep rgb)
{
	double at = (share >= 0 ? fmin(share, 1) : 0) * (double)INFERNO_LAST;
	size_t below = (size_t)fmin(at, (double)INFERNO_LAST - 1);
	double part = at - (double)below;

	for (int i = 0; i < 3; i++)
		rgb[i] = (png_byte)lrint(inferno[below][i] * (1 - part) + inferno[below + 1][i] * part);
}

static void picture_line(struct picture *picture, uint32_t row)
{
	double range = (double)picture->high - picture->low;

	for (uint32_t j = 0; j < picture->columns; j++) {
		double off = picture_mean(picture, row, j) - picture->low;

		picture_colour(range > 0 ? off / range : 0, picture->line + (size_t)3 * j);
	}
}

static void picture_lines(struct picture *picture)
{
	for (uint32_t i = 0; i < picture->rows; i++) {
		picture_line(picture, i);
		png_write_row(picture->png, picture->line);
	}
}

static void picture_on_error(png_structp png, png_const_charp text)
{
	struct picture *picture = png_get_error_ptr(png);

	heat_fail("%s: cannot write: %s", picture->path, text);
	png_longjmp(png, 1);
}

/* libpng leaves a failing call by longjmp: back to here, and nothing that changes is a local of this function. */
static int picture_encode(struct picture *picture)
{
	if (setjmp(png_jmpbuf(picture->png)))
		return -1;
	png_init_io(picture->png, picture->file);
	png_set_IHDR(picture->png, picture->info, picture->columns, picture->rows, 8, PNG_COLOR_TYPE_RGB,
		     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_set_compression_level(picture->png, 3);
	png_write_info(picture->png, picture->info);
	picture_lines(picture);
	png_write_end(picture->png, NULL);
	return 0;
}

static void picture_measure(struct picture *picture)
{
	uint32_t side = picture->ny > picture->nx ? picture->ny : picture->nx;

	picture->square = (side + PICTURE_SIDE - 1) / PICTURE_SIDE;
	picture->rows = (picture->ny + picture->square - 1) / picture->square;
	picture->columns = (picture->nx + picture->square - 1) / picture->square;
	picture_range(picture);
}

static int picture_write(FILE *file, const struct options *options, const float *field)
{
	struct picture picture = {
		.field = field, .ny = options->ny, .nx = options->nx, .file = file, .path = options->png
	};
	int            result = -1;

	picture_measure(&picture);
	picture.line = malloc((size_t)3 * picture.columns);
	picture.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &picture, picture_on_error, NULL);
	picture.info = picture.png ? png_create_info_struct(picture.png) : NULL;
	if (picture.line && picture.info)
		result = picture_encode(&picture);
	else
		heat_fail("no memory for the picture %s", options->png);
	png_destroy_write_struct(&picture.png, &picture.info);
	free(picture.line);
	if (result) {
		fclose(file);
		return -1;
	}
	return output_close(file, options->png, true);
}

int output_write(struct output *output, const struct options *options, const float *field)
{
	int result = 0;

	if (output->dump && dump_write(output->dump, options, field))
		result = -1;
	if (output->png && picture_write(output->png, options, field))
		result = -1;
	return result;
}
