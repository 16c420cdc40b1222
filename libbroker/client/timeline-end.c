/* SPDX-License-Identifier: Apache-2.0 */
/* timeline-end.c - see timeline-end.h */
#include "timeline-end.h"

#include <errno.h>
#include <unistd.h>

#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "timeline-map.h"

#define LAND_FIRST_US 50
#define LAND_LAST_US  1000
#define CHECK_EVERY   256 /* reads of a word between two checks of the device: if it has failed, no signal lands */

/*
 * Whether the writer's last signal has landed, or the page has an end mark. Call it under map->signalling, so that no
 * signal is queued meanwhile.
 */
static bool has_landed_locked(struct timeline_map *map)
{
	return timeline_map_landed(map) ||
	       (int64_t)(__atomic_load_n(&map->writable->word, __ATOMIC_ACQUIRE) - map->signalled) >= 0;
}

static bool has_landed(struct timeline_map *map)
{
	bool landed;

	pthread_mutex_lock(&map->signalling);
	landed = has_landed_locked(map);
	pthread_mutex_unlock(&map->signalling);
	return landed;
}

/*
 * Returns the first map of client->timelines.written. After the connection is lost, and in a disconnect, the list grows
 * only at its head, and its members stay until the client has ended. So the caller may read the rest of the list
 * without client->lock.
 */
static struct timeline_map *written_first(struct gpub_client *client)
{
	struct timeline_map *map;

	pthread_mutex_lock(&client->lock);
	map = client->timelines.written;
	pthread_mutex_unlock(&client->lock);
	return map;
}

/* ---- before LEAVE ---- */

static int map_land(const struct gpub_client *client, struct timeline_map *map, const struct timespec *deadline)
{
	unsigned pause = LAND_FIRST_US;
	int error = 0;

	for (unsigned scans = 1; !error && !has_landed(map); scans++) {
		if (client_past(deadline))
			return error_set(-ETIMEDOUT,
					 "a signal had not landed %d seconds into gpub_disconnect(), so the timelines "
					 "of this process end as those of a dead writer: synchronise the streams that "
					 "signal before you disconnect",
					 TIMELINE_LAND_MS / 1000);
		usleep(pause);
		pause = 2 * pause < LAND_LAST_US ? 2 * pause : LAND_LAST_US;
		if (scans % CHECK_EVERY == 0)
			error = client->device->check(map->ordinal);
	}
	return error;
}

int timelines_land(struct gpub_client *client)
{
	struct timespec deadline = client_deadline(TIMELINE_LAND_MS);
	struct timeline_map *map;
	int error = 0;

	for (map = written_first(client); map && !error; map = map->written_next)
		error = map_land(client, map, &deadline);
	return error;
}

/* ---- after the connection is lost ---- */

#define ORPHANED_FIRST_MS 1
#define ORPHANED_LAST_MS  128

/*
 * Writes the mark TIMELINE_DIED into the timeline's page, because streams that wait must not assume that the awaited
 * work is done. landed: only if the last signal has landed. Returns whether the mark is written.
 */
static bool map_end(struct timeline_map *map, bool landed)
{
	bool ended;

	pthread_mutex_lock(&map->signalling);
	ended = map->marked || !landed || has_landed_locked(map);
	if (ended && !map->marked) {
		__atomic_store_n(&map->writable->word, TIMELINE_DIED, __ATOMIC_RELEASE);
		map->marked = true;
	}
	pthread_mutex_unlock(&map->signalling);
	return ended;
}

static bool maps_end(struct gpub_client *client, bool landed)
{
	struct timeline_map *map;
	bool all = true;

	for (map = written_first(client); map; map = map->written_next)
		all &= map_end(map, landed);
	return all;
}

void timelines_end_now(struct gpub_client *client)
{
	maps_end(client, false);
}

/* Sleeps for `ms` milliseconds, or until a disconnect begins. False: a disconnect has begun. */
static bool orphaned_pause(struct gpub_client *client, unsigned ms)
{
	struct timespec until = client_deadline(ms);
	bool leaving;

	pthread_mutex_lock(&client->lock);
	if (!client->leaving)
		pthread_cond_timedwait(&client->changed, &client->lock, &until);
	leaving = client->leaving;
	pthread_mutex_unlock(&client->lock);
	return !leaving;
}

void timelines_end_orphaned(struct gpub_client *client)
{
	unsigned pause = ORPHANED_FIRST_MS;

	while (orphaned_pause(client, pause) && !maps_end(client, true))
		pause = 2 * pause < ORPHANED_LAST_MS ? 2 * pause : ORPHANED_LAST_MS;
}
