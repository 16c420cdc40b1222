/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-maps.h - the timelines that a client has mapped: made by a grant, used, unused, and given back.
 *
 * Owns the maps: one for each buffer with a timeline that this process has mapped, found by the buffer's serial.
 * Records refer to them. A map without a reference is unused. It is given back: its pages are unregistered and
 * unmapped. To unregister waits for the process's kernels, as a close does, so it is done where closing is
 * (gpub_connect(3), "Closing waits"). A page that the device was never told of is unmapped at once. Never gives back
 * what a stream may still use, as far as the words say: a page whose awaited value is not reached, or on which a signal
 * has not landed; nor the page of a writer whose buffer exists, because readers are released through it when the
 * broker is gone. All of it is under the client's lock, unless said otherwise.
 */
#ifndef GPUB_TIMELINE_MAPS_H
#define GPUB_TIMELINE_MAPS_H

#include <stdbool.h>

#include "timeline-map.h"

struct gpub_client;
struct wire_grant;

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

#endif
