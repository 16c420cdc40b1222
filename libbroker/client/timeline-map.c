/* SPDX-License-Identifier: Apache-2.0 */
/* timeline-map.c - see timeline-map.h */
#include "timeline-map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "timeline-wait.h"

/* It is there, and stays: touching a page beyond the end of its file would kill this process. */
static bool page_whole(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && st.st_size >= TIMELINE_PAGE_SIZE;
}

/* A child must not share the page: copy-on-write would move it under the GPU's hand. */
void *timeline_page_map(int fd, int protection)
{
	void *page;

	if (!page_whole(fd)) {
		error_set(-ENOMEM, "a timeline's page is not a sealed one: the server is no gpubroker");
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

struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd)
{
	struct timeline_map *map;

	for (map = client->timelines; map; map = map->next)
		if (map->serial == grant->serial)
			return map;
	map = calloc(1, sizeof *map);
	if (!map) {
		error_set(-ENOMEM, "out of memory for a timeline");
		return NULL;
	}
	pthread_mutex_init(&map->signalling, NULL);
	map->serial = grant->serial;
	map->client = client;
	map->end = &client->board.ends[grant->buffer];
	map->page = timeline_page_map(fd, PROT_READ);
	if (!map->page) {
		free(map);
		return NULL;
	}
	map->next = client->timelines;
	client->timelines = map;
	CRASH_POINT(timeline_mapped);
	return map;
}

/* What the device knows of stays mapped until exit (unregistering waits for kernels). */
void timeline_maps_forget(struct gpub_client *client)
{
	struct timeline_map *map, *next;

	for (map = client->timelines; map; map = next) {
		next = map->next;
		timeline_wait_forget(map);
		if (!map->registered)
			munmap((void *)map->page, TIMELINE_PAGE_SIZE);
		pthread_mutex_destroy(&map->signalling);
		free(map);
	}
	client->timelines = NULL;
}
