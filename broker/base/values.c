/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - see values.h */
#include "values.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/environment.h"
#include "common/error.h"
#include "common/exports.h"
#include "common/layout.h"
#include "common/name.h"
#include "common/size.h"
#include "device/device.h"
#include "device/select.h"

/* ---- numbers and words ---- */

int number_parse(const char *text, const char *what, uint64_t low, uint64_t high, uint64_t *number)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < low || value > high)
		return error_set(-EINVAL, "'%.40s' is no %s: give a number from %llu to %llu", text, what,
				 (unsigned long long)low, (unsigned long long)high);
	*number = value;
	return 0;
}

static int word_take(const struct value_type *type, unsigned *field, const char *text)
{
	for (unsigned i = 0; type->words[i]; i++)
		if (!strcmp(text, type->words[i])) {
			*field = i;
			return 0;
		}
	return error_set(-EINVAL, "'%.40s' cannot be the value: write %s", text, type->what);
}

int value_take(const struct value_type *type, void *field, const char *text)
{
	uint64_t number;
	int error;

	if (type->take)
		return type->take(field, text);
	if (type->words)
		return word_take(type, field, text);
	error = number_parse(text, type->what, type->low, type->high, &number);
	if (!error)
		*(unsigned *)field = (unsigned)number;
	return error;
}

/* ---- what several programs take ---- */

unsigned export_of_environment(void)
{
	const char *wish = environment_get("GPUBROKER_EXPORT");

	return wish ? export_find(wish) : 0;
}

int take_export(void *field, const char *text)
{
	unsigned number = export_find(text);
	char names[EXPORT_NAMES_SIZE];

	if (number == export_count)
		return error_set(-EINVAL, "'%.40s' cannot be the value: write %s", text, export_names(names));
	*(unsigned *)field = number;
	return 0;
}

int take_flag(void *field, const char *text)
{
	(void)text;
	*(bool *)field = true;
	return 0;
}

int take_text(void *field, const char *text)
{
	*(const char **)field = text;
	return 0;
}

int take_instance(void *field, const char *text)
{
	int error = instance_check(text);

	if (!error)
		strncpy(field, text, INSTANCE_SIZE);
	return error;
}

int take_device(void *field, const char *text)
{
	int error = device_check(text);

	if (!error)
		strncpy(field, text, DEVICE_CHOICE_SIZE);
	return error;
}

int take_size_or_0(void *field, const char *text)
{
	return size_parse_or_0(text, field);
}

int take_mode(void *field, const char *text)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	if (*text < '0' || *text > '7' || *end || mode > 0777)
		return error_set(-EINVAL, "'%.40s' is no mode: write octal digits up to 0777, such as 0640", text);
	*(unsigned *)field = (unsigned)mode;
	return 0;
}

/*
 * Stores `named`, the id of a name, if `found`. Otherwise parses the text as a number, as chown(1) does; the number
 * need not have a name. UINT32_MAX is not a valid id.
 */
static int take_id(uint32_t *field, const char *text, const char *what, bool found, uint32_t named)
{
	uint64_t number = named;

	if (!found && number_parse(text, what, 0, UINT32_MAX - 1, &number))
		return error_set(-EINVAL, "there is no %s '%.40s' here: correct the name, or write a number", what,
				 text);
	*field = (uint32_t)number;
	return 0;
}

int take_user(void *field, const char *text)
{
	const struct passwd *entry = *text ? getpwnam(text) : NULL;

	return take_id(field, text, "user", entry, entry ? entry->pw_uid : 0);
}

int take_group(void *field, const char *text)
{
	const struct group *entry = *text ? getgrnam(text) : NULL;

	return take_id(field, text, "group", entry, entry ? entry->gr_gid : 0);
}

int take_layout(void *field, const char *text)
{
	struct amount *amount = field;
	int error = layout_parse(text, &amount->layout);

	if (!error)
		amount->size = layout_bytes(&amount->layout) ? layout_bytes(&amount->layout) : 1;
	return error;
}

int take_amount(void *field, const char *text)
{
	struct amount made = { 0 };
	size_t length = strcspn(text, "@");
	char what[AMOUNT_TEXT_MAX];
	uint64_t index = 0;
	int error;

	if (length >= sizeof what)
		return error_set(-EINVAL,
				 "'%.40s...' is too long: write SIZE, a layout such as f32[1024,1024], or one of them "
				 "and @DEVICE",
				 text);
	snprintf(what, sizeof what, "%.*s", (int)length, text);
	error = strchr(what, '[') ? take_layout(&made, what) : size_parse(what, &made.size);
	if (!error && text[length])
		error = number_parse(text + length + 1, "device", 0, DEVICE_MAX - 1, &index);
	if (error)
		return error;
	made.device = (unsigned)index;
	*(struct amount *)field = made;
	return 0;
}
