/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - see placement.h */
#include "placement.h"

#include <stdbool.h>
#include <stdio.h>

#include "common/handle.h"
#include "locality.h"

const char *const map_modes[] = { [MAP_ROUND] = "round", [MAP_BLOCK] = "block", NULL };
const char *const bind_modes[] = { [BIND_NONE] = "none", [BIND_DEVICE] = "device", NULL };

unsigned placement_device(enum map_mode map, unsigned rank, unsigned workers, unsigned devices)
{
	if (map == MAP_ROUND)
		return rank % devices;
	return (unsigned)((unsigned long long)rank * (workers < devices ? workers : devices) / workers);
}

void placement_tell(struct children *children, enum map_mode map, unsigned devices)
{
	for (unsigned rank = 0; rank < children->count; rank++)
		children_set_device(children, rank, placement_device(map, rank, children->count, devices));
}

/* One that has ended already needs no place. */
static int bind_worker(struct locality *locality, const struct device_info *info, const struct child *child,
		       char why[LOCALITY_TEXT_MAX])
{
	return child->pid ? locality_bind(locality, info, child->pid, why) : 0;
}

int placement_bind(struct children *children, enum map_mode map, const struct device *device, unsigned devices,
		   void (*hint)(void *context, const char *text), void *context)
{
	struct locality *locality = locality_open();
	char why[LOCALITY_TEXT_MAX], text[LOCALITY_TEXT_MAX + 64];
	bool hinted[DEVICE_MAX] = { false };
	int error = locality ? 0 : -1;

	for (unsigned rank = 0; rank < children->count && error >= 0; rank++) {
		unsigned ordinal = placement_device(map, rank, children->count, devices);
		struct device_info info;

		error = device->info((int)ordinal, &info);
		if (!error)
			error = bind_worker(locality, &info, &children->child[rank], why);
		if (error <= 0 || hinted[ordinal])
			continue;
		hinted[ordinal] = true;
		snprintf(text, sizeof text, "the workers of device %u are not bound: %s", ordinal, why);
		hint(context, text);
	}
	locality_close(locality);
	return error < 0 ? error : 0;
}
