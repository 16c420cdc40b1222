/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - see placement.h */
#include "placement.h"

#include <errno.h>
#include <stdio.h>

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
	for (unsigned rank = 0; rank < children->size; rank++)
		children_set_device(children, rank, placement_device(map, rank, children->size, devices));
}

int placement_open(struct placement *placement, const struct owner_facts *facts)
{
	placement->facts = facts;
	placement->locality = locality_open();
	return placement->locality ? 0 : -EIO;
}

void placement_close(struct placement *placement)
{
	locality_close(placement->locality);
	placement->locality = NULL;
}

int placement_bind(struct placement *placement, unsigned rank, pid_t pid)
{
	unsigned ordinal = placement_device(placement->map, rank, placement->workers, placement->facts->count);
	char why[LOCALITY_TEXT_MAX], text[LOCALITY_TEXT_MAX + 64];
	int error = locality_bind(placement->locality, &placement->facts->device[ordinal], pid, why);

	if (error <= 0 || placement->hinted & UINT64_C(1) << ordinal)
		return error < 0 ? error : 0;
	placement->hinted |= UINT64_C(1) << ordinal;
	snprintf(text, sizeof text, "the workers of device %u are not bound: %s", ordinal, why);
	placement->hint(placement->context, text);
	return 0;
}
