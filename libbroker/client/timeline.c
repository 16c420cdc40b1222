/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c - gpub_signal_on, gpub_wait_on, gpub_timeline: order between the streams of processes.
 *
 * The word is written by the writer's GPU and read by everybody's; this file maps the page, registers it
 * with the device on first use, and queues the operation. Owns the timeline maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "lease.h"
#include "timeline-map.h"

/* It is there, and stays: touching a page beyond the end of its file would kill this process. */
static bool page_whole(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) && st.st_size >= TIMELINE_PAGE_SIZE;
}

/* A child must not share the page: copy-on-write would move it under the GPU's hand. */
static void *page_map(int fd, int protection)
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

struct timeline_map *timeline_map_get(struct gpub_client *client, uint64_t serial, int fd)
{
	struct timeline_map *map;

	for (map = client->timelines; map; map = map->next)
		if (map->serial == serial)
			return map;
	map = calloc(1, sizeof *map);
	if (!map) {
		error_set(-ENOMEM, "out of memory for a timeline");
		return NULL;
	}
	pthread_mutex_init(&map->signalling, NULL);
	map->serial = serial;
	map->page = page_map(fd, PROT_READ);
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
		if (!map->registered)
			munmap((void *)map->page, TIMELINE_PAGE_SIZE);
		pthread_mutex_destroy(&map->signalling);
		free(map);
	}
	client->timelines = NULL;
}

/* The record that a lease holds, if it has a timeline and these rights. */
static int timeline_of(const gpub_lease *lease, unsigned rights, struct record **record)
{
	int error = lease_record(lease, record);

	if (error)
		return error;
	if (!(*record)->timeline)
		return error_set(-EINVAL, "the buffer has no timeline: create it with GPUB_TIMELINE");
	if (rights & ~lease->rights)
		return error_set(-EACCES, "the lease does not have GPUB_WRITE: acquire it with that right");
	return 0;
}

static int writer_ask(struct gpub_client *client, struct record *record, int *fd)
{
	struct wire_message request, reply;
	int error;

	CRASH_POINT(writer_begin);
	wire_init(&request, WIRE_WRITER, 0);
	request.grant_id.grant = RECORD_GRANT(atomic_load(&record->mapping));
	request.grant_id.serial = record->serial;
	error = call_broker(client, &request, &reply, fd, NULL);
	if (!error && *fd < 0)
		error = error_set(-EMFILE, "no descriptor is left in this process for a timeline: close some, or "
					   "raise ulimit -n");
	return error;
}

/* Under map->signalling: one thread of the process asks, and the others find the page mapped. */
static int writer_become(struct gpub_client *client, struct record *record)
{
	struct timeline_page *page;
	int fd = -1, error = writer_ask(client, record, &fd);

	if (error)
		return error;
	CRASH_POINT(writer_granted);
	page = page_map(fd, PROT_READ | PROT_WRITE);
	close(fd);
	if (!page)
		return -ENOMEM;
	error = client->device->page_register(page, TIMELINE_PAGE_SIZE, true);
	if (error)
		munmap(page, TIMELINE_PAGE_SIZE);
	else
		record->timeline->writable = page;
	CRASH_POINT(writer_mapped);
	return error;
}

static int signal_locked(struct gpub_client *client, struct record *record, uint64_t value, void *stream)
{
	struct timeline_map *map = record->timeline;
	int error = 0;

	if (value > GPUB_TIMELINE_MAX || value <= map->signalled)
		return error_set(-EINVAL, "a timeline's values grow, from 1 to 2^62 - 1: this one has reached %llu",
				 (unsigned long long)map->signalled);
	if (!map->writable)
		error = writer_become(client, record);
	if (!error)
		error = client->device->stream_write(stream, &map->writable->word, value);
	if (!error)
		map->signalled = value;
	return error;
}

/* A stream that is full holds up the other signals of its timeline: they are later ones. */
int gpub_signal_on(const gpub_lease *lease, uint64_t value, void *stream)
{
	struct record *record;
	int error = timeline_of(lease, GPUB_WRITE, &record);

	if (error)
		return error;
	pthread_mutex_lock(&record->timeline->signalling);
	error = signal_locked(lease->client, record, value, stream);
	CRASH_POINT(signal_queued);
	pthread_mutex_unlock(&record->timeline->signalling);
	return error;
}

static int page_prepare(struct gpub_client *client, struct timeline_map *map)
{
	int error = 0;

	pthread_mutex_lock(&client->lock);
	if (!map->registered) {
		error = client->device->page_register((void *)map->page, TIMELINE_PAGE_SIZE, false);
		map->registered = !error;
		CRASH_POINT(timeline_registered);
	}
	pthread_mutex_unlock(&client->lock);
	return error;
}

int gpub_wait_on(const gpub_lease *lease, uint64_t value, void *stream)
{
	struct record *record;
	struct timeline_map *map;
	int error = timeline_of(lease, 0, &record);

	if (error)
		return error;
	if (value > GPUB_TIMELINE_MAX)
		return error_set(-EINVAL, "a timeline's values end at 2^62 - 1");
	map = record->timeline;
	if (!map->registered)
		error = page_prepare(lease->client, map);
	if (!error)
		error = lease->client->device->stream_wait(stream, &map->page->word, value);
	CRASH_POINT(wait_queued);
	return error;
}

int gpub_timeline(const gpub_lease *lease, uint64_t *value)
{
	struct record *record;
	uint64_t word;
	int error = timeline_of(lease, 0, &record);

	if (error)
		return error;
	if (!value)
		return error_set(-EINVAL, "there is no place for the value: pass the address of one");
	word = __atomic_load_n(&record->timeline->page->word, __ATOMIC_ACQUIRE);
	if (word == TIMELINE_DIED)
		return error_set(-EOWNERDEAD, "the process that wrote this timeline died: what it was to make is "
					      "not made");
	*value = word == TIMELINE_LEFT ? record->timeline->page->last : word;
	return 0;
}
