/* SPDX-License-Identifier: Apache-2.0 */
/* timeline-wait.c - see timeline-wait.h */
#include "timeline-wait.h"

#include <errno.h>

#include <utlist.h>

#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "ticks.h"

unsigned timeline_abandon_ms = 30000;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken after every other lock */
static struct timeline_map *awaited;
static _Atomic bool         any; /* hint: there are some */

static void list_remove(struct timeline_map *map)
{
	DL_DELETE2(awaited, map, awaited_prev, awaited_next);
	map->awaited = map->parked_count = 0;
	map->dropped.value = 0;
	atomic_store(&any, awaited != NULL);
}

static void list_add(struct timeline_map *map)
{
	DL_APPEND2(awaited, map, awaited_prev, awaited_next);
	atomic_store(&any, true);
}

/* Those that are reached leave. True: there is room. */
static bool parked_clear(struct timeline_map *map)
{
	uint64_t word = timeline_word(map);
	unsigned kept = 0;

	for (unsigned i = 0; i < map->parked_count; i++)
		if (!timeline_reached(word, map->parked[i].value))
			map->parked[kept++] = map->parked[i];
	map->parked_count = kept;
	return kept < PARKED_MAX;
}

/* Until the last one that was dropped is reached, a later one is not among the oldest. */
static void parked_add(struct timeline_map *map, uint64_t word, uint64_t value, int32_t ordinal)
{
	if (map->dropped.value && !timeline_reached(word, map->dropped.value)) {
		map->dropped.value = value > map->dropped.value ? value : map->dropped.value;
		return;
	}
	map->dropped.value = 0;
	if (map->parked_count < PARKED_MAX || (timeline_reached(word, map->parked[0].value) && parked_clear(map)))
		map->parked[map->parked_count++] = (struct parked_wait){ value, ticks_now(), ordinal };
	else
		map->dropped = (struct parked_wait){ value, ticks_now(), ordinal };
}

void timeline_wait_park(struct timeline_map *map, uint64_t word, uint64_t value, int32_t ordinal)
{
	pthread_mutex_lock(&lock);
	if (!map->awaited)
		list_add(map);
	if (value > map->awaited)
		map->awaited = value;
	parked_add(map, word, value, ordinal);
	pthread_mutex_unlock(&lock);
}

unsigned timeline_wait_list(const struct timeline_map *map, int32_t ordinal, struct parked_wait waits[PARKED_MAX])
{
	uint64_t word = timeline_word(map);
	unsigned count = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < map->parked_count; i++)
		if (map->parked[i].ordinal == ordinal && !timeline_reached(word, map->parked[i].value))
			waits[count++] = map->parked[i];
	/* one of the dropped is next: a stream awaits some value up to theirs, and this one first of all */
	if (!count && map->dropped.ordinal == ordinal && map->dropped.value && !timeline_reached(word, map->dropped.value))
		waits[count++] = (struct parked_wait){ word + 1, map->dropped.ticks, ordinal };
	pthread_mutex_unlock(&lock);
	return count;
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
	parked = map->awaited && !timeline_reached(timeline_word(map), map->awaited);
	pthread_mutex_unlock(&lock);
	return parked;
}

bool timeline_waits_parked(void)
{
	const struct timeline_map *map;
	bool parked = false;

	pthread_mutex_lock(&lock);
	DL_FOREACH2(awaited, map, awaited_next)
		parked |= !timeline_reached(timeline_word(map), map->awaited);
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
				 (unsigned long long)timeline_word(map), (unsigned long long)map->awaited);
	return error_set(-EOWNERDEAD, "a timeline has ended, but a process that its writer shares it with overwrites the word that "
				      "a stream waits for: end this process");
}

/* 0: wait on; 1: nothing is awaited; else the error to stop with. Locked. */
static int look(struct timeline_watch *watch)
{
	struct timeline_map *map, *next, *abandoned = NULL;
	uint64_t progress = 0;

	DL_FOREACH_SAFE2(awaited, map, next, awaited_next) {
		uint64_t word = timeline_word(map);

		if (timeline_reached(word, map->awaited)) {
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
