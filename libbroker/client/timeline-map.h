/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-map.h - this process's mappings of a timeline's page: read-only and, for the timeline's writer, writable.
 *
 * Records refer to a map, and timeline-maps.h finds a map by its buffer's serial. A thread that signals holds the mutex
 * `signalling` from the comparison with `signalled` until the stream operation is queued, so that two threads cannot
 * queue their values in the wrong order. No thread holds the mutex while it waits for the broker. The mutex is taken
 * before client->lock, never after. Members are under client->lock, unless their comment says otherwise.
 */
#ifndef GPUB_TIMELINE_MAP_H
#define GPUB_TIMELINE_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/board.h"
#include "common/tables.h"
#include "common/timeline-page.h"
#include "gpubroker.h"

struct gpub_client;

#define PARKED_MAX 4 /* number of waits recorded for each timeline: those for the lowest values, which come next */

/* A wait for a timeline that was queued on a stream, or begun by a thread, before the awaited value was reached. */
struct parked_wait {
	uint64_t value;   /* the awaited value */
	uint64_t ticks;   /* when the wait was queued or begun (ticks.h) */
	int32_t  ordinal; /* ordinal, in this process, of the device of the lease that the wait was given */
};

/* A wait of a thread in gpub_timeline_wait(). On that thread's stack. */
struct thread_wait {
	struct parked_wait  wait;
	struct thread_wait *prev, *next; /* links of the list timeline_map.threads */
};

/*
 * Summary of the waits of streams for which timeline_map.parked had no room. When a wait was dropped from `parked`, no
 * wait that stayed there was for a higher value.
 */
struct dropped_waits {
	uint64_t lowest;  /* smallest value of a dropped wait */
	uint64_t highest; /* largest value of a dropped wait; 0: none was dropped */
	uint64_t ticks;   /* when the first dropped wait was queued (ticks.h) */
	uint64_t devices; /* bit n is set if a dropped wait's lease is of the device with ordinal n in this process */
};

struct timeline_map {
	uint64_t                    serial;     /* serial of the buffer */
	/* number of records, GRANTs and waiting threads that use it; 0: unused */
	unsigned                    references;
	struct gpub_client         *client;
	const _Atomic uint64_t     *word;       /* the buffer's generation word in the board */
	const struct board_end     *end;        /* the buffer's struct board_end: how the timeline has ended */
	const struct timeline_page *page;       /* the timeline's page, mapped read-only */
	_Atomic bool                registered; /* the device may read `page`; set under client->lock */
	pthread_mutex_t             signalling; /* protects the members from here to `marked` */
	struct timeline_page       *writable;   /* the page, mapped writable; NULL: this session is not the writer */
	uint64_t                    signalled;  /* for a writer: the largest value of the signals that it queued */
	uint64_t                    landed;     /* for a writer: the largest signalled value that it saw in the page */
	/* for a writer: ordinal, in this process, of the device of the lease by which it became the writer */
	int                         ordinal;
	/* this process, the writer, wrote the end mark after it lost the broker, or in a disconnect without LEAVE */
	bool                        marked;
	/* the members from here to awaited_next are owned by timeline-wait.c, and are under its lock */
	uint64_t                    awaited;    /* the largest value that a stream waits, or has waited, for; 0: none */
	struct parked_wait          parked[PARKED_MAX]; /* the waits of streams for the lowest values, in no order */
	unsigned                    parked_count;       /* number of waits in `parked` */
	struct dropped_waits        dropped; /* the waits of streams for which `parked` has no room */
	struct thread_wait         *threads; /* list of the waits of threads for this timeline */
	struct timeline_map        *awaited_prev, *awaited_next; /* links of timeline-wait.c's list `awaited` */
	struct timeline_map        *written_prev, *written_next; /* links of the list timeline_maps.written */
	struct timeline_map        *unused_prev, *unused_next;   /* links of the list timeline_maps.unused */
	UT_hash_handle              hh; /* entry of the table timeline_maps.by_serial */
};

/* The timeline maps of a client. All zeros at first. */
struct timeline_maps {
	struct timeline_map *by_serial; /* hash table of all maps, by serial */
	struct timeline_map *written; /* list of the maps that this session writes; timeline-end.c reads it unlocked */
	struct timeline_map *unused;  /* list of the unused maps, in the order in which they were last checked */
	unsigned             unused_count; /* length of the list `unused` */
	unsigned             fresh; /* number of maps that became unused since the last timeline_maps_give_back() */
};

/*
 * Returns how the timeline has ended. Call it only while a lease of the buffer is held, or a stream waits for the
 * timeline.
 */
static inline enum board_ended timeline_map_ended(const struct timeline_map *map)
{
	return board_end_of(map->end, map->serial);
}

/* Adds a reference to the map, unless it is NULL. Returns `map`. */
static inline struct timeline_map *timeline_map_share(struct timeline_map *map)
{
	if (map)
		map->references++;
	return map;
}

/*
 * For a map whose writer this process is: whether the last signal of this process was seen in the page. An end mark in
 * the page does not prove that the signal has landed, because the signal may overwrite the mark later. Call it under
 * map->signalling, or while the map is unused.
 */
static inline bool timeline_map_landed(struct timeline_map *map)
{
	uint64_t word = __atomic_load_n(&map->writable->word, __ATOMIC_ACQUIRE);

	if (word >= map->signalled && word <= GPUB_TIMELINE_MAX)
		map->landed = map->signalled;
	return map->landed == map->signalled;
}

#endif
