/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - the initial field from a grayscale image: PNG (1 to 16 bit) or PGM (P2, P5, 8 or 16 bit).
 *
 * The file may be anybody's: its sides and its area are bounded, nothing is allocated before a regular file was
 * seen to be long enough (PGM) or its header was checked (PNG), and a file that ends early is refused. A refusal
 * strikes every worker alike, so rank 0 speaks for all. Knows nothing of grids, workers or devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "heat.h"

#define IMAGE_SIDE_MAX  32768u
#define IMAGE_AREA_MAX  (64u << 20) /* pixels */
#define IMAGE_CHUNK_MAX (8u << 20)  /* bytes of a PNG's chunk beside the pixels */

struct image {
	const char *path;
	FILE       *file;
	uint64_t    bytes; /* of the file */
	uint32_t    rows, columns;
	float      *pixels;
	png_structp png;
	png_infop   info;
	png_bytep  *lines; /* raw PNG rows */
	png_bytep   raw;
};

static int image_refuse(const struct image *image, const char *why)
{
	heat_refuse("%s: %s", image->path, why);
	return -1;
}

/* O_NONBLOCK: a FIFO must not hold up the workers before it is seen to be none of ours. */
static int image_open(struct image *image)
{
	struct stat status;
	int         fd = open(image->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return image_refuse(image, strerror(errno));
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return image_refuse(image, "not a regular file; give a PNG or PGM file");
	}
	image->bytes = (uint64_t)status.st_size;
	image->file = fdopen(fd, "rb");
	if (!image->file) {
		close(fd);
		return image_refuse(image, strerror(errno));
	}
	return 0;
}

static int image_size(struct image *image, uint64_t rows, uint64_t columns)
{
	if (!rows || !columns || rows > IMAGE_SIDE_MAX || columns > IMAGE_SIDE_MAX || rows * columns > IMAGE_AREA_MAX)
		return image_refuse(image, "its sides must be 1 to 32768 pixels, and at most 64 million pixels in all");
	image->rows = (uint32_t)rows;
	image->columns = (uint32_t)columns;
	return 0;
}

static int image_allocate(struct image *image)
{
	image->pixels = malloc((size_t)image->rows * image->columns * sizeof(*image->pixels));
	return image->pixels ? 0 : image_refuse(image, "no memory for its pixels");
}

/* ---- PGM ---- */

/* The first character that is neither blank nor in a comment; EOF at the end. */
static int pgm_skip(FILE *file)
{
	int c = getc(file);

	while (c == ' ' || (c >= '\t' && c <= '\r') || c == '#') {
		if (c == '#')
			while (c != '\n' && c != '\r' && c != EOF)
				c = getc(file);
		else
			c = getc(file);
	}
	return c;
}

/* A decimal number up to high; the one character behind it is eaten, as the format has it behind the header. */
static int pgm_number(FILE *file, uint32_t high, uint32_t *number)
{
	uint32_t value = 0;
	int      c = pgm_skip(file);

	if (c < '0' || c > '9')
		return -1;
	for (; c >= '0' && c <= '9'; c = getc(file)) {
		value = value * 10 + (uint32_t)(c - '0');
		if (value > high)
			return -1;
	}
	if (c == '#')
		ungetc(c, file);
	else if (c != EOF && c != ' ' && !(c >= '\t' && c <= '\r'))
		return -1;
	*number = value;
	return 0;
}

static int pgm_plain(struct image *image, uint32_t most)
{
	size_t   count = (size_t)image->rows * image->columns;
	uint32_t value;

	for (size_t i = 0; i < count; i++) {
		if (pgm_number(image->file, most, &value))
			return image_refuse(image,
					    "this PGM ends early, or has a value that is no number or too large");
		image->pixels[i] = (float)((double)value / most);
	}
	return 0;
}

/* One row at a time; a value above 255 takes two bytes, the high one first. */
static int pgm_binary(struct image *image, uint32_t most, size_t width)
{
	size_t   count = image->columns * width, columns = image->columns;
	uint8_t *line = malloc(count);
	bool     good = line != NULL;

	for (uint32_t i = 0; good && i < image->rows; i++) {
		good = fread(line, 1, count, image->file) == count;
		for (size_t j = 0; good && j < columns; j++) {
			uint32_t value = width == 1 ? line[j] : (uint32_t)line[2 * j] << 8 | line[2 * j + 1];

			good = value <= most;
			image->pixels[i * columns + j] = (float)((double)value / most);
		}
	}
	free(line);
	return good ? 0 : image_refuse(image, "this PGM ends early or has a value above its own largest");
}

static int pgm_read(struct image *image, bool plain)
{
	uint32_t columns, rows, most, width;
	uint64_t least;

	if (fseek(image->file, 2, SEEK_SET) || pgm_number(image->file, UINT32_MAX / 11, &columns) ||
	    pgm_number(image->file, UINT32_MAX / 11, &rows) || pgm_number(image->file, 65535, &most) || most == 0)
		return image_refuse(image, "its PGM header is damaged; it must give width, height and a largest value "
					   "up to 65535");
	if (image_size(image, rows, columns))
		return -1;
	width = most > 255 ? 2 : 1;
	least = (uint64_t)rows * columns * (plain ? 2 : width) - (plain ? 1 : 0);
	if (image->bytes < least)
		return image_refuse(image, "this PGM is shorter than its header says");
	if (image_allocate(image))
		return -1;
	return plain ? pgm_plain(image, most) : pgm_binary(image, most, width);
}

/* ---- PNG ---- */

static void png_on_error(png_structp png, png_const_charp text)
{
	struct image *image = png_get_error_ptr(png);

	heat_refuse("%s: not a PNG that can be used: %s", image->path, text);
	png_longjmp(png, 1);
}

static void png_on_warning(png_structp png, png_const_charp text)
{
	(void)png;
	(void)text;
}

static void png_header(struct image *image)
{
	png_init_io(image->png, image->file);
	png_set_user_limits(image->png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
	png_set_chunk_malloc_max(image->png, IMAGE_CHUNK_MAX);
	png_read_info(image->png, image->info);
	if (png_get_color_type(image->png, image->info) != PNG_COLOR_TYPE_GRAY)
		png_error(image->png, "it is not grayscale (without transparency)");
	png_set_expand_gray_1_2_4_to_8(image->png);
	png_set_interlace_handling(image->png);
	png_read_update_info(image->png, image->info);
}

static void png_body(struct image *image)
{
	png_read_image(image->png, image->lines);
	png_read_end(image->png, NULL);
}

/* libpng leaves a failing call by longjmp: back to here, and nothing that changes is a local of this function. */
static int png_guarded(struct image *image, void (*stage)(struct image *image))
{
	if (setjmp(png_jmpbuf(image->png)))
		return -1;
	stage(image);
	return 0;
}

static int png_allocate(struct image *image, size_t width)
{
	size_t line = image->columns * width;

	image->raw = malloc(image->rows * line);
	image->lines = malloc(image->rows * sizeof(*image->lines));
	if (!image->raw || !image->lines)
		return image_refuse(image, "no memory for its pixels");
	for (uint32_t i = 0; i < image->rows; i++)
		image->lines[i] = image->raw + i * line;
	return image_allocate(image);
}

static void png_scale(struct image *image, size_t width)
{
	size_t count = (size_t)image->rows * image->columns;

	for (size_t i = 0; i < count; i++)
		if (width == 1)
			image->pixels[i] = (float)(image->raw[i] / 255.0);
		else
			image->pixels[i] = (float)((image->raw[2 * i] << 8 | image->raw[2 * i + 1]) / 65535.0);
}

static int png_parse(struct image *image)
{
	size_t width;

	if (png_guarded(image, png_header))
		return -1;
	if (image_size(image, png_get_image_height(image->png, image->info),
		       png_get_image_width(image->png, image->info)))
		return -1;
	width = png_get_bit_depth(image->png, image->info) == 16 ? 2 : 1;
	if (png_get_rowbytes(image->png, image->info) != image->columns * width)
		return image_refuse(image, "its rows have an unexpected length");
	if (png_allocate(image, width) || png_guarded(image, png_body))
		return -1;
	png_scale(image, width);
	return 0;
}

static int png_read(struct image *image)
{
	int result;

	rewind(image->file);
	image->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, image, png_on_error, png_on_warning);
	image->info = image->png ? png_create_info_struct(image->png) : NULL;
	result = image->info ? png_parse(image) : image_refuse(image, "no memory for libpng");
	png_destroy_read_struct(&image->png, &image->info, NULL);
	free(image->lines);
	free(image->raw);
	return result;
}

static int image_decode(struct image *image)
{
	uint8_t magic[8] = { 0 };
	size_t  got = fread(magic, 1, sizeof(magic), image->file);

	if (got == sizeof(magic) && !png_sig_cmp(magic, 0, sizeof(magic)))
		return png_read(image);
	if (got > 2 && magic[0] == 'P' && (magic[1] == '2' || magic[1] == '5'))
		return pgm_read(image, magic[1] == '2');
	return image_refuse(image, "neither a PNG nor a grayscale PGM (P2, P5)");
}

int image_read(const char *path, uint32_t *rows, uint32_t *columns, float **pixels)
{
	struct image image = { .path = path };
	int          result;

	if (image_open(&image))
		return -1;
	result = image_decode(&image);
	fclose(image.file);
	if (result) {
		free(image.pixels);
		return -1;
	}
	*rows = image.rows;
	*columns = image.columns;
	*pixels = image.pixels;
	return 0;
}
