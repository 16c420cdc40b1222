/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h - the broker's devices as this process sees them: their ordinals here, and whether one was reset.
 *
 * A device may have different ordinals in different processes, but one UUID. Owns the two tables between ordinals
 * here and the broker's indices, and the kind of device that this process uses. Never opens memory.
 */
#ifndef GPUB_DEVICES_H
#define GPUB_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client.h"

/* Starts the broker's kind of device, and matches its devices by UUID. -ENODEV: this process sees none of them. */
int devices_begin(struct gpub_client *client);

/* For a client that only sends requests: marks every ordinal as none of the broker's devices. Returns 0. */
int devices_none(struct gpub_client *client);

/* Set and return the kind of device of the client that connected last, for streams without a client. NULL: none. */
void devices_use(const struct device *device);
const struct device *devices_used(void);

/* The broker's index of the device with this ordinal, or of GPUB_CURRENT. -ENODEV: the broker does not serve it. */
int client_device_index(struct gpub_client *client, int ordinal);

/* The epoch of the device: another number after each reset (device.h). */
static inline uint64_t client_epoch(const struct gpub_client *client, int ordinal)
{
	return client->device->epoch ? client->device->epoch(ordinal) : 0;
}

/*
 * Whether the device's epoch has changed since the last client_notice_reset(): the program may have reset the device,
 * which closes the mappings on it. For the fast path. index: the broker's, of a device that this process sees.
 */
static inline bool client_was_reset(const struct gpub_client *client, unsigned index)
{
	int ordinal = client->ordinal_of[index];

	return client_epoch(client, ordinal) != atomic_load_explicit(&client->epochs[ordinal], memory_order_acquire);
}

#endif
