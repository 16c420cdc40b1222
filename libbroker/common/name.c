/* SPDX-License-Identifier: Apache-2.0 */
/* name.c - see name.h */
#include "name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

#define ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

const char *name_printable(const char *name, char copy[NAME_SIZE])
{
	snprintf(copy, NAME_SIZE, "%s", name);
	for (char *c = copy; *c; c++)
		if (*c < '!' || *c > '~')
			*c = '?';
	return copy;
}

int name_check(const char *name)
{
	char shown[NAME_SIZE];

	if (!name || !*name)
		return error_set(-EINVAL, "a buffer's name is missing: give 1 to %d characters", NAME_SIZE - 1);
	if (strnlen(name, NAME_SIZE) == NAME_SIZE)
		return error_set(-ENAMETOOLONG, "the name '%.40s...' is longer than %d bytes: shorten it",
				 name_printable(name, shown), NAME_SIZE - 1);
	if (*name == '/' || name[strspn(name, ALPHANUMERIC "._/-")])
		return error_set(-EINVAL, "'%s' is no buffer's name: it may hold only A-Z a-z 0-9 . _ / - and must not "
					  "begin with '/'",
				 name_printable(name, shown));
	return 0;
}

int instance_check(const char *name)
{
	char shown[NAME_SIZE];

	if (!name || !*name || strnlen(name, INSTANCE_SIZE) == INSTANCE_SIZE || name[strspn(name, ALPHANUMERIC "_-")])
		return error_set(-EINVAL, "'%s' is no name of an instance: write 1 to %d characters of A-Z a-z 0-9 _ -",
				 name_printable(name ? name : "", shown), INSTANCE_SIZE - 1);
	return 0;
}
