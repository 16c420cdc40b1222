/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-end.c - what a writer owes its readers at its end: the signals that it queued have landed before it leaves.
 *
 * To close a mapping waits for the device's work in the context that maps it, and for no other's (facts.md), while a
 * signal may be queued on a stream of any context. A signal that lands behind the broker's mark writes over it. So the
 * words themselves are looked at. Owns nothing.
 */
#include <errno.h>
#include <unistd.h>

#include "client.h"
#include "timeline-map.h"

#define LAND_FIRST_US 50
#define LAND_LAST_US  1000
#define LOOKS_A_CHECK 256 /* a device that has failed lands nothing any more: it is asked now and then */

static bool has_landed(struct timeline_map *map)
{
	uint64_t signalled;

	pthread_mutex_lock(&map->signalling);
	signalled = map->signalled;
	pthread_mutex_unlock(&map->signalling);
	return (int64_t)(__atomic_load_n(&map->page->word, __ATOMIC_ACQUIRE) - signalled) >= 0;
}

static int map_land(const struct gpub_client *client, struct timeline_map *map, const struct timespec *deadline)
{
	unsigned pause = LAND_FIRST_US;
	int error = 0;

	for (unsigned looks = 1; !error && !has_landed(map); looks++) {
		if (client_past(deadline))
			return error_set(-ETIMEDOUT, "a signal was still on its way %d seconds into gpub_disconnect(), and the "
						     "timelines of this process count as a dead writer's: synchronise the "
						     "streams that signal before you disconnect",
					 TIMELINE_LAND_MS / 1000);
		usleep(pause);
		pause = 2 * pause < LAND_LAST_US ? 2 * pause : LAND_LAST_US;
		if (looks % LOOKS_A_CHECK == 0)
			error = client->device->check(map->ordinal);
	}
	return error;
}

/* The list only grows, at its head, and what is in it stays until the client has ended. */
int timelines_land(struct gpub_client *client)
{
	struct timespec deadline = client_deadline(TIMELINE_LAND_MS);
	struct timeline_map *map;
	int error = 0;

	pthread_mutex_lock(&client->lock);
	map = client->timelines;
	pthread_mutex_unlock(&client->lock);
	for (; map && !error; map = map->next)
		error = map_land(client, map, &deadline);
	return error;
}
