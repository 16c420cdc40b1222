/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outside.c - what stands in for the rest of the library, so that the raced files are linked without a broker: its
 * socket is silent, and the slow path finds no name. Nothing in here orders memory, or a race could hide behind it.
 */
#include <errno.h>

#include "client/acquire.h"
#include "client/client.h"
#include "client/devices.h"
#include "client/send.h"
#include "client/timeline-maps.h"
#include "client/waits.h"
#include "common/sealed.h"

int call_send(struct gpub_client *client, const struct wire_message *message)
{
	(void)client;
	(void)message;
	return 0;
}

void waits_report(struct gpub_client *client)
{
	(void)client;
}

int call_send_many(struct gpub_client *client, const struct wire_message *messages, unsigned count)
{
	(void)client;
	(void)messages;
	(void)count;
	return 0;
}

void call_closed(struct gpub_client *client, uint64_t mapping)
{
	(void)client;
	(void)mapping;
}

void call_quiesced(struct gpub_client *client, uint64_t mapping, uint64_t serial)
{
	(void)client;
	(void)mapping;
	(void)serial;
}

int acquire_slow(struct gpub_client *client, const char *name, unsigned index, const gpub_expectation *expected,
		 unsigned rights, int timeout_ms, gpub_lease *lease)
{
	(void)client;
	(void)name;
	(void)index;
	(void)expected;
	(void)rights;
	(void)timeout_ms;
	(void)lease;
	return -ENOENT;
}

int client_device_index(struct gpub_client *client, int ordinal)
{
	(void)client;
	(void)ordinal;
	return 0;
}

struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd)
{
	(void)client;
	(void)grant;
	(void)fd;
	return NULL;
}

void timeline_map_put(struct gpub_client *client, struct timeline_map *map)
{
	(void)client;
	(void)map;
}

void timeline_maps_give_back(struct gpub_client *client, bool all)
{
	(void)client;
	(void)all;
}

void timeline_maps_forget(struct gpub_client *client)
{
	(void)client;
}

int handle_unseal(struct device_handle *handle, const struct seal_terms *terms, const struct sealed_handle *sealed,
		const uint8_t key[WIRE_KEY_SIZE])
{
	(void)handle;
	(void)terms;
	(void)sealed;
	(void)key;
	return -EKEYREJECTED;
}
