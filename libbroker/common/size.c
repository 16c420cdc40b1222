/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - see size.h */
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define DIGITS_MAX 6 /* of a fraction */

/* Returns the binary logarithm of a unit that size_format() or size_short() writes, or of no unit; -1: it is none. */
static int unit_shift(const char *text)
{
	static const char letters[] = "BKMGTPE";
	const char *letter = *text ? strchr(letters, toupper((unsigned char)*text)) : letters;

	if (!letter || (text[0] && text[1] && (letter == letters || strcmp(text + 1, "iB"))))
		return -1;
	return (int)(letter - letters) * 10;
}

/* Parses the digits behind a point: their value in parts of 2^shift, rounded down. -1: there are none, or too many. */
static int64_t fraction_parse(const char **text, int shift)
{
	uint64_t value = 0, whole = 1;

	for (int digits = 0; **text >= '0' && **text <= '9'; ++*text, digits++) {
		if (digits == DIGITS_MAX)
			return -1;
		value = value * 10 + (uint64_t)(**text - '0');
		whole *= 10;
	}
	if (whole == 1)
		return -1;
	return (int64_t)((value << (shift < 40 ? shift : 40)) / whole << (shift < 40 ? 0 : shift - 40));
}

/* Returns the bytes; 0: it is no size, or 0, or too large. */
static uint64_t parse(const char *text)
{
	const char *unit = text + strcspn(text, " BKMGTPEbkmgtpe");
	int shift = unit_shift(unit + (*unit == ' ' && unit[1]));
	unsigned long long number;
	int64_t fraction = 0;
	char *end;
	const char *rest;

	if (*text < '0' || *text > '9' || shift < 0)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	rest = end;
	if (*rest == '.' && shift) {
		rest++;
		fraction = fraction_parse(&rest, shift);
	}
	if (errno || rest != unit || fraction < 0 || number > (1ull << 62) >> shift)
		return 0;
	number = (number << shift) + (uint64_t)fraction;
	return number > 1ull << 62 ? 0 : number;
}

int size_parse(const char *text, uint64_t *bytes)
{
	uint64_t size = text ? parse(text) : 0;

	if (!size)
		return error_set(-EINVAL, "'%.40s' is not a size: write bytes, or a number with K, M or G, such as 64M",
				 text ? text : "");
	*bytes = size;
	return 0;
}

int size_parse_or_0(const char *text, uint64_t *bytes)
{
	if (!text || strcmp(text, "0"))
		return size_parse(text, bytes);
	*bytes = 0;
	return 0;
}

const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned unit = 0;
	uint64_t scale = 1;

	while (bytes / scale >= 1024 && unit < 6) {
		scale *= 1024;
		unit++;
	}
	if (bytes % scale == 0 || bytes / scale >= 100)
		snprintf(text, SIZE_TEXT_MAX, "%llu %s", (unsigned long long)(bytes / scale), units[unit]);
	else
		snprintf(text, SIZE_TEXT_MAX, "%.1f %s", (double)bytes / (double)scale, units[unit]);
	return text;
}

const char *size_short(uint64_t bytes, char text[SIZE_TEXT_MAX])
{
	char *blank = strchr(size_format(bytes, text), ' ');

	blank[0] = blank[1];
	blank[1] = 0;
	return text;
}
