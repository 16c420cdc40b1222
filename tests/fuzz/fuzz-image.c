/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-image.c - the picture that heat --input reads. The input is the file, PNG or PGM.
 *
 * What is taken has sides within bounds and values from 0 to 1; every refusal is said once.
 */
#include "fuzz.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "examples/heat/heat.h"

#define SIDE_MAX 32768u
#define AREA_MAX (64u << 20)

static unsigned said;

void heat_refuse(const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	said++;
}

static void pixels_check(const float *pixels, uint32_t rows, uint32_t columns)
{
	FUZZ_HOLDS(rows && columns && rows <= SIDE_MAX && columns <= SIDE_MAX && (uint64_t)rows * columns <= AREA_MAX,
		   "a picture of %ux%u pixels is taken", rows, columns);
	for (size_t i = 0; i < (size_t)rows * columns; i++)
		FUZZ_HOLDS(pixels[i] >= 0 && pixels[i] <= 1, "pixel %zu has the value %g", i, (double)pixels[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[FUZZ_PATH_SIZE];
	uint32_t rows, columns;
	float *pixels = NULL;
	int fd = fuzz_file(data, size), result;

	said = 0;
	result = image_read(fuzz_path(fd, path), &rows, &columns, &pixels);
	close(fd);
	FUZZ_HOLDS(result ? said == 1 && !pixels : !said, "%d is returned and %u error messages are said", result,
		   said);
	if (!result)
		pixels_check(pixels, rows, columns);
	free(pixels);
	return 0;
}

/* ---- checksums, which no mutation would get right ---- */

static uint32_t big_endian(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Length, type, data, checksum of the last two; the first eight bytes of a PNG are its mark. */
static void chunks_repair(uint8_t *data, size_t size)
{
	size_t at = 8;

	while (size - at >= 12 && big_endian(data + at) <= size - at - 12) {
		size_t length = big_endian(data + at);
		uint32_t sum = (uint32_t)crc32(0, data + at + 4, (uInt)length + 4);

		for (int i = 0; i < 4; i++)
			data[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
		at += length + 12;
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned number)
{
	size = LLVMFuzzerMutate(data, size, room);
	if (number % 8 && size >= 8 && data[0] == 0x89)
		chunks_repair(data, size);
	return size;
}
