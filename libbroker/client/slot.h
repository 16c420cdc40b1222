/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h - where a hold is published: one slot for each lease that is held at a time.
 *
 * A slot has two words. The threads of this process write hold. The GPU writes word when a return in stream order
 * lands; that is memory that the device may write, MAP_SHARED so that a fork cannot move it, MADV_DONTFORK. hold =
 * sequence << 2 | state. Each acquire takes a new sequence, so comparing it detects a stale lease and a late GPU write.
 * A slot has a cache line to itself, because another thread uses the next one. A slot belongs to one record and is
 * never freed, so a stale token leads to valid memory. The rules are checked in tests/model.
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
	_Atomic uint64_t *word;
	struct record    *record;
	_Atomic uint64_t  base;  /* sequences up to it belong to an earlier buffer of the record */
	uint32_t          index; /* in the pool */
	_Atomic bool      unordered; /* a lease of the record's present buffer was returned, and not in stream order */
};

#define SLOT_STATE(hold)           ((enum slot_state)((hold) & 3))
#define SLOT_SEQUENCE(hold)        ((hold) >> 2)
#define SLOT_HOLD(sequence, state) ((uint64_t)(sequence) << 2 | (uint64_t)(state))

/* A lease's token: the slot's index, and the sequence. */
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

/* What an idle slot's hold becomes when it is taken: the next sequence. Sequences wrap after 2^44 and skip 0. */
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

/* No lease holds it, and no return is on its way. */
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
 * Before the release of the hold, so that its reader sees it. Stored unconditionally: the next store is to the same cache line.
 */
static inline void slot_mark_unordered(struct slot *slot)
{
	atomic_store_explicit(&slot->unordered, true, memory_order_relaxed);
}

/*
 * Ends a hold that is not a lease, or no longer. Another thread may have ended it meanwhile, and a third may have taken
 * the slot.
 */
static inline void slot_end(struct slot *slot, uint64_t hold)
{
	atomic_compare_exchange_strong(&slot->hold, &hold, SLOT_HOLD(SLOT_SEQUENCE(hold), SLOT_FREE));
}

/* The pool: address space for all slots, so that an index is an offset; made usable a chunk at a time. */
#define SLOT_CHUNK  8192 /* slots: 512 KiB, and 64 KiB of words, registered with the device at once */
#define SLOT_CHUNKS (SLOTS_MAX / SLOT_CHUNK)

struct slot_arena {
	struct slot     *slot; /* SLOTS_MAX of them; fixed once used is not 0 */
	_Atomic uint32_t used;
	/* under the client's lock */
	uint32_t          chunks;
	_Atomic uint64_t *words[SLOT_CHUNKS];
};

/*
 * count adjacent new slots for the record; *slots is the first. -ENOMEM: all SLOTS_MAX are used; or the error of
 * registering memory with the device. Called under the client's lock.
 */
int slot_arena_take(struct slot_arena *pool, const struct device *device, struct record *record, uint32_t count,
		    struct slot **slots);

/* For an atfork handler, in the child: it must find no lease (wiped.h). */
void slot_arena_wipe(struct slot_arena *pool);

/* The slot of an index from a lease, or NULL: there is none. Any thread. */
static inline struct slot *slot_at(struct slot_arena *pool, uint32_t index)
{
	return index < atomic_load_explicit(&pool->used, memory_order_acquire) ? &pool->slot[index] : NULL;
}

#endif
