/* SPDX-License-Identifier: Apache-2.0 */
/* exports.c - see exports.h */
#include "exports.h"

#include <stdio.h>
#include <string.h>

unsigned export_find(const char *name)
{
	unsigned number = 0;

	while (number < export_count && strcmp(exports[number].name, name) != 0)
		number++;
	return number;
}

const char *export_names(char names[EXPORT_NAMES_SIZE])
{
	int length = 0;

	for (unsigned number = 0; number < export_count && length < EXPORT_NAMES_SIZE; number++)
		length += snprintf(names + length, (size_t)(EXPORT_NAMES_SIZE - length), "%s%s",
				   !number ? "" : number + 1 < export_count ? ", " : " or ", exports[number].name);
	return names;
}

unsigned export_growable(unsigned wish)
{
	unsigned number = 0;

	if (exports[wish].growable)
		return wish;
	while (number < export_count - 1 && !exports[number].growable)
		number++;
	return number;
}

unsigned export_descriptors_max(void)
{
	for (unsigned number = 0; number < export_count; number++)
		if (exports[number].by_descriptor)
			return 1;
	return 0;
}
