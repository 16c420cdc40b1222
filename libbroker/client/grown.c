/* SPDX-License-Identifier: Apache-2.0 */
/* grown.c - see grown.h */
#include "grown.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "common/error.h"

int grown_take(void *to, size_t size, size_t first, const void *from, const char *what, const char *init)
{
	uint32_t given;

	memcpy(&given, from, sizeof given);
	if (given != first && given != size)
		return error_set(-EINVAL, "the %s's struct_size is %u where this library knows %zu and %zu: start from %s", what, given,
				 first, size, init);
	memset(to, 0, size);
	memcpy(to, from, given);
	return 0;
}

void grown_give(void *to, const void *from)
{
	uint32_t given;

	memcpy(&given, to, sizeof given);
	memcpy((char *)to + sizeof given, (const char *)from + sizeof given, given - sizeof given);
}
