/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - see error.h */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[ERROR_TEXT_MAX] = "no error";

/*
 * Replaces bytes that are not printable ASCII in the message. A message may contain text from users or from a server,
 * and no control character may reach a terminal, of which some are above 0x7f.
 */
static void text_clean(void)
{
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

int error_store(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	text_clean();
	return code;
}

const char *error_text(void)
{
	return text;
}

struct saved_error error_save(void)
{
	struct saved_error kept;

	memcpy(kept.text, text, sizeof text);
	return kept;
}

void error_restore(const struct saved_error *kept)
{
	memcpy(text, kept->text, sizeof text);
}
