/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - device memory that nobody has, kept zeroed and exported for whoever creates a buffer of that size next.
 *
 * Below the books: what is in here was freed as far as they know, and nobody is charged. Owns
 * the jobs that made the memory, each of which carries its address and handle. Gives everything back to the device when
 * that is out of memory, and when the broker stops.
 */
#ifndef GPUB_POOL_H
#define GPUB_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct broker;
struct job;
struct slab_kind;

/* A create that found the device without memory. It waits for what was on its way there then, and for nothing later. */
struct shortage {
	uint64_t         before; /* the number of the first release that came later */
	unsigned         left;   /* of those before it: on their way still */
	struct shortage *prev, *next;
};

struct pool {
	uint64_t         limit; /* bytes a device, those among them that the registry keeps mapped and idle */
	uint64_t         bytes[DEVICE_MAX];
	unsigned         releasing[DEVICE_MAX]; /* given back to the device, and not yet with it */
	struct shortage *shortages[DEVICE_MAX];
	uint64_t         next; /* release's number */
	unsigned         count;
	struct job      *jobs; /* the one that came last is first */
};

/* Would it keep that memory? */
bool pool_wants(const struct broker *broker, unsigned device, uint64_t span);

/* Does somebody wait for the device's memory, or the broker stop? Then nothing is kept, not even what was to be. */
bool pool_is_wanted(const struct broker *broker, unsigned device);

/*
 * The books let go of that memory: it is on its way to the device, or, where it is to be kept, is zeroed for this. Counted
 * from now on; pool_arrived() follows, or pool_forgo() first where it is not kept after all.
 */
void pool_coming(struct broker *broker, struct job *job, bool kept);
void pool_forgo(struct broker *broker, const struct job *job);
void pool_arrived(struct broker *broker, const struct job *job);

/* Takes over the job with its memory, which is zeroed and was counted when it was coming. */
void pool_put(struct broker *broker, struct job *job);

/*
 * Memory of exactly that size that had the same owner, group and mode, now the caller's; or NULL. Nobody else's: whoever
 * mapped it once knows its handle, which stays good as long as the memory is not given back to the device (invariant 6).
 */
struct job *pool_take(struct broker *broker, const struct slab_kind *kind, uint64_t span);

/* Has the device free what is beyond the limit, the oldest first. */
void pool_trim(struct broker *broker, unsigned device);

/* Has the device free all of it, and begins to count what is still on its way; until pool_suffices(). */
void pool_flush(struct broker *broker, unsigned device, struct shortage *shortage);
void pool_suffices(struct broker *broker, unsigned device, struct shortage *shortage);

/* At the broker's end, when the devices are not asked any more. */
void pool_forget(struct pool *pool);

#endif
