/* SPDX-License-Identifier: Apache-2.0 */
/* timeline-wait.c - see timeline-wait.h */
#include "timeline-wait.h"

#include <errno.h>

#include <utlist.h>

#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "timeline-map.h"

unsigned timeline_abandon_ms = 30000;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken after every other lock */
static struct timeline_map *awaited;
static _Atomic bool         any; /* hint: there are some */

static uint64_t word_of(const struct timeline_map *map)
{
	return __atomic_load_n(&map->page->word, __ATOMIC_ACQUIRE);
}

/* As a stream compares. */
static bool is_reached(uint64_t word, uint64_t value)
{
	return (int64_t)(word - value) >= 0;
}

static void list_remove(struct timeline_map *map)
{
	DL_DELETE2(awaited, map, awaited_prev, awaited_next);
	map->awaited = 0;
	atomic_store(&any, awaited != NULL);
}

void timeline_wait_note(struct timeline_map *map, uint64_t value)
{
	if (is_reached(word_of(map), value))
		return;
	pthread_mutex_lock(&lock);
	if (!map->awaited)
		DL_APPEND2(awaited, map, awaited_prev, awaited_next);
	if (value > map->awaited)
		map->awaited = value;
	atomic_store(&any, true);
	pthread_mutex_unlock(&lock);
}

void timeline_wait_forget(struct timeline_map *map)
{
	pthread_mutex_lock(&lock);
	if (map->awaited)
		list_remove(map);
	pthread_mutex_unlock(&lock);
}

bool timeline_wait_parked(const struct timeline_map *map)
{
	bool parked;

	pthread_mutex_lock(&lock);
	parked = map->awaited && !is_reached(word_of(map), map->awaited);
	pthread_mutex_unlock(&lock);
	return parked;
}

bool timeline_waits_parked(void)
{
	const struct timeline_map *map;
	bool parked = false;

	pthread_mutex_lock(&lock);
	DL_FOREACH2(awaited, map, awaited_next)
		parked |= !is_reached(word_of(map), map->awaited);
	pthread_mutex_unlock(&lock);
	return parked;
}

bool timeline_waits_none(void)
{
	return !atomic_load(&any);
}

static bool is_lost(const struct timeline_map *map)
{
	return atomic_load(&map->client->guard->state) != CLIENT_OPEN;
}

static int refuse(const struct timeline_map *map)
{
	if (is_lost(map))
		return error_set(-ECONNRESET, "the broker is gone, and a stream waits for a timeline: %llu is reached, %llu awaited. "
					      "Nobody reports its writer's end. If the writer or this stream is still at work, "
					      "synchronise again; else end this process",
				 (unsigned long long)word_of(map), (unsigned long long)map->awaited);
	return error_set(-EOWNERDEAD, "a timeline has ended, but a process that its writer shares it with overwrites the word that "
				      "a stream waits for: end this process");
}

/* 0: wait on; 1: nothing is awaited; else the error to stop with. Locked. */
static int look(struct timeline_watch *watch)
{
	struct timeline_map *map, *next, *abandoned = NULL;
	uint64_t progress = 0;

	DL_FOREACH_SAFE2(awaited, map, next, awaited_next) {
		uint64_t word = word_of(map);

		if (is_reached(word, map->awaited)) {
			list_remove(map);
		} else if (is_lost(map) || timeline_map_ended(map)) {
			abandoned = map;
			progress += word + 1;
		}
	}
	if (!abandoned || !watch->counting || watch->progress != progress) {
		watch->counting = abandoned != NULL;
		watch->progress = progress;
		watch->until = client_deadline(timeline_abandon_ms);
		return !awaited;
	}
	return client_past(&watch->until) ? refuse(abandoned) : 0;
}

int timeline_waits_ended(void *watch)
{
	int verdict;

	pthread_mutex_lock(&lock);
	verdict = look(watch);
	pthread_mutex_unlock(&lock);
	return verdict;
}

void timeline_waits_lock(void)
{
	pthread_mutex_lock(&lock);
}

void timeline_waits_unlock(bool forget)
{
	if (forget) {
		awaited = NULL;
		atomic_store(&any, false);
	}
	pthread_mutex_unlock(&lock);
}
