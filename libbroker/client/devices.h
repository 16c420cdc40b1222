/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h - the broker's devices as this process sees them: their ordinals in this process, and whether one was
 * reset.
 *
 * A device may have different ordinals in different processes, but one UUID. Owns the two tables between this process's
 * ordinals and the broker's indices (index_of and ordinal_of of gpub_client), and the kind of device that this process
 * uses. Never opens memory.
 */
#ifndef GPUB_DEVICES_H
#define GPUB_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client.h"

/*
 * Starts the kind of device that the broker serves, and finds the broker's devices in this process by their UUIDs.
 * -ENODEV: this process sees none of the broker's devices, or this library was built without their kind.
 */
int devices_begin(struct gpub_client *client);

/* For a client that only sends requests: gives the client no device of the broker. Returns 0. */
int devices_none(struct gpub_client *client);

/*
 * Set and return the kind of device that the client which connected last by gpub_connect() uses, for stream functions
 * that have no client argument. NULL: no client has connected.
 */
void devices_use(const struct device *device);
const struct device *devices_used(void);

/*
 * Returns the broker's index of the device with this ordinal, or of the current device for GPUB_CURRENT. -ENODEV, error
 * message set: the broker does not serve this device.
 */
int client_device_index(struct gpub_client *client, int ordinal);

/*
 * Returns the device's epoch, which is another number after each reset; 0: it cannot be reset, is not used yet, or was
 * reset and cannot be used again (device.h).
 */
static inline uint64_t client_epoch(const struct gpub_client *client, int ordinal)
{
	return client->device->epoch ? client->device->epoch(ordinal) : 0;
}

/*
 * Whether the device's epoch has changed since the last client_notice_reset(): the program may have reset the device,
 * which closes the mappings on it. For the fast path. index: the broker's index of a device that this process sees.
 */
static inline bool client_was_reset(const struct gpub_client *client, unsigned index)
{
	int ordinal = client->ordinal_of[index];

	return client_epoch(client, ordinal) != atomic_load_explicit(&client->epochs[ordinal], memory_order_acquire);
}

#endif
