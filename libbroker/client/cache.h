/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - decides which mappings stay open although no lease holds them, and when they are closed.
 *
 * An open costs about 50 us, so a mapping stays open after its last lease was returned. A pass over the mappings closes
 * those that are due. A pass has one of two scopes:
 *   - CACHE_DUE closes mappings that the broker wants back. If more mappings or bytes are open than gpub_set_cache()
 *     allows, it also closes the least recently used mappings. The closer thread (GPUB_BACKGROUND_CLOSE) makes this
 *     pass when a mapping, an unlinked buffer or an unused timeline is due. Without that thread, gpub_acquire_many()
 *     and an acquire that must request its buffer make this pass if more mappings or bytes are open than allowed, or
 *     too many unused timelines are mapped.
 *   - CACHE_ALL closes all mappings, for gpub_trim(), gpub_drain(), gpub_disconnect(), for gpub_create() when memory
 *     is short, and for gpub_resize() then or when the buffer cannot shrink. It waits for returns in stream order
 *     that have not landed.
 * A pass closes no mapping that a lease holds, unless its device was reset, and, except in a disconnect, none that an
 * acquirer waits for. A close may wait for the process's kernels (gpubroker(7), "Close"), and would delay every GRANT
 * and reply on the service thread. So only the calls named above and the closer thread make passes. The fast path does
 * not record when a mapping was used: a pass compares the acquire counts of the mapping's slots with those at the scan
 * before.
 *
 * Owns the limits, the order in which mappings were used, and the closer thread. Closes a mapping only by
 * mapping_close(), and retires a buffer only by record_retire().
 */
#ifndef GPUB_CACHE_H
#define GPUB_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "mapping.h"

struct gpub_client;

/*
 * One pass over the mappings. A pass visits each mapping that exists when the pass begins at most once. client->lock is
 * released between visits, and other passes may run then. If a later pass of the same scope has visited a mapping, the
 * earlier pass skips it, because both close the same mappings.
 */
struct cache_pass {
	enum cache_scope scope;
	uint64_t         number;  /* the pass's place in the order of all passes (client->passes) */
	/* true: when the pass began, more mappings or bytes were open than gpub_set_cache() allows */
	bool             bounded;
};

/*
 * cache_pass_begin() begins a pass. cache_pass_next() returns the next mapping for the pass to visit; NULL: the pass
 * has visited all. A CACHE_DUE pass that began with more open than gpub_set_cache() allows (pass->bounded) first visits
 * the mappings that the broker wants back, then the others, least recently used first. Both are called under
 * client->lock.
 */
void cache_pass_begin(struct gpub_client *client, enum cache_scope scope, struct cache_pass *pass);
struct mapping *cache_pass_next(struct gpub_client *client, const struct cache_pass *pass);

/*
 * Makes a CACHE_ALL pass. Also retires unlinked buffers whose mapping stays open and, except in a disconnect, unmaps
 * unused timelines. Returns the first error except -EBUSY, with its message, or 0. Call it without client->lock.
 */
int cache_close_all(struct gpub_client *client);

/*
 * For an acquire that is about to request a buffer, and for each gpub_acquire_many(): makes a CACHE_DUE pass if more
 * mappings or bytes are open than gpub_set_cache() allows, or too many unused timelines are mapped. Does nothing if
 * GPUB_BACKGROUND_CLOSE is set. Returns true if it made a pass. Call it under client->lock, which the pass releases
 * from time to time.
 */
bool cache_make_room(struct gpub_client *client);

/*
 * Retires the buffers of client->due, which are unlinked, if the device is known to be done with them. Also closes the
 * mappings of client->wanted, which the broker wants back, if their close need not wait. sync true: waits for the
 * device if leases of a buffer were returned unordered; if the driver cannot wait, closes the whole mapping, once no
 * lease holds it. Returns true if a later call may retire or close more, so the caller tries again after a pause. Call
 * it under client->lock, which it releases from time to time.
 */
bool cache_retire(struct gpub_client *client, bool sync);

/* Joins the closer thread, if there is one. The caller has set client->leaving, which ends the thread. */
void cache_stop(struct gpub_client *client);

#endif
