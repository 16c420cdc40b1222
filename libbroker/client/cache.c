/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - see cache.h */
#include "cache.h"

#include <errno.h>

#include <utlist.h>

#include "client.h"
#include "close.h"
#include "hold.h"
#include "mapping.h"
#include "timeline-maps.h"

#define PART 64 /* of the bound is closed at once: a look at all mappings costs more than a few closes */

static uint64_t takes_of(const struct mapping *mapping)
{
	const struct record *record;
	uint64_t takes = 0;

	DL_FOREACH2(mapping->records, record, on_next)
		takes += record_takes(record);
	return takes;
}

static void look(struct gpub_client *client)
{
	struct mapping *mapping;
	uint64_t takes;

	client->cache.looks++;
	DL_FOREACH(client->mappings, mapping) {
		takes = takes_of(mapping);
		if (takes != mapping->takes)
			mapping->used = client->cache.looks;
		mapping->takes = takes;
	}
}

static bool may_close(const struct mapping *mapping)
{
	const struct record *record;

	if (mapping->closing || mapping->syncing)
		return false;
	DL_FOREACH2(mapping->records, record, on_next)
		if (record->waiters)
			return false;
	return true;
}

static bool is_over(const struct gpub_client *client)
{
	const struct cache *cache = &client->cache;

	return client->mapping_count > cache->mappings || client->mapping_bytes > cache->bytes;
}

bool cache_is_full(const struct gpub_client *client)
{
	return is_over(client) || timeline_maps_full(client);
}

static bool has_room(const struct gpub_client *client)
{
	const struct cache *cache = &client->cache;

	return client->mapping_count <= cache->mappings - cache->mappings / PART &&
	       client->mapping_bytes <= cache->bytes - cache->bytes / PART;
}

static void close_oldest(struct gpub_client *client)
{
	struct mapping *mapping;
	uint64_t walk;

	look(client);
	walk = mapping_walk_begin(client);
	while (!has_room(client) && (mapping = mapping_walk_next(client, WALK_CACHE, walk)))
		if (may_close(mapping))
			mapping_close(client, mapping, false);
}

void cache_trim(struct gpub_client *client)
{
	if (!cache_is_full(client))
		return;
	if (is_over(client))
		close_oldest(client);
	timeline_maps_give_back(client, false);
}
