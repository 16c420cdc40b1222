/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - see values.h */
#include "values.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/values.h"
#include "common/error.h"
#include "common/size.h"
#include "device/device.h"
#include "gpubroker.h"

/* ---- modes ---- */

int value_mode(const char *text, unsigned *mode)
{
	char *end;
	unsigned long value = strtoul(text, &end, 8);

	if (*text < '0' || *text > '7' || *end || value > 0777)
		return error_set(-EINVAL, "'%.40s' is no mode: write octal digits up to 0777, such as 0640", text);
	*mode = (unsigned)value;
	return 0;
}

/* The bits of "rw", three times over; moves *text behind them. */
static unsigned clause_bits(const char **text)
{
	unsigned bits = 0;

	for (; **text == 'r' || **text == 'w'; ++*text)
		bits |= **text == 'r' ? 0444 : 0222;
	return bits;
}

/* Whose bits "ugoa" mean; nobody named is all, as with chmod(1). */
static unsigned clause_who(const char **text)
{
	unsigned who = 0;

	for (; **text && strchr("ugoa", **text); ++*text)
		who |= **text == 'u' ? 0700 : **text == 'g' ? 0070 : **text == 'o' ? 0007 : 0777;
	return who ? who : 0777;
}

/* One "g+r"; moves *text behind it. */
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

int value_mode_change(const char *text, struct mode_change *change)
{
	struct mode_change made = { .keep = 0777 };
	const char *rest = text;
	int error;

	if (*text >= '0' && *text <= '9') {
		made.keep = 0;
		error = value_mode(text, &made.set);
		if (!error)
			*change = made;
		return error;
	}
	do
		error = clause_apply(&rest, &made);
	while (!error && *rest++ == ',');
	if (error)
		return error_set(-EINVAL, "'%.40s' is no mode: write octal digits such as 0640, or changes such as g+r,o-w",
				 text);
	*change = made;
	return 0;
}

/* ---- users and groups ---- */

static int not_known(const char *text, const char *what)
{
	return error_set(-EINVAL, "'%.40s' is no %s that this system knows: give a name or a number", text, what);
}

/* UINT32_MAX means nobody, and the kernel gives it to nobody. */
static int number_of(const char *text, const char *what, uint32_t *number)
{
	uint64_t value;

	if (number_parse(text, what, 0, UINT32_MAX - 1, &value))
		return not_known(text, what);
	*number = (uint32_t)value;
	return 0;
}

/* A name may consist of digits, and goes before the number: as chown(1). */
int value_user(const char *text, uint32_t *uid)
{
	const struct passwd *user = *text ? getpwnam(text) : NULL;

	if (!user)
		return number_of(text, "user", uid);
	*uid = user->pw_uid;
	return 0;
}

static int value_group(const char *text, uint32_t *gid)
{
	const struct group *group = *text ? getgrnam(text) : NULL;

	if (!group)
		return number_of(text, "group", gid);
	*gid = group->gr_gid;
	return 0;
}

int value_owner(const char *text, uint32_t *uid, uint32_t *gid)
{
	const char *colon = strchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint32_t owner = GPUB_KEEP, group = GPUB_KEEP;
	char name[64];
	int error = 0;

	if (!*text || length >= sizeof name || (colon && !colon[1]))
		return error_set(-EINVAL, "'%.80s' is no owner: write USER, USER:GROUP or :GROUP", text);
	memcpy(name, text, length);
	name[length] = 0;
	if (length)
		error = value_user(name, &owner);
	if (!error && colon)
		error = value_group(colon + 1, &group);
	if (error)
		return error;
	*uid = owner;
	*gid = group;
	return 0;
}

/* ---- times, rights, sizes ---- */

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

int value_time(const char *text, uint64_t most_ms, uint64_t *ms)
{
	size_t length = strspn(text, "0123456789.");
	double value, unit = unit_of(text + length);
	char *end = NULL;

	/* strtod(3) would take signs, blanks, exponents and words as well */
	value = length ? strtod(text, &end) : 0;
	if (!length || end != text + length || unit <= 0)
		return error_set(-EINVAL, "'%.40s' is no time: write seconds, or a number with s, m, h or d, such as 90 or 2h",
				 text);
	value = value * unit * 1000;
	if (value > (double)most_ms)
		return error_set(-EINVAL, "'%.40s' is too long a time: at most %llu seconds", text,
				 (unsigned long long)most_ms / 1000);
	*ms = (uint64_t)value;
	return 0;
}

int value_rights(const char *text, unsigned *rights)
{
	static const char *const names[] = { [GPUB_READ] = "r", [GPUB_WRITE] = "w", [GPUB_READ | GPUB_WRITE] = "rw" };

	for (unsigned i = GPUB_READ; i <= (GPUB_READ | GPUB_WRITE); i++) {
		if (strcmp(text, names[i]))
			continue;
		*rights = i;
		return 0;
	}
	return error_set(-EINVAL, "'%.40s' are no rights: write r, w or rw", text);
}

int value_size(const char *text, uint64_t *size, unsigned *device)
{
	const char *at = strchr(text, '@');
	size_t length = at ? (size_t)(at - text) : strlen(text);
	uint64_t bytes, index = 0;
	char number[32] = "";
	int error;

	if (length >= sizeof number)
		return error_set(-EINVAL, "'%.40s' is not a size: write SIZE or SIZE@DEVICE", text);
	memcpy(number, text, length);
	error = size_parse(number, &bytes);
	if (!error && at)
		error = number_parse(at + 1, "device", 0, DEVICE_MAX - 1, &index);
	if (error)
		return error;
	*size = bytes;
	*device = (unsigned)index;
	return 0;
}
