/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - see values.h */
#include "values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/name.h"
#include "common/size.h"
#include "device/device.h"
#include "device/select.h"

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

int take_flag(void *field, const char *value)
{
	(void)value;
	*(bool *)field = true;
	return 0;
}

int take_text(void *field, const char *value)
{
	*(const char **)field = value;
	return 0;
}

int take_instance(void *field, const char *value)
{
	int error = instance_check(value);

	if (error)
		return error;
	memset(field, 0, INSTANCE_SIZE);
	memcpy(field, value, strlen(value));
	return 0;
}

int take_device(void *field, const char *value)
{
	int error = device_check(value);

	if (error)
		return error;
	memset(field, 0, DEVICE_CHOICE_SIZE);
	snprintf(field, DEVICE_CHOICE_SIZE, "%s", value);
	return 0;
}

int take_pool(void *field, const char *value)
{
	return size_parse_or_0(value, field);
}
