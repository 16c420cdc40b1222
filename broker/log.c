/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* One write a line, so that lines of several processes on one terminal do not mix. */
void log_line(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
}
