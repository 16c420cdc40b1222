/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h - the broker's devices as this process sees them: their ordinals here, and whether one was reset.
 *
 * A device may have different ordinals in different processes, but one UUID. Owns the two tables between ordinals here
 * and the broker's indices, and the kind of device that this process uses. Never opens memory.
 */
#ifndef GPUB_DEVICES_H
#define GPUB_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client.h"

/* Starts the kind of device that the broker serves, and matches its devices by their UUIDs. -ENODEV: none is seen here. */
int devices_begin(struct gpub_client *client);

/* For a client that only sends requests: no ordinal here is one of the broker's devices. Returns 0. */
int devices_none(struct gpub_client *client);

/* The kind of device of streams that are passed without a client: that of the last client that connected. NULL: none did. */
void devices_use(const struct device *device);
const struct device *devices_used(void);

/* The broker's index of an ordinal or GPUB_CURRENT; negative errno. */
int client_device_index(struct gpub_client *client, int ordinal);

/* The device's epoch (device.h). */
static inline uint64_t client_epoch(const struct gpub_client *client, int ordinal)
{
	return client->device->epoch ? client->device->epoch(ordinal) : 0;
}

/*
 * Whether the program may have reset a device, which closes the mappings on it. On the fast path: client_notice_reset()
 * does the rest. index: the broker's, of a device that this process sees.
 */
static inline bool client_was_reset(const struct gpub_client *client, unsigned index)
{
	int ordinal = client->ordinal_of[index];

	return client_epoch(client, ordinal) != atomic_load_explicit(&client->epochs[ordinal], memory_order_acquire);
}

#endif
