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
static struct timeline_map *awaited; /* list of the maps for which a stream waits, or has waited (map->awaited not 0) */
static _Atomic bool         any;     /* hint: the list `awaited` is not empty */
static _Atomic unsigned     threads; /* number of threads between timeline_wait_begin() and timeline_wait_end() */

static void list_remove(struct timeline_map *map)
{
	DL_DELETE2(awaited, map, awaited_prev, awaited_next);
	map->awaited = map->parked_count = 0;
	map->dropped.highest = 0;
	atomic_store(&any, awaited != NULL);
}

static void list_add(struct timeline_map *map)
{
	DL_APPEND2(awaited, map, awaited_prev, awaited_next);
	atomic_store(&any, true);
}

/* Removes the waits from map->parked whose values are reached. True: there is room for another wait. */
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

#define DEVICE_BIT(ordinal) (UINT64_C(1) << ((ordinal) & 63))

/* Adds a wait, for which map->parked has no room, to map->dropped. word: the timeline's word. */
static void drop(struct timeline_map *map, uint64_t word, const struct parked_wait *wait)
{
	struct dropped_waits *dropped = &map->dropped;

	if (!dropped->highest || timeline_reached(word, dropped->highest))
		*dropped = (struct dropped_waits){ .lowest = wait->value, .ticks = wait->ticks };
	dropped->lowest = wait->value < dropped->lowest ? wait->value : dropped->lowest;
	dropped->highest = wait->value > dropped->highest ? wait->value : dropped->highest;
	dropped->devices |= DEVICE_BIT(wait->ordinal);
}

static struct parked_wait *highest_of(struct timeline_map *map)
{
	struct parked_wait *highest = &map->parked[0];

	for (unsigned i = 1; i < map->parked_count; i++)
		if (map->parked[i].value > highest->value)
			highest = &map->parked[i];
	return highest;
}

/*
 * If a dropped wait's value is not reached, and `value` is not lower than the highest of them, adds a wait for `value`
 * to the dropped waits and returns true. This is the short way for most waits of a program that queues its work far
 * ahead.
 */
static bool drop_behind(struct dropped_waits *dropped, uint64_t word, uint64_t value, int32_t ordinal)
{
	/* true also for highest 0: none dropped */
	if (value < dropped->highest || timeline_reached(word, dropped->highest))
		return false;
	dropped->highest = value;
	dropped->devices |= DEVICE_BIT(ordinal);
	return true;
}

/*
 * Adds a wait to map->parked, which keeps the waits for the lowest values, or to map->dropped. The lowest values come
 * next: one stream may wait for the end of all work while another stream goes on step by step.
 */
__attribute__((noinline)) static void parked_add(struct timeline_map *map, uint64_t word, uint64_t value,
						 int32_t ordinal)
{
	struct parked_wait wait = { value, ticks_now(), ordinal }, *highest;

	if (!map->awaited)
		list_add(map);
	if (map->parked_count < PARKED_MAX || parked_clear(map)) {
		map->parked[map->parked_count++] = wait;
		return;
	}
	highest = highest_of(map);
	if (highest->value <= value) {
		drop(map, word, &wait);
		return;
	}
	drop(map, word, highest);
	*highest = wait;
}

void timeline_wait_park(struct timeline_map *map, uint64_t word, uint64_t value, int32_t ordinal)
{
	pthread_mutex_lock(&lock);
	if (!drop_behind(&map->dropped, word, value, ordinal))
		parked_add(map, word, value, ordinal);
	if (value > map->awaited)
		map->awaited = value;
	pthread_mutex_unlock(&lock);
}

/*
 * Inserts a wait into `waits`, which has `count` waits in the order of their values. If `waits` is full, the wait for
 * the highest value, of those and the new one, is left out. Returns the new count.
 */
static unsigned list_put(struct parked_wait waits[PARKED_MAX], unsigned count, struct parked_wait wait)
{
	bool full = count == PARKED_MAX;
	unsigned at = full ? PARKED_MAX - 1 : count;

	if (full && waits[at].value <= wait.value)
		return count;
	for (; at && waits[at - 1].value > wait.value; at--)
		waits[at] = waits[at - 1];
	waits[at] = wait;
	return full ? count : count + 1;
}

/*
 * Adds a wait that stands for the dropped waits of the device to `waits`, and returns the new count. If the lowest
 * dropped value is not reached, and `waits` has no lower value, adds a wait for it. If only the highest dropped value
 * is not reached, the values in between are not known; then, if `waits` is empty, adds a wait for the value after the
 * timeline's word.
 */
static unsigned list_put_dropped(const struct timeline_map *map, uint64_t word, int32_t ordinal,
				 struct parked_wait waits[PARKED_MAX], unsigned count)
{
	const struct dropped_waits *dropped = &map->dropped;
	struct parked_wait wait = { dropped->lowest, dropped->ticks, ordinal };

	if (!dropped->highest || !(dropped->devices & DEVICE_BIT(ordinal)) || timeline_reached(word, dropped->highest))
		return count;
	if (!timeline_reached(word, dropped->lowest))
		return count && waits[0].value <= wait.value ? count : list_put(waits, count, wait);
	wait.value = word + 1;
	return count ? count : list_put(waits, count, wait);
}

unsigned timeline_wait_list(const struct timeline_map *map, int32_t ordinal, struct parked_wait waits[PARKED_MAX])
{
	uint64_t word = timeline_word(map);
	const struct thread_wait *thread;
	unsigned count = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < map->parked_count; i++)
		if (map->parked[i].ordinal == ordinal && !timeline_reached(word, map->parked[i].value))
			count = list_put(waits, count, map->parked[i]);
	DL_FOREACH(map->threads, thread)
		if (thread->wait.ordinal == ordinal && !timeline_reached(word, thread->wait.value))
			count = list_put(waits, count, thread->wait);
	count = list_put_dropped(map, word, ordinal, waits, count);
	pthread_mutex_unlock(&lock);
	return count;
}

void timeline_wait_begin(struct timeline_map *map, struct thread_wait *wait, uint64_t value, int32_t ordinal)
{
	wait->wait = (struct parked_wait){ value, ticks_now(), ordinal };
	pthread_mutex_lock(&lock);
	DL_APPEND(map->threads, wait);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&threads, 1);
}

void timeline_wait_end(struct timeline_map *map, struct thread_wait *wait)
{
	pthread_mutex_lock(&lock);
	DL_DELETE(map->threads, wait);
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(&threads, 1);
}

bool timeline_threads_none(void)
{
	return !atomic_load(&threads);
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

/* Returns the error, and sets its message, for an abandoned wait of a stream for this timeline. */
static int abandoned_error(const struct timeline_map *map)
{
	if (is_lost(map))
		return error_set(-ECONNRESET,
				 "the broker is gone, and a stream waits for a timeline: %llu is reached, %llu "
				 "awaited. Nobody reports its writer's end. If the writer or this stream is still at "
				 "work, synchronise again; else end this process",
				 (unsigned long long)timeline_word(map), (unsigned long long)map->awaited);
	return error_set(-EOWNERDEAD, "a timeline has ended, but a process that its writer shares it with overwrites "
				      "the word that a stream waits for: end this process");
}

/* Does the work of timeline_waits_ended(), with the same results. Call it under `lock`. */
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
	return client_past(&watch->until) ? abandoned_error(abandoned) : 0;
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
		atomic_store(&threads, 0);
	}
	pthread_mutex_unlock(&lock);
}
