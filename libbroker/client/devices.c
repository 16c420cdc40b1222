/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - see devices.h */
#include "devices.h"

#include <errno.h>
#include <sodium.h>

#include "common/error.h"
#include "fork.h"

static _Atomic(const struct device *) used;

void devices_use(const struct device *device)
{
	atomic_store(&used, device);
}

const struct device *devices_used(void)
{
	return atomic_load(&used);
}

static int devices_match(struct gpub_client *client)
{
	struct device_info info;
	int count = client->device->count(), found = 0, index, error;

	for (int i = 0; i < DEVICE_MAX; i++) {
		client->index_of[i] = client->ordinal_of[i] = -1;
		client->epochs[i] = 0;
	}
	client->devices = count < DEVICE_MAX ? count : DEVICE_MAX;
	for (int ordinal = 0; ordinal < client->devices; ordinal++) {
		error = client->device->info(ordinal, &info);
		if (error)
			return error;
		index = board_find_device(&client->board, info.uuid);
		if (index < 0)
			continue;
		client->index_of[ordinal] = index;
		client->ordinal_of[index] = ordinal;
		found++;
	}
	return found ? 0 : error_set(-ENODEV, "this process sees none of the broker's devices: check "
					      "CUDA_VISIBLE_DEVICES on both sides");
}

int devices_none(struct gpub_client *client)
{
	client->devices = 0;
	for (int i = 0; i < DEVICE_MAX; i++)
		client->index_of[i] = client->ordinal_of[i] = -1;
	return 0;
}

int devices_begin(struct gpub_client *client)
{
	const struct board_header *board = client->board.header;
	struct device_setup setup = { .owner = false, .host_count = board->host_total };
	int error;

	client->device = device_find(board->device_kind);
	if (!client->device)
		return error_set(-ENODEV, "the broker serves a kind of device that this library was built without: "
					  "build it with --with-cuda");
	fork_guard_device(client->device);
	error = client->device->start(&setup);
	return error ? error : devices_match(client);
}

int client_device_index(struct gpub_client *client, int ordinal)
{
	if (ordinal == GPUB_CURRENT) /* if this process has one device, that device is the current one */
		ordinal = client->devices == 1 ? 0 : client->device->current();
	if (ordinal < 0 || ordinal >= client->devices || client->index_of[ordinal] < 0)
		return error_set(-ENODEV, "there is no device %d here that the broker serves too: this process has %d, "
					  "numbered from 0",
				 ordinal, client->devices);
	return client->index_of[ordinal];
}

int gpub_device_count(gpub_client *client, int *count)
{
	int error = client_check(client), usable = 0;

	if (error)
		return error;
	if (!count)
		return error_set(-EINVAL, "there is no place for the count: pass the address of an int");
	for (int i = 0; i < client->devices; i++)
		usable += client->index_of[i] >= 0;
	*count = usable;
	return 0;
}

int gpub_node(gpub_client *client, char *text)
{
	int error = client_check(client);

	if (error)
		return error;
	if (!text)
		return error_set(-EINVAL, "there is no place for the text: pass GPUB_NODE_SIZE bytes");
	sodium_bin2hex(text, GPUB_NODE_SIZE, client->board.header->instance_id,
		       sizeof client->board.header->instance_id);
	return 0;
}
