/* SPDX-License-Identifier: Apache-2.0 */
/* slot.c - see slot.h */
#include "slot.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/error.h"
#include "device/device.h"

#define WORDS_SIZE (SLOT_CHUNK * sizeof(uint64_t))

/* Never unmapped or unregistered before exit: a late GPU write must always find it. */
static int words_make(const struct device *device, _Atomic uint64_t **words)
{
	void *page = mmap(NULL, WORDS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int error;

	if (page == MAP_FAILED)
		return error_set(-ENOMEM, "no memory for lease slots: %m");
	error = madvise(page, WORDS_SIZE, MADV_DONTFORK) ? error_set(-errno, "lease slots cannot be kept from forks: %m") :
							   device->page_register(page, WORDS_SIZE, true);
	if (error)
		munmap(page, WORDS_SIZE);
	else
		*words = page;
	return error;
}

static int chunk_make(struct slot_pool *pool, const struct device *device, uint32_t number)
{
	struct slot *chunk = calloc(SLOT_CHUNK, sizeof *chunk);
	_Atomic uint64_t *words = NULL;
	int error;

	if (!chunk)
		return error_set(-ENOMEM, "no memory for lease slots");
	error = words_make(device, &words);
	if (error) {
		free(chunk);
		return error;
	}
	for (uint32_t i = 0; i < SLOT_CHUNK; i++)
		chunk[i].word = &words[i];
	atomic_store_explicit(&pool->chunk[number], chunk, memory_order_release);
	return 0;
}

int slot_pool_take(struct slot_pool *pool, const struct device *device, struct record *record, uint32_t count,
		   uint32_t *index)
{
	uint32_t first = pool->used, number;
	struct slot *slot;
	int error;

	/* adjacent slots lie in one chunk */
	if (first % SLOT_CHUNK + count > SLOT_CHUNK)
		first = (first / SLOT_CHUNK + 1) * SLOT_CHUNK;
	if (first + count > SLOTS_MAX)
		return error_set(-ENOMEM, "%u leases are the most one process can have: return some", SLOTS_MAX);
	number = first / SLOT_CHUNK;
	if (!atomic_load_explicit(&pool->chunk[number], memory_order_relaxed)) {
		error = chunk_make(pool, device, number);
		if (error)
			return error;
	}
	slot = slot_at(pool, first);
	for (uint32_t i = 0; i < count; i++)
		slot[i].record = record;
	pool->used = first + count;
	*index = first;
	return 0;
}
