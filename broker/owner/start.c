/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - see start.h */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/name.h"
#include "common/status-file.h"
#include "device/host.h"
#include "device/select.h"

int owner_start(const struct owner_setup *setup, struct owner_facts *facts)
{
	const struct device *device;
	char prefix[sizeof(STATUS_PREFIX) + INSTANCE_SIZE + 4];
	int error;

	snprintf(prefix, sizeof prefix, STATUS_PREFIX "%s.mem", setup->instance);
	host_set_prefix(prefix);
	host_share_memory(setup->several_users);
	host_survive_violations();
	error = device_select(setup->device, true, &device);
	if (!error && device->names_keep)
		error = device->names_keep();
	return error ? error : owner_facts_of(device, facts);
}

int owner_facts_of(const struct device *device, struct owner_facts *facts)
{
	int count = device->count(), error = 0;

	if (count <= 0)
		return count ? count : error_set(-ENODEV, "there is no %s device here", device->name);
	memset(facts, 0, sizeof *facts);
	facts->kind = device->kind;
	facts->count = (unsigned)(count < DEVICE_MAX ? count : DEVICE_MAX);
	facts->host_total = device->total ? device->total() : 0;
	for (unsigned i = 0; i < facts->count && !error; i++)
		error = device->info((int)i, &facts->device[i]);
	return error;
}

bool owner_has_names(enum device_kind kind)
{
	return device_find(kind)->names_restore;
}

void owner_leave(void)
{
	host_leave_directory();
}
