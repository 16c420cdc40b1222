/* SPDX-License-Identifier: Apache-2.0 */
/* closer.c - see closer.h */
#include "closer.h"

#include <errno.h>

#include <utlist.h>

#include "cache.h"
#include "client.h"
#include "clock.h"
#include "close.h"
#include "common/crash-point.h"
#include "common/thread.h"
#include "mapping.h"
#include "timeline-maps.h"

#define AGAIN_MS 2 /* between two looks at unlinked buffers that are still held */

/* What the broker wants back. */
static struct mapping *wanted(const struct gpub_client *client)
{
	struct mapping *mapping;

	DL_SEARCH_SCALAR(client->mappings, mapping, noticed, true);
	return mapping;
}

static bool any_due(const struct gpub_client *client)
{
	return atomic_load(&client->flags) & GPUB_BACKGROUND_CLOSE &&
	       (client->due || wanted(client) || cache_is_full(client) || client->timelines.fresh);
}

/* A mapping that is wanted goes with all that is on it, or waits for the last of that. True: some have to wait. */
static bool close_wanted(struct gpub_client *client)
{
	uint64_t walk = mapping_walk_begin(client);
	struct mapping *mapping;
	bool again = false;

	while ((mapping = mapping_walk_next(client, WALK_CLOSER, walk)))
		if (mapping->noticed)
			again |= mapping_close(client, mapping, false) == -EBUSY;
	return again;
}

/* True: some have to wait. One that another thread is closing may be open again when that finds it held. */
static bool close_due(struct gpub_client *client)
{
	bool again;

	CRASH_POINT(closer_looks);
	for (int ordinal = 0; ordinal < client->devices; ordinal++)
		client_notice_reset(client, ordinal);
	again = client_retire_due(client, true);
	again |= close_wanted(client);
	cache_trim(client);
	timeline_maps_give_back(client, false);
	again |= cache_is_full(client);
	CRASH_POINT(closer_looked);
	return again;
}

static bool closer_ends(const struct gpub_client *client)
{
	return client->leaving || atomic_load(&client->guard->state) != CLIENT_OPEN;
}

static void *closer_main(void *argument)
{
	struct gpub_client *client = argument;
	struct timespec soon;
	HOLD_CANCELLATION();

	CRASH_POINT(closer_started);
	pthread_mutex_lock(&client->lock);
	while (!closer_ends(client)) {
		soon = client_deadline(AGAIN_MS);
		if (!any_due(client))
			pthread_cond_wait(&client->changed, &client->lock);
		else if (close_due(client)) /* which gave the lock up: so look for more before sleeping */
			pthread_cond_timedwait(&client->changed, &client->lock, &soon);
	}
	pthread_mutex_unlock(&client->lock);
	return NULL;
}

int closer_wake(struct gpub_client *client)
{
	int error = 0;

	pthread_mutex_lock(&client->lock);
	if (!client->closing && atomic_load(&client->flags) & GPUB_BACKGROUND_CLOSE) {
		error = thread_start(&client->closer, closer_main, client);
		client->closing = !error;
	}
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
	return error;
}

void closer_stop(struct gpub_client *client)
{
	if (client->closing)
		pthread_join(client->closer, NULL);
	client->closing = false;
}
