/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-maps.h - the timelines that a client has mapped.
 *
 * Owns the maps: one for each buffer with a timeline that this process has mapped, found by the buffer's serial. A
 * grant creates them, and records refer to them. A map without a reference is unused and is given back: its pages are
 * unregistered and unmapped. To unregister waits for the process's kernels, as a close does, so it happens in the same
 * calls (gpub_connect(3), "Closing waits"). A page that was never registered is unmapped at once. Never gives back what
 * a stream may still use: a page whose awaited value is not reached, or whose signal has not landed. Nor the page of a
 * writer whose buffer exists, because its readers are released through it when the broker is gone. All of it is under
 * the client's lock, unless said otherwise.
 */
#ifndef GPUB_TIMELINE_MAPS_H
#define GPUB_TIMELINE_MAPS_H

#include <stdbool.h>

#include "timeline-map.h"

struct gpub_client;
struct wire_grant;

/* Maps the page in fd after checking it. NULL: error set. */
void *timeline_page_map(int fd, int protection);

/*
 * The map of the buffer in that grant, created from fd if there is none, with a new reference. timeline_map_put() takes
 * the reference away. NULL: error set.
 */
struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd);
void timeline_map_put(struct gpub_client *client, struct timeline_map *map); /* NULL is fine */

/* From now on this session is its writer, through that page. Under map->signalling; takes the client's lock. */
void timeline_map_write(struct timeline_map *map, struct timeline_page *page);

/* Whether so many are unused that an acquire has to give some back. */
bool timeline_maps_full(const struct gpub_client *client);

/*
 * Gives back unused maps. all: checks each; else two for each map that became unused since the last time, so that the
 * work does not grow with the maps that cannot be given back yet. Releases the lock meanwhile. Does nothing in a
 * disconnect, which first waits for signals to land.
 */
void timeline_maps_give_back(struct gpub_client *client, bool all);

/*
 * At disconnect, when no other thread uses the client: gives back all maps, because another broker's serials are other
 * buffers'. Registered pages stay mapped if a stream has not done a wait or a signal yet. Not locked.
 */
void timeline_maps_forget(struct gpub_client *client);

#endif
