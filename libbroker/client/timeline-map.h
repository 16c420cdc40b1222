/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-map.h - this process's mappings of a timeline's page: read-only, and writable for its writer.
 *
 * Records refer to a map; timeline-maps.h finds it by its buffer's serial. A thread that signals holds signalling from the
 * comparison with signalled until the stream operation is queued, so that two threads cannot queue their values in the wrong
 * order. It is taken before the client's lock, never after it. All else is under the client's lock, unless said otherwise.
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

#define PARKED_MAX 4 /* a stream comes to its waits one after the other: the lowest ones say where it is */

/* A wait that was queued before its value was reached. */
struct parked_wait {
	uint64_t value, ticks; /* ticks: when, ticks.h */
	int32_t  ordinal;      /* the device that the lease is of */
};

/* A thread that waits itself. It is on that thread's stack. */
struct thread_wait {
	struct parked_wait  wait;
	struct thread_wait *prev, *next; /* of its map */
};

/* Those for which there was no room: higher than all that had a place then. */
struct dropped_waits {
	uint64_t lowest, highest; /* highest 0: there are none */
	uint64_t ticks;           /* the first one's */
	uint64_t devices;         /* bits, by ordinal: theirs */
};

struct timeline_map {
	uint64_t                    serial;
	unsigned                    references; /* of records, and of a grant that is being handled; 0: unused */
	struct gpub_client         *client;
	const _Atomic uint64_t     *word;       /* its buffer's, in the board */
	const struct board_end     *end;        /* of its place in the board */
	const struct timeline_page *page;       /* read-only */
	_Atomic bool                registered; /* the device may read page; set under the client's lock */
	pthread_mutex_t             signalling; /* from here to marked */
	struct timeline_page       *writable;   /* NULL: this session is not the writer */
	uint64_t                    signalled;  /* the largest value queued by this writer */
	uint64_t                    landed;     /* the largest that was seen to have landed; an end mark does not count */
	int                         ordinal;    /* the writer's device */
	bool                        marked;     /* this writer ended it itself, because the broker is gone */
	uint64_t                    awaited;    /* timeline-wait.c's: the largest value that a stream waits for; 0: none */
	struct parked_wait          parked[PARKED_MAX]; /* also timeline-wait.c's: the lowest waits, in no order */
	unsigned                    parked_count;
	struct dropped_waits        dropped;
	struct thread_wait         *threads; /* also timeline-wait.c's */
	struct timeline_map        *awaited_prev, *awaited_next;
	struct timeline_map        *written_prev, *written_next;
	struct timeline_map        *unused_prev, *unused_next;
	UT_hash_handle              hh; /* by serial */
};

/* A client's. Zeros to begin with. */
struct timeline_maps {
	struct timeline_map *by_serial;
	struct timeline_map *written; /* those that this session writes; timeline-end.c reads it without the lock */
	struct timeline_map *unused;  /* the one that was checked longest ago first */
	unsigned             unused_count;
	unsigned             fresh; /* so many became unused since timeline_maps_give_back() */
};

/* Valid while a lease is held, or a stream waits for the timeline. */
static inline enum board_ended timeline_map_ended(const struct timeline_map *map)
{
	return board_end_of(map->end, map->serial);
}

/* Adds a reference. */
static inline struct timeline_map *timeline_map_share(struct timeline_map *map)
{
	if (map)
		map->references++;
	return map;
}

/* The last signal is in the page. An end mark does not prove that: a late signal may come after it. Under signalling. */
static inline bool timeline_map_landed(struct timeline_map *map)
{
	uint64_t word = __atomic_load_n(&map->writable->word, __ATOMIC_ACQUIRE);

	if (word >= map->signalled && word <= GPUB_TIMELINE_MAX)
		map->landed = map->signalled;
	return map->landed == map->signalled;
}

#endif
