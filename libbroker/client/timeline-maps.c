/* SPDX-License-Identifier: Apache-2.0 */
/* timeline-maps.c - see timeline-maps.h */
#include "timeline-maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/tables.h"
#include "timeline-wait.h"

/*
 * Whether the file has at least TIMELINE_PAGE_SIZE bytes and cannot shrink. An access beyond the file's end would kill
 * this process.
 */
static bool page_whole(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && st.st_size >= TIMELINE_PAGE_SIZE;
}

/* MADV_DONTFORK keeps the page out of children, because copy-on-write would move it while the GPU uses it. */
void *timeline_page_map(int fd, int protection)
{
	void *page;

	if (!page_whole(fd)) {
		error_set(-ENOMEM, "a timeline's page is not sealed: the server is no gpubroker");
		return NULL;
	}
	page = mmap(NULL, TIMELINE_PAGE_SIZE, protection, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		error_set(-ENOMEM, "a timeline's page cannot be mapped: %m");
		return NULL;
	}
	if (!madvise(page, TIMELINE_PAGE_SIZE, MADV_DONTFORK))
		return page;
	error_set(-errno, "a timeline's page cannot be kept from forks: %m");
	munmap(page, TIMELINE_PAGE_SIZE);
	return NULL;
}

/* ---- the table ---- */

static struct timeline_map *map_alloc(void)
{
	struct timeline_map *map = calloc(1, sizeof *map);

	if (!map)
		error_set(-ENOMEM, "out of memory for a timeline");
	return map;
}

static bool map_list(struct gpub_client *client, struct timeline_map *map)
{
	HASH_ADD(hh, client->timelines.by_serial, serial, sizeof map->serial, map);
	return table_added(map) || !error_set(-ENOMEM, "out of memory for another timeline");
}

static struct timeline_map *map_make(struct gpub_client *client, const struct wire_grant *grant, int fd)
{
	struct timeline_map *map = map_alloc();

	if (!map)
		return NULL;
	map->page = timeline_page_map(fd, PROT_READ);
	if (!map->page)
		goto free_map;
	map->serial = grant->serial;
	if (!map_list(client, map))
		goto unmap;
	pthread_mutex_init(&map->signalling, NULL);
	map->client = client;
	map->word = &client->board.words[grant->buffer];
	map->end = &client->board.ends[grant->buffer];
	CRASH_POINT(timeline_mapped);
	return map;
unmap:
	munmap((void *)map->page, TIMELINE_PAGE_SIZE);
free_map:
	free(map);
	return NULL;
}

static void unused_remove(struct timeline_maps *maps, struct timeline_map *map)
{
	DL_DELETE2(maps->unused, map, unused_prev, unused_next);
	maps->unused_count--;
}

static void unused_append(struct timeline_maps *maps, struct timeline_map *map)
{
	DL_APPEND2(maps->unused, map, unused_prev, unused_next);
	maps->unused_count++;
}

struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd)
{
	struct timeline_map *map;

	HASH_FIND(hh, client->timelines.by_serial, &grant->serial, sizeof grant->serial, map);
	if (!map)
		map = map_make(client, grant, fd);
	else if (!map->references)
		unused_remove(&client->timelines, map);
	return timeline_map_share(map);
}

/* Removes the map from all tables and lists except timeline_maps.unused. */
static void map_unlist(struct gpub_client *client, struct timeline_map *map)
{
	HASH_DELETE(hh, client->timelines.by_serial, map);
	if (map->writable)
		DL_DELETE2(client->timelines.written, map, written_prev, written_next);
	timeline_wait_forget(map);
}

/*
 * Unregisters and unmaps a timeline's page. Keeps a registered page if a stream may still use it (`busy`), or if it
 * cannot be unregistered.
 */
static void page_destroy(const struct gpub_client *client, void *page, bool registered, bool busy)
{
	if (registered && (busy || client->device->page_unregister(page)))
		return;
	CRASH_POINT(timeline_unregistered);
	munmap(page, TIMELINE_PAGE_SIZE);
}

static void map_destroy(const struct gpub_client *client, struct timeline_map *map, bool busy)
{
	SAVE_ERROR();

	page_destroy(client, (void *)map->page, map->registered, busy);
	if (map->writable)
		page_destroy(client, map->writable, true, busy);
	pthread_mutex_destroy(&map->signalling);
	free(map);
}

void timeline_map_put(struct gpub_client *client, struct timeline_map *map)
{
	if (!map || --map->references)
		return;
	if (!map->registered && !map->writable) {
		map_unlist(client, map);
		map_destroy(client, map, false);
		return;
	}
	unused_append(&client->timelines, map);
	client->timelines.fresh++;
}

void timeline_map_write(struct timeline_map *map, struct timeline_page *page)
{
	struct gpub_client *client = map->client;

	pthread_mutex_lock(&client->lock);
	map->writable = page;
	DL_PREPEND2(client->timelines.written, map, written_prev, written_next);
	pthread_mutex_unlock(&client->lock);
}

/* ---- giving back ---- */

#define UNUSED_MOST 1024
#define UNUSED_PART 16 /* the limit on newly unused maps is 1/UNUSED_PART of the limit on mappings, or UNUSED_MOST */

bool timeline_maps_full(const struct gpub_client *client)
{
	unsigned part = client->cache.mappings / UNUSED_PART;

	return client->timelines.fresh > (part < UNUSED_MOST ? part : UNUSED_MOST);
}

static bool buffer_is_gone(const struct timeline_map *map)
{
	uint64_t word = atomic_load(map->word);

	return word >> 2 != map->serial || (word & 3) == BOARD_FREE;
}

/*
 * Whether an unused map may be destroyed: no stream can use its page. After the connection is lost, maps that this
 * process writes stay, for timeline-end.c.
 */
static bool may_go(const struct gpub_client *client, struct timeline_map *map)
{
	if (timeline_wait_parked(map))
		return false;
	return !map->writable || (atomic_load(&client->guard->state) == CLIENT_OPEN && buffer_is_gone(map) &&
				  timeline_map_landed(map));
}

/* Checks at most `scans` unused maps. Removes those that may be destroyed, and returns them as a list. */
static struct timeline_map *unused_take(struct gpub_client *client, unsigned scans)
{
	struct timeline_maps *maps = &client->timelines;
	struct timeline_map *going = NULL, *map;

	while (scans-- && (map = maps->unused)) {
		unused_remove(maps, map);
		if (may_go(client, map)) {
			map_unlist(client, map);
			DL_APPEND2(going, map, unused_prev, unused_next);
		} else {
			unused_append(maps, map);
		}
	}
	return going;
}

void timeline_maps_give_back(struct gpub_client *client, bool all)
{
	struct timeline_maps *maps = &client->timelines;
	struct timeline_map *going, *map, *next;
	unsigned scans = all || 2 * maps->fresh > maps->unused_count ? maps->unused_count : 2 * maps->fresh;

	if (client->leaving)
		return;
	maps->fresh = 0;
	going = unused_take(client, scans);
	if (!going)
		return;
	pthread_mutex_unlock(&client->lock);
	DL_FOREACH_SAFE2(going, map, next, unused_next)
		map_destroy(client, map, false);
	pthread_mutex_lock(&client->lock);
}

/* Whether this process has queued a signal that it has not seen in the page. */
static bool any_in_flight(const struct gpub_client *client)
{
	struct timeline_map *map;

	DL_FOREACH2(client->timelines.written, map, written_next)
		if (map->landed != map->signalled)
			return true;
	return false;
}

/*
 * All mappings were closed before. So a stream that is not done now was not waited for by these closes, and
 * unregistering its page might wait for it without end. So the pages stay registered and mapped then.
 */
void timeline_maps_forget(struct gpub_client *client)
{
	bool busy = timeline_waits_parked() || any_in_flight(client);
	struct timeline_map *map, *next;

	HASH_ITER(hh, client->timelines.by_serial, map, next) {
		map_unlist(client, map);
		map_destroy(client, map, busy);
	}
	client->timelines = (struct timeline_maps){ 0 };
}
