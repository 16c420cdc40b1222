/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>

#include <jansson.h>

#define TEXT_MAX 640

static const char *const verdict_names[] = { "ok", "warn", "FAIL" };

static const char *check;
static json_t     *findings; /* array for the JSON output; NULL: lines are printed instead */
static bool        failed;   /* true: a finding was a FAIL */

void report_begin(bool json)
{
	findings = json ? json_array() : NULL;
	failed = false;
}

void report_check(const char *name)
{
	check = name;
}

static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void report(enum verdict verdict, const char *remedy, const char *format, ...)
{
	const char *name = verdict_names[verdict];
	char text[TEXT_MAX], fix[TEXT_MAX] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	snprintf(fix, sizeof fix, "%s", remedy ? remedy : "");
	make_printable(text);
	make_printable(fix);
	if (findings)
		json_array_append_new(findings, json_pack("{s:s, s:s, s:s, s:s*}", "check", check, "verdict", name,
							  "text", text, "remedy", *fix ? fix : NULL));
	else
		printf("%s: %s%s%s\n", name, text, *fix ? "; " : "", fix);
	failed |= verdict == FAIL;
}

bool report_end(void)
{
	if (findings) {
		json_dumpf(findings, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(findings);
	findings = NULL;
	return failed;
}
