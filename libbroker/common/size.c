/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - see size.h */
#include "size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static int unit_shift(char unit)
{
	switch (unit) {
	case 0:
		return 0;
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	default:
		return -1;
	}
}

int size_parse(const char *text, uint64_t *bytes)
{
	unsigned long long number;
	char *end;
	int shift;

	if (!text || *text < '0' || *text > '9')
		goto refuse;
	errno = 0;
	number = strtoull(text, &end, 10);
	shift = unit_shift(*end);
	if (errno || shift < 0 || (*end && end[1]) || !number || number > (1ull << 62) >> shift)
		goto refuse;
	*bytes = (uint64_t)number << shift;
	return 0;
refuse:
	return error_set(-EINVAL, "'%.40s' is not a size: write bytes, or a number with K, M or G, such as 64M",
			 text ? text : "");
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
