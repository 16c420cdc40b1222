/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - which mappings stay open that no lease holds: the one rule, and the three places that apply it.
 *
 * An open costs about 50 us, so a mapping stays open after its last lease was returned. A pass closes those that are due:
 *   - CACHE_DUE: what the broker wants back; and beyond the bound of gpub_set_cache(), what was used least recently. The closer
 *     thread (GPUB_BACKGROUND_CLOSE) makes such a pass when something is due. Without that thread, an acquire that opens
 *     something makes one when more is open than the bound allows, or too many unused timelines are mapped.
 *   - CACHE_ALL: all. gpub_trim(), gpub_drain(), gpub_disconnect(), and gpub_create() when memory is short. It waits for returns
 *     in stream order that have not landed.
 * A pass never closes what a lease holds, nor a mapping that an acquirer waits for. Closing waits for the process's
 * kernels (gpubroker(7), "Close"), so it happens in these calls alone, and the closer is a thread of its own: on the
 * service thread a close would hold up every grant and reply. Nothing on the fast path records when a mapping was used:
 * a pass compares the acquire counts of its slots with those of the pass before.
 *
 * Owns the bound, the order of use and the closer thread. Closes by mapping_close() and record_retire() alone.
 */
#ifndef GPUB_CACHE_H
#define GPUB_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "mapping.h"

struct gpub_client;

/*
 * One pass comes to each mapping that exists when it begins, once, also when other passes go on while the lock is
 * released. Two passes of one scope close the same, so one may skip what the other has come to.
 */
struct cache_pass {
	enum cache_scope scope;
	uint64_t         number;
	bool             bounded; /* more was open than the bound allows when it began */
};

/* Begins a pass; then its next mapping, least recently used first where the bound counts. NULL: it has come to all. Locked. */
void cache_pass_begin(struct gpub_client *client, enum cache_scope scope, struct cache_pass *pass);
struct mapping *cache_pass_next(struct gpub_client *client, const struct cache_pass *pass);

/* A CACHE_ALL pass, which also retires unlinked buffers in mappings that are held. The first real error, else 0. Not locked. */
int cache_close_all(struct gpub_client *client);

/*
 * Before an acquire opens something: a CACHE_DUE pass, where more is open than the bound allows, or too many unused
 * timelines are mapped, and no closer thread sees to it. True: it gave the lock up meanwhile. Locked.
 */
bool cache_make_room(struct gpub_client *client);

/*
 * Retires unlinked buffers, as far as the device is known to be done with them, and closes what the broker wants back and whose close waits
 * for nothing. sync: asks the device about those that were
 * returned unordered. True: more of them can be retired later, without anybody's doing. Locked; releases the lock meanwhile.
 */
bool cache_retire(struct gpub_client *client, bool sync);

/* Waits for the end of the closer thread, once client->leaving is set. */
void cache_stop(struct gpub_client *client);

#endif
