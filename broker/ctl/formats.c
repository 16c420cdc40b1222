/* SPDX-License-Identifier: Apache-2.0 */
/* formats.c - see formats.h */
#include "formats.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "common/error.h"

static const char *const endings[] = { ".npy", ".safetensors" };

static const char npy_magic[FORMATS_MAGIC_SIZE + 1] = "\x93NUMPY";

static bool ends_with(const char *path, const char *ending)
{
	size_t length = strlen(path), size = strlen(ending);

	return length > size && !strcasecmp(path + length - size, ending);
}

int formats_check(const char *command, const char *path, const char *begin)
{
	const char *format = NULL;

	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (ends_with(path, endings[i]))
			format = endings[i];
	if (!format && begin && !memcmp(begin, npy_magic, FORMATS_MAGIC_SIZE))
		format = endings[0];
	if (!format)
		return 0;
	return error_set(-EINVAL, "%.100s: use python3 -m gpubroker %s, which knows the format %s, or give the file as "
			 "-, whose bytes broker-ctl %s moves as they are", path, command, format, command);
}
