/* SPDX-License-Identifier: Apache-2.0 */
/* grown.c - see grown.h */
#include "grown.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/error.h"

static bool is_known(const struct grown *grown, uint32_t size)
{
	for (int i = 0; i < GROWN_VERSIONS; i++)
		if (grown->sizes[i] == size && size)
			return true;
	return false;
}

static size_t latest(const struct grown *grown)
{
	int last = GROWN_VERSIONS - 1;

	while (!grown->sizes[last])
		last--;
	return grown->sizes[last];
}

int grown_take(void *to, const struct grown *grown, const void *from)
{
	uint32_t given;

	memcpy(&given, from, sizeof given);
	if (!is_known(grown, given))
		return error_set(-EINVAL,
				 "the %s's struct_size is %u, which is of no version that this library knows (%zu to "
				 "%zu): start from %s",
				 grown->what, given, grown->sizes[0], latest(grown), grown->init);
	memset(to, 0, latest(grown));
	memcpy(to, from, given);
	return 0;
}

void grown_give(void *to, const void *from)
{
	uint32_t given;

	memcpy(&given, to, sizeof given);
	memcpy((char *)to + sizeof given, (const char *)from + sizeof given, given - sizeof given);
}
