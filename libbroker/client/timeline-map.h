/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-map.h - a timeline's page as this process has it mapped: read-only, and writable for its writer.
 *
 * Owns the maps: one for each buffer with a timeline that this process has mapped, found by the buffer's serial.
 * Records refer to them. A map without a reference is unused. It is given back: its pages are unregistered and
 * unmapped. To unregister waits for the process's kernels, as a close does, so it is done where closing is
 * (gpub_connect(3), "Closing waits"). A page that the device was never told of is unmapped at once. Never gives back
 * what a stream may still use, as far as the words say: a page whose awaited value is not reached, or on which a signal
 * has not landed; nor the page of a writer whose buffer exists, because readers are released through it when the
 * broker is gone.
 *
 * All of it is under the client's lock, unless said otherwise. signalling is held from the look at signalled to the end
 * of the stream operation that makes it true, so that two threads cannot queue their values in the wrong order; it is
 * taken before the client's lock, never behind it.
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
struct wire_grant;

struct timeline_map {
	uint64_t                    serial;
	unsigned                    references; /* of records, and of a grant that is being worked on; 0: it is unused */
	struct gpub_client         *client;
	const _Atomic uint64_t     *word;       /* its buffer's, in the board */
	const struct board_end     *end;        /* of its place in the board */
	const struct timeline_page *page;       /* read-only */
	_Atomic bool                registered; /* the device may read page; set under the client's lock */
	pthread_mutex_t             signalling; /* from here to marked */
	struct timeline_page       *writable;   /* NULL: this session is not the writer */
	uint64_t                    signalled;  /* the largest value queued by this writer */
	uint64_t                    landed;     /* the largest that was seen to have landed: no end mark counts */
	int                         ordinal;    /* the writer's device */
	bool                        marked;     /* this writer ended it itself, for there is no broker any more */
	uint64_t                    awaited;    /* timeline-wait.c's: the largest value that a stream waits for; 0: none */
	struct timeline_map        *awaited_prev, *awaited_next;
	struct timeline_map        *written_prev, *written_next;
	struct timeline_map        *unused_prev, *unused_next;
	UT_hash_handle              hh; /* by serial */
};

/* A client's. Zeros to begin with. */
struct timeline_maps {
	struct timeline_map *by_serial;
	struct timeline_map *written; /* those that this session writes: timeline-end.c says who walks it */
	struct timeline_map *unused;  /* the one that was looked at longest ago first */
	unsigned             unused_count;
	unsigned             fresh; /* so many became unused since maps were given back last */
};

/* The page in fd, mapped as asked, where it is one. NULL: error set. */
void *timeline_page_map(int fd, int protection);

/*
 * The map of the buffer in that grant, made from fd where there is none yet, with a reference more, which
 * timeline_map_put() takes away. NULL: error set.
 */
struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd);
void timeline_map_put(struct gpub_client *client, struct timeline_map *map); /* NULL is fine */

/* This session is its writer from now on, by that page. Under map->signalling; takes the client's lock. */
void timeline_map_write(struct timeline_map *map, struct timeline_page *page);

/* So many are unused that an acquire has to give them back. */
bool timeline_maps_full(const struct gpub_client *client);

/*
 * Gives back unused maps. all: looks at each; else at two for each that became unused since the last time, so that the
 * work does not grow with those that cannot be given back yet. Gives the lock up meanwhile. Does nothing in a disconnect,
 * which waits for signals to land first.
 */
void timeline_maps_give_back(struct gpub_client *client, bool all);

/*
 * At disconnect, when nobody else uses the client any more: gives back all maps, for another broker's serials are other
 * buffers'. Pages that the device knows stay mapped where a stream is still behind a wait or a signal. Not locked.
 */
void timeline_maps_forget(struct gpub_client *client);

/* ---- timeline-end.c ---- */

#define TIMELINE_LAND_MS 10000

/*
 * At disconnect: waits until what this process signalled has landed. -ETIMEDOUT: it has not within TIMELINE_LAND_MS; -EIO: it
 * never will.
 */
int timelines_land(struct gpub_client *client);

/*
 * The broker is gone, so nobody will release who waits, and nothing can be signalled any more: this process's timelines end
 * here, each when what it signalled has landed. Returns when all have, or the client is being disconnected.
 */
void timelines_end_orphaned(struct gpub_client *client);

/* The same at once, landed or not: at the end of a disconnect that told no broker. */
void timelines_end_now(struct gpub_client *client);

/* ---- inline ---- */

/* As long as a lease is held, or a wait of its stream is not over. */
static inline enum board_ended timeline_map_ended(const struct timeline_map *map)
{
	return board_end_of(map->end, map->serial);
}

/* With a reference more. */
static inline struct timeline_map *timeline_map_share(struct timeline_map *map)
{
	if (map)
		map->references++;
	return map;
}

/* What was signalled last is in the page. An end mark does not say so: a late signal may be behind it. Under signalling. */
static inline bool timeline_map_landed(struct timeline_map *map)
{
	uint64_t word = __atomic_load_n(&map->writable->word, __ATOMIC_ACQUIRE);

	if (word >= map->signalled && word <= GPUB_TIMELINE_MAX)
		map->landed = map->signalled;
	return map->landed == map->signalled;
}

#endif
