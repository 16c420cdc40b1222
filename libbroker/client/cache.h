/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - how much stays open that no lease holds: at most what gpub_set_cache() allows, least recently used closed first.
 *
 * An open costs about 50 us, so what was returned stays open. Nothing on the way of an acquire or a return notes when it was:
 * a mapping was used since the last look when its slots were taken since. Closing synchronises, so it happens where that
 * is documented: in an acquire that has to open something, and on the closer thread. What a lease holds is never closed.
 * Owns the bound; closes by mapping_close() alone.
 */
#ifndef GPUB_CACHE_H
#define GPUB_CACHE_H

#include <stdbool.h>

struct gpub_client;

bool cache_is_full(const struct gpub_client *client);

/* Closes what was used least recently, where more is open than may be. Locked; gives the lock up meanwhile. */
void cache_trim(struct gpub_client *client);

#endif
