/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define TEXT_MAX 640

static const char *const verdict_names[] = { "ok", "warn", "FAIL" };

static const char *check, *check_remedy;
static char        next_remedy[TEXT_MAX]; /* remedy of the next finding; "": that of the check applies */
static json_t     *findings;              /* array for the JSON output; NULL: lines are printed instead */
static bool        failed;                /* a finding is a FAIL */

void report_begin(bool json)
{
	findings = json ? json_array() : NULL;
	failed = false;
}

void report_check(const char *name, const char *remedy)
{
	check = name;
	check_remedy = remedy;
	*next_remedy = 0;
}

static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void report_remedy(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(next_remedy, sizeof next_remedy, format, args);
	va_end(args);
	make_printable(next_remedy);
}

static void finding_add(enum verdict verdict, const char *text, const char *remedy)
{
	json_t *finding = json_pack("{s:s, s:s, s:s}", "check", check, "verdict", verdict_names[verdict], "text", text);

	if (finding && remedy)
		json_object_set_new(finding, "remedy", json_string(remedy));
	json_array_append_new(findings, finding);
}

void report(enum verdict verdict, const char *format, ...)
{
	const char *remedy = *next_remedy ? next_remedy : check_remedy;
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	make_printable(text);
	if (verdict == OK)
		remedy = NULL;
	if (findings)
		finding_add(verdict, text, remedy);
	else
		printf("%s: %s%s%s\n", verdict_names[verdict], text, remedy ? "; " : "", remedy ? remedy : "");
	failed |= verdict == FAIL;
	*next_remedy = 0;
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
