/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-map.h - this process's mappings of a timeline's page: read-only and, for the timeline's writer, writable.
 *
 * Records refer to a map; timeline-maps.h finds a map by its buffer's serial. A thread that signals holds the mutex
 * `signalling` from the comparison with `signalled` until the stream operation is queued, so that two threads cannot
 * queue their values in the wrong order. The mutex is taken before client->lock, never after. All else is under
 * client->lock, unless said otherwise.
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

#define PARKED_MAX 4 /* waits kept of each timeline: the lowest, which say how far its streams have come */

/* A wait that was queued, or begun by a thread, before its value was reached. */
struct parked_wait {
	uint64_t value;
	uint64_t ticks;   /* when it was queued or begun (ticks.h) */
	int32_t  ordinal; /* ordinal of the device of the lease by which it waits */
};

/* A wait of a thread in gpub_timeline_wait(). On that thread's stack. */
struct thread_wait {
	struct parked_wait  wait;
	struct thread_wait *prev, *next; /* in map->threads */
};

/* Waits of streams for which parked had no room: when each was dropped, no parked wait was higher. */
struct dropped_waits {
	uint64_t lowest;  /* smallest value of a dropped wait */
	uint64_t highest; /* largest value of a dropped wait; 0: none was dropped */
	uint64_t ticks;   /* when the first dropped wait was queued (ticks.h) */
	uint64_t devices; /* bit set of the dropped waits' devices, by ordinal */
};

struct timeline_map {
	uint64_t                    serial;     /* serial of the buffer */
	unsigned                    references; /* number of records, GRANTs and waiting threads with it; 0: unused */
	struct gpub_client         *client;
	const _Atomic uint64_t     *word;       /* the buffer's generation word in the board */
	const struct board_end     *end;        /* entry in the board that says how the timeline has ended */
	const struct timeline_page *page;       /* the page, read-only */
	_Atomic bool                registered; /* the device may read page; set under client->lock */
	pthread_mutex_t             signalling; /* protects the members from here to marked */
	struct timeline_page       *writable;   /* the page, writable; NULL: this session is not the writer */
	uint64_t                    signalled;  /* the largest value that this writer has queued */
	uint64_t                    landed;     /* the largest signalled value that was seen in the page */
	int                         ordinal;    /* in the writer: number, in this process, of the device whose streams signal */
	bool                        marked;     /* this writer wrote the end mark itself, after it lost the broker */
	uint64_t                    awaited;    /* timeline-wait.c: largest value that a stream waits for; 0: none */
	struct parked_wait          parked[PARKED_MAX]; /* timeline-wait.c: the lowest waits of streams, in no order */
	unsigned                    parked_count;       /* number of waits in parked */
	struct dropped_waits        dropped; /* timeline-wait.c: waits of streams that parked has no room for */
	struct thread_wait         *threads; /* timeline-wait.c: list of threads that wait for this timeline */
	struct timeline_map        *awaited_prev, *awaited_next; /* in timeline-wait.c's list, if awaited is not 0 */
	struct timeline_map        *written_prev, *written_next; /* in timeline_maps.written */
	struct timeline_map        *unused_prev, *unused_next;   /* in timeline_maps.unused */
	UT_hash_handle              hh; /* in timeline_maps.by_serial */
};

/* The timeline maps of a client. Zeros at first. */
struct timeline_maps {
	struct timeline_map *by_serial; /* table of all maps */
	struct timeline_map *written; /* list of maps that this session writes; timeline-end.c reads it unlocked */
	struct timeline_map *unused;  /* list of unused maps; the one that was checked longest ago is first */
	unsigned             unused_count;
	unsigned             fresh; /* number of maps that became unused since the last timeline_maps_give_back() */
};

/* How the timeline has ended. Valid while a lease of the buffer is held, or a stream waits for the timeline. */
static inline enum board_ended timeline_map_ended(const struct timeline_map *map)
{
	return board_end_of(map->end, map->serial);
}

/* Adds a reference, and returns the map. NULL is allowed. */
static inline struct timeline_map *timeline_map_share(struct timeline_map *map)
{
	if (map)
		map->references++;
	return map;
}

/*
 * Whether the writer's last signal was seen in the page. An end mark does not prove that: a late signal may come
 * after it. Under signalling, or while the map is unused.
 */
static inline bool timeline_map_landed(struct timeline_map *map)
{
	uint64_t word = __atomic_load_n(&map->writable->word, __ATOMIC_ACQUIRE);

	if (word >= map->signalled && word <= GPUB_TIMELINE_MAX)
		map->landed = map->signalled;
	return map->landed == map->signalled;
}

#endif
