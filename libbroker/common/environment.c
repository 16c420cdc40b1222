/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - see environment.h */
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "error.h"

bool environment_is_untrusted(void)
{
	return getauxval(AT_SECURE);
}

const char *environment_get(const char *name)
{
	return environment_is_untrusted() ? NULL : getenv(name);
}

bool environment_ignored(const char *name)
{
	return environment_is_untrusted() && getenv(name);
}

int environment_note(int error, const char *name)
{
	char text[ERROR_TEXT_MAX];

	if (!environment_ignored(name))
		return error;
	snprintf(text, sizeof text, "%s", error_text());
	return error_set(error, "%.200s (%s is ignored: this program has more rights than the user who started it)",
			 text, name);
}
