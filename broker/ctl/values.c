/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - see values.h */
#include "values.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "gpubroker.h"

#define LIFETIME_MAX_MS 3153600000000u /* largest lifetime: a hundred years in milliseconds */

int take_session(void *field, const char *text)
{
	return number_parse(text, "session", 0, UINT64_MAX, field);
}

/* ---- modes ---- */

/*
 * Parses the letters "r" and "w" at *text. Returns their bits for user, group and others, and moves *text to the first
 * other letter.
 */
static unsigned clause_bits(const char **text)
{
	unsigned bits = 0;

	for (; **text == 'r' || **text == 'w'; ++*text)
		bits |= **text == 'r' ? 0444 : 0222;
	return bits;
}

/*
 * Parses the letters "u", "g", "o" and "a" at *text. Returns a mask of the bits that they select, or of all bits if
 * there is no such letter.
 */
static unsigned clause_who(const char **text)
{
	unsigned who = 0;

	for (; **text && strchr("ugoa", **text); ++*text)
		who |= **text == 'u' ? 0700 : **text == 'g' ? 0070 : **text == 'o' ? 0007 : 0777;
	return who ? who : 0777;
}

/* Parses one clause at *text, such as "g+r", adds it to *change, and moves *text to its end. Returns 0 or -EINVAL. */
static int clause_apply(const char **text, struct mode_change *change)
{
	unsigned who = clause_who(text), bits;
	char sign = **text;

	if (sign != '+' && sign != '-' && sign != '=')
		return -EINVAL;
	++*text;
	bits = clause_bits(text) & who;
	if (**text && **text != ',')
		return -EINVAL;
	if (sign == '+') {
		change->set |= bits;
		return 0;
	}
	change->keep &= sign == '-' ? ~bits : ~who;
	change->set &= sign == '-' ? ~bits : ~who;
	change->set |= sign == '-' ? 0 : bits;
	return 0;
}

int take_mode_change(void *field, const char *text)
{
	struct mode_change made = { .keep = 0777 };
	const char *rest = text;
	int error;

	if (*text >= '0' && *text <= '9') {
		made.keep = 0;
		error = take_mode(&made.set, text);
	} else {
		do
			error = clause_apply(&rest, &made);
		while (!error && *rest++ == ',');
		if (error)
			error_set(error,
				  "'%.40s' is no mode: write octal digits such as 0640, or changes such as g+r,o-w",
				  text);
	}
	if (!error)
		*(struct mode_change *)field = made;
	return error;
}

/* ---- owners ---- */

int take_owner(void *field, const char *text)
{
	struct owner owner = { GPUB_KEEP, GPUB_KEEP };
	size_t length = strcspn(text, ":");
	char name[64];
	int error = 0;

	if (!*text || length >= sizeof name || (text[length] && !text[length + 1]))
		return error_set(-EINVAL, "'%.80s' is no owner: write USER, USER:GROUP or :GROUP", text);
	snprintf(name, sizeof name, "%.*s", (int)length, text);
	if (length)
		error = take_user(&owner.user, name);
	if (!error && text[length])
		error = take_group(&owner.group, text + length + 1);
	if (!error)
		*(struct owner *)field = owner;
	return error;
}

/* ---- times and rights ---- */

/* Returns the number of seconds of a unit of time, such as "m"; 0: there is no such unit. */
static double unit_of(const char *unit)
{
	static const struct {
		const char *name;
		double      seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(unit, units[i].name))
			return units[i].seconds;
	return 0;
}

static int time_parse(const char *text, uint64_t most_ms, uint64_t *ms)
{
	size_t length = strspn(text, "0123456789.");
	double value, unit = unit_of(text + length);
	char *end = NULL;

	/* the length is checked, too, because strtod(3) also accepts signs, blanks, exponents and words */
	value = length ? strtod(text, &end) : 0;
	if (!length || end != text + length || unit <= 0)
		return error_set(-EINVAL,
				 "'%.40s' is no time: write seconds, or a number with s, m, h or d, such as 90 or 2h",
				 text);
	value = value * unit * 1000;
	if (value > (double)most_ms)
		return error_set(-EINVAL, "'%.40s' is too long a time: at most %llu seconds", text,
				 (unsigned long long)most_ms / 1000);
	*ms = (uint64_t)value;
	return 0;
}

int take_milliseconds(void *field, const char *text)
{
	uint64_t ms;
	int error = time_parse(text, INT_MAX, &ms);

	if (!error)
		*(int *)field = (int)ms;
	return error;
}

int take_since(void *field, const char *text)
{
	return time_parse(text, LIFETIME_MAX_MS, field);
}

/*
 * Refuses a time of 0, which means to the broker that the ticket is valid as long as the buffer: only "forever" gives
 * 0.
 */
int take_lifetime(void *field, const char *text)
{
	uint64_t ms = 0;
	int error = strcmp(text, "forever") ? time_parse(text, LIFETIME_MAX_MS, &ms) : 0;

	if (!error && !ms && strcmp(text, "forever"))
		error = error_set(-EINVAL, "a ticket that lives for '%.40s' is of no use: give a time, or forever",
				  text);
	if (!error)
		*(uint64_t *)field = ms;
	return error;
}

int take_rights(void *field, const char *text)
{
	static const char *const names[] = { [GPUB_READ] = "r", [GPUB_WRITE] = "w", [GPUB_READ | GPUB_WRITE] = "rw" };

	for (unsigned i = GPUB_READ; i <= (GPUB_READ | GPUB_WRITE); i++) {
		if (strcmp(text, names[i]))
			continue;
		*(unsigned *)field = i;
		return 0;
	}
	return error_set(-EINVAL, "'%.40s' are no rights: write r, w or rw", text);
}
