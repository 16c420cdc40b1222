/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-map.h - a timeline's page as this process has it mapped: read-only, and writable for its writer.
 *
 * Owns the maps: one for each buffer that was ever mapped here, kept until the client ends. Never unmaps before exit what
 * was registered with the device, because to unregister it would wait for the process's kernels. The list
 * is under the client's lock. signalling is held from the look at signalled to the end of the stream operation
 * that makes it true, so that two threads cannot queue their values in the wrong order; it is taken before the
 * client's lock, never behind it.
 */
#ifndef GPUB_TIMELINE_MAP_H
#define GPUB_TIMELINE_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/board.h"
#include "common/timeline-page.h"

struct gpub_client;
struct wire_grant;

struct timeline_map {
	uint64_t                    serial;
	struct gpub_client         *client;
	const struct board_end     *end;        /* of its place in the board */
	const struct timeline_page *page;       /* read-only */
	_Atomic bool                registered; /* the device may read page; set under the client's lock */
	pthread_mutex_t             signalling; /* writable and signalled */
	struct timeline_page       *writable;   /* NULL: this session is not the writer */
	uint64_t                    signalled;  /* the largest value queued by this writer */
	int                         ordinal;    /* the writer's device */
	bool                        marked;     /* this writer ended it itself, for there is no broker any more */
	uint64_t                    awaited;    /* timeline-wait.c's: the largest value that a stream waits for; 0: none */
	struct timeline_map        *awaited_prev, *awaited_next;
	struct timeline_map        *next;
};

/* The page in fd, mapped as asked, where it is one. NULL: error set. */
void *timeline_page_map(int fd, int protection);

/* The map of the buffer in that grant, made from fd where there is none yet. NULL: error set. Locked. */
struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd);

/* At disconnect: another broker's serials are other buffers'. Locked. */
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

#endif
