/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h - where a hold is published: one slot for each lease that is out at a time.
 *
 * A slot is two words: hold, written by the threads of this process, and word, written by the GPU when a
 * return in stream order got there (memory that the device may write, MAP_SHARED so that a fork cannot move
 * it, MADV_DONTFORK). hold = sequence << 2 | state; the sequence changes with every take, so that a stale lease
 * and a late GPU write are both told by comparing it. Slots belong to one record for ever and are never freed,
 * so a stale token leads to valid memory. The rules are checked in tests/model.
 */
#ifndef GPUB_SLOT_H
#define GPUB_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct record;

enum slot_state { SLOT_FREE = 0, SLOT_HELD = 1, SLOT_RETURNING = 2, SLOT_RETURNED = 3 };

struct slot {
	_Atomic uint64_t  hold;
	_Atomic uint64_t *word;
	struct record    *record;
	_Atomic uint64_t  base; /* sequences up to it belong to an earlier buffer of the record */
};

#define SLOT_STATE(hold)         ((enum slot_state)((hold) & 3))
#define SLOT_SEQUENCE(hold)      ((hold) >> 2)
#define SLOT_HOLD(sequence, state) ((uint64_t)(sequence) << 2 | (uint64_t)(state))

/* A lease's token: which slot, and which of its sequences. */
#define SLOT_INDEX_BITS    20
#define SLOT_SEQUENCE_BITS (64 - SLOT_INDEX_BITS)
#define SLOTS_MAX          (1u << SLOT_INDEX_BITS)

static inline uint64_t slot_token(uint32_t index, uint64_t sequence)
{
	return (uint64_t)index << SLOT_SEQUENCE_BITS | (sequence & ((1ull << SLOT_SEQUENCE_BITS) - 1));
}

static inline uint32_t token_index(uint64_t token)
{
	return (uint32_t)(token >> SLOT_SEQUENCE_BITS);
}

static inline uint64_t token_sequence(uint64_t token)
{
	return token & ((1ull << SLOT_SEQUENCE_BITS) - 1);
}

/* They wrap after 2^44 takes of one slot, days of nothing else, and leave out 0. */
static inline uint64_t slot_next(uint64_t sequence)
{
	sequence = (sequence + 1) & ((1ull << SLOT_SEQUENCE_BITS) - 1);
	return sequence ? sequence : 1;
}

/* Is a later than b, where they may have wrapped between? */
static inline bool slot_later(uint64_t a, uint64_t b)
{
	return (int64_t)((a - b) << SLOT_INDEX_BITS) > 0;
}

/* No lease has it, or the GPU has landed the return that it waits for. */
static inline bool slot_idle(const struct slot *slot, uint64_t hold)
{
	switch (SLOT_STATE(hold)) {
	case SLOT_FREE:
		return true;
	case SLOT_RETURNED:
		return atomic_load_explicit(slot->word, memory_order_acquire) == SLOT_SEQUENCE(hold);
	default:
		return false;
	}
}

#define SLOT_CHUNK       8192 /* slots of one chunk: 64 KiB of words, registered with the device at once */
#define SLOT_CHUNKS      (SLOTS_MAX / SLOT_CHUNK)

struct slot_pool {
	struct slot *_Atomic chunk[SLOT_CHUNKS];
	uint32_t used; /* under the client's lock */
};

/*
 * count adjacent new slots for the record; their first index is put in *index. -ENOMEM when there are
 * SLOTS_MAX, or what registering memory with the device fails with. Called under the client's lock.
 */
int slot_pool_take(struct slot_pool *pool, const struct device *device, struct record *record, uint32_t count,
		   uint32_t *index);

/* The slot of an index that a lease carries, or NULL where there is none. Any thread. */
static inline struct slot *slot_at(struct slot_pool *pool, uint32_t index)
{
	struct slot *chunk = atomic_load_explicit(&pool->chunk[index / SLOT_CHUNK], memory_order_acquire);

	return chunk ? &chunk[index % SLOT_CHUNK] : NULL;
}

#endif
