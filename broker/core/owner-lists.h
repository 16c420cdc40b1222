/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-lists.h - the memory that an owner lists when a broker joins it that has served another one before.
 *
 * There is a list for each device. When it is whole, the broker compares it with its allocations.
 * Memory that no allocation has is released first of all; memory by a descriptor that the owner lacks is taken over by
 * it; other memory that it lacks has ended with an owner before it. Owns the lists.
 */
#ifndef GPUB_OWNER_LISTS_H
#define GPUB_OWNER_LISTS_H

#include <stdbool.h>

#include "device/device.h"

struct broker;
struct listed;
struct listed_memory;

/* All zeroes: empty lists. */
struct owner_lists {
	struct listed_memory *of[DEVICE_MAX]; /* by device */
};

/* Adds memory to the list of a device. Returns false if there is no memory for that. */
bool owner_lists_add(struct owner_lists *lists, unsigned device, const struct listed *listed);

/* The list of the device is whole: compares it, orders what follows, and empties it. */
void owner_lists_end(struct owner_lists *lists, struct broker *broker, unsigned device);

void owner_lists_forget(struct owner_lists *lists);

#endif
