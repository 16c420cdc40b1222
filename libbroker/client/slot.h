/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h - slots, in which holds are published: one slot for each lease that is held at a time.
 *
 * A slot has two words. The threads of this process write hold: sequence << 2 | state. The GPU writes the sequence to
 * *word when a return in stream order lands; *word is in memory that the device may write, MAP_SHARED and
 * MADV_DONTFORK so that a fork cannot move it. Each acquire takes a new sequence, so a comparison detects a stale
 * lease and a late GPU write. A slot has a cache line to itself, because another thread uses the next slot. A slot
 * belongs to one record and is never freed, so a stale token leads to valid memory. tests/model checks the rules.
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
	_Alignas(64) _Atomic uint64_t hold;
	_Atomic uint64_t *word;  /* sequence of the last return that has landed; written by the GPU */
	struct record    *record;
	_Atomic uint64_t  base;  /* sequences up to this one belong to earlier buffers of the record */
	uint32_t          index; /* index in slot_arena.slot */
	_Atomic bool      unordered; /* a lease of the record's present buffer was returned unordered */
};

#define SLOT_STATE(hold)           ((enum slot_state)((hold) & 3))
#define SLOT_SEQUENCE(hold)        ((hold) >> 2)
#define SLOT_HOLD(sequence, state) ((uint64_t)(sequence) << 2 | (uint64_t)(state))

/* A lease's token: the slot's index in the upper bits, the sequence in the lower bits. */
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

/* Returns what an idle slot's hold becomes when it is taken: the next sequence, held. Sequences wrap and skip 0. */
static inline uint64_t slot_take(uint64_t hold)
{
	uint64_t taken = (hold | SLOT_RETURNED) + 1 + SLOT_HELD;

	return __builtin_expect(taken >> (SLOT_SEQUENCE_BITS + 2) != 0, 0) ? SLOT_HOLD(1, SLOT_HELD) : taken;
}

/* Whether sequence a is later than b, also across a wrap. */
static inline bool slot_later(uint64_t a, uint64_t b)
{
	return (int64_t)((a - b) << SLOT_INDEX_BITS) > 0;
}

/* Whether a slot with that hold is idle: no lease holds it, and its last return in stream order has landed. */
static inline bool slot_unused(const struct slot *slot, uint64_t hold)
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

/*
 * Notes an unordered return. Comes before the store that ends the hold, so that a thread that sees the hold ended
 * sees the mark. Stored without a test, because the next store is to the same cache line.
 */
static inline void slot_mark_unordered(struct slot *slot)
{
	atomic_store_explicit(&slot->unordered, true, memory_order_relaxed);
}

/*
 * Ends a hold that became no lease, or whose lease is ended by force. Does nothing if the slot has another hold by
 * now, because another thread has ended this one.
 */
static inline void slot_end(struct slot *slot, uint64_t hold)
{
	atomic_compare_exchange_strong(&slot->hold, &hold, SLOT_HOLD(SLOT_SEQUENCE(hold), SLOT_FREE));
}

/* The pool: address space for all slots, so that an index is an offset. It becomes usable one chunk at a time. */
#define SLOT_CHUNK  8192 /* slots of a chunk: 512 KiB, and 64 KiB of words, registered with the device together */
#define SLOT_CHUNKS (SLOTS_MAX / SLOT_CHUNK)

struct slot_arena {
	struct slot     *slot; /* SLOTS_MAX slots; constant once used is not 0 */
	_Atomic uint32_t used; /* number of slots that were taken so far */
	/* under the client's lock */
	uint32_t          chunks; /* number of usable chunks */
	_Atomic uint64_t *words[SLOT_CHUNKS]; /* by chunk: the words of its slots */
};

/*
 * Takes adjacent new slots, `count` of them, for the record; *slots is the first. -ENOMEM: all SLOTS_MAX are used; or
 * the error of registering memory with the device. Under client->lock.
 */
int slot_arena_take(struct slot_arena *pool, const struct device *device, struct record *record, uint32_t count,
		    struct slot **slots);

/* For an atfork handler, in the child: zeroes the slots if the fork did not (wiped.h): no lease is valid. */
void slot_arena_wipe(struct slot_arena *pool);

/* The slot with an index that a lease gives, or NULL if there is no such slot. Any thread. */
static inline struct slot *slot_at(struct slot_arena *pool, uint32_t index)
{
	return index < atomic_load_explicit(&pool->used, memory_order_acquire) ? &pool->slot[index] : NULL;
}

#endif
