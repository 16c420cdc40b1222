/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-maps.h - the timelines that a client has mapped.
 *
 * Owns the maps: one for each buffer with a timeline that this process has mapped, found by the buffer's serial. A
 * GRANT creates a map, and records refer to it. A map without a reference is unused, and is destroyed later: its pages
 * are unregistered and unmapped. To unregister a page waits for the process's kernels, as a close does, so the calls
 * that close mappings also unregister pages (gpub_connect(3), "Closing waits"). A page that was never registered is
 * unmapped at once. A map stays if a stream may still use its page: an awaited value is not reached, or a signal has
 * not landed. A writer's map also stays while the buffer exists, because the writer releases the readers through its
 * page when the connection is lost. All functions are called under client->lock, unless their comment says otherwise.
 */
#ifndef GPUB_TIMELINE_MAPS_H
#define GPUB_TIMELINE_MAPS_H

#include <stdbool.h>

#include "timeline-map.h"

struct gpub_client;
struct wire_grant;

/* Checks that the file `fd` is a timeline's page, and maps it. Returns NULL, error message set, if that fails. */
void *timeline_page_map(int fd, int protection);

/*
 * Returns the map of the buffer of the GRANT, with a new reference, which timeline_map_put() removes. If the client has
 * no map of the buffer, makes one from the page in the file `fd`. Returns NULL, error message set, if that fails.
 */
struct timeline_map *timeline_map_get(struct gpub_client *client, const struct wire_grant *grant, int fd);
void timeline_map_put(struct gpub_client *client, struct timeline_map *map); /* does nothing if map is NULL */

/*
 * Makes this session the timeline's writer. page: the timeline's page, mapped writable and registered with the device.
 * Call it under map->signalling and without client->lock.
 */
void timeline_map_write(struct timeline_map *map, struct timeline_page *page);

/* Whether so many maps have become unused that an acquire has to call timeline_maps_give_back(). */
bool timeline_maps_full(const struct gpub_client *client);

/*
 * Destroys unused maps that no stream uses. all true: checks each unused map. all false: checks two unused maps for
 * each map that became unused since the last call, so that the work does not grow with the number of maps that must
 * stay. Releases client->lock meanwhile. Does nothing in a disconnect, which first waits for signals to land.
 */
void timeline_maps_give_back(struct gpub_client *client, bool all);

/*
 * For the end of a disconnect, when no other thread uses the client: destroys all maps, because the client's next
 * connection may be to another broker, whose serials mean other buffers. Registered pages stay mapped if a stream of
 * this process has not done a wait or a signal yet. Call it without client->lock.
 */
void timeline_maps_forget(struct gpub_client *client);

#endif
