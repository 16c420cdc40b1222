/* SPDX-License-Identifier: Apache-2.0 */
/* slot.c - see slot.h */
#include "slot.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/error.h"
#include "common/wiped.h"
#include "device/device.h"
#include "device/page.h"

#define WORDS_SIZE (SLOT_CHUNK * sizeof(uint64_t))

#define SPACE_SIZE (SLOTS_MAX * sizeof(struct slot))

/*
 * Reserves address space, without memory, for all slots. A forked child finds zeros there, so that it can neither renew
 * nor return a lease.
 */
static int pool_reserve(struct slot_arena *pool)
{
	void *space = wiped_map(SPACE_SIZE, PROT_NONE);

	if (!space)
		return error_set(-errno, "no memory for lease slots that a fork wipes: %m");
	pool->slot = space;
	return 0;
}

void slot_arena_wipe(struct slot_arena *pool)
{
	if (pool->slot)
		wiped_by_hand(pool->slot, SPACE_SIZE);
}

/*
 * Makes the next chunk of slots usable, and maps its words and registers them with the device. The kernel adds the
 * pages of the slots when they are used.
 */
static int chunk_make(struct slot_arena *pool, const struct device *device)
{
	struct slot *chunk;
	void *words;
	int error = pool->slot ? 0 : pool_reserve(pool);

	if (error)
		return error;
	chunk = pool->slot + pool->chunks * SLOT_CHUNK;
	if (mprotect(chunk, SLOT_CHUNK * sizeof *chunk, PROT_READ | PROT_WRITE))
		return error_set(-ENOMEM, "no memory for lease slots: %m");
	error = page_map(device->page_register, WORDS_SIZE, -1, true, &words);
	if (!error)
		pool->words[pool->chunks++] = words;
	return error;
}

int slot_arena_take(struct slot_arena *pool, const struct device *device, struct record *record, uint32_t count,
		    struct slot **slots)
{
	uint32_t first = atomic_load_explicit(&pool->used, memory_order_relaxed);
	int error;

	/* the slots must be adjacent, in one chunk */
	if (first % SLOT_CHUNK + count > SLOT_CHUNK)
		first = (first / SLOT_CHUNK + 1) * SLOT_CHUNK;
	if (first + count > SLOTS_MAX)
		return error_set(-ENOMEM, "one process can have %u leases at most: return some", SLOTS_MAX);
	if (first / SLOT_CHUNK == pool->chunks) {
		error = chunk_make(pool, device);
		if (error)
			return error;
	}
	*slots = &pool->slot[first];
	for (uint32_t i = first; i < first + count; i++) {
		pool->slot[i].word = &pool->words[i / SLOT_CHUNK][i % SLOT_CHUNK];
		pool->slot[i].record = record;
		pool->slot[i].index = i;
	}
	atomic_store_explicit(&pool->used, first + count, memory_order_release);
	return 0;
}
