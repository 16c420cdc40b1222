/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h - slots, in which holds are published: one slot for each lease that is held at a time.
 *
 * A slot has two words. The threads of this process write `hold`: sequence << 2 | state. The GPU writes the sequence to
 * *word when a return in stream order lands. *word is in memory that the device may write; it is mapped MAP_SHARED and
 * MADV_DONTFORK so that a fork cannot move it. Each acquire takes a new sequence, so a comparison of sequences detects
 * a stale lease and a late GPU write. A slot has a cache line to itself, because another thread uses the next slot. A
 * slot belongs to one record and is never freed, so a stale token leads to valid memory. tests/model checks these
 * rules.
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
	_Atomic uint64_t *word;  /* the GPU writes here the sequence of each return in stream order when it lands */
	struct record    *record;
	_Atomic uint64_t  base;  /* sequences up to this one were taken for earlier buffers of the record */
	uint32_t          index; /* the slot's index in slot_arena.slot */
	_Atomic bool      unordered; /* a lease of the record's present buffer in this slot was returned unordered */
};

#define SLOT_STATE(hold)           ((enum slot_state)((hold) & 3))
#define SLOT_SEQUENCE(hold)        ((hold) >> 2)
#define SLOT_HOLD(sequence, state) ((uint64_t)(sequence) << 2 | (uint64_t)(state))

/* gpub_lease.token has the slot's index in the upper bits and the sequence of its hold in the lower bits. */
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

/*
 * Returns the value of slot->hold for the next lease: the sequence after that of `hold`, an idle slot's value, in state
 * SLOT_HELD. Sequences wrap around and skip 0.
 */
static inline uint64_t slot_take(uint64_t hold)
{
	uint64_t taken = (hold | SLOT_RETURNED) + 1 + SLOT_HELD;

	return __builtin_expect(taken >> (SLOT_SEQUENCE_BITS + 2) != 0, 0) ? SLOT_HOLD(1, SLOT_HELD) : taken;
}

/* Whether sequence `a` is later than sequence `b`, also if the sequences wrapped around between them. */
static inline bool slot_later(uint64_t a, uint64_t b)
{
	return (int64_t)((a - b) << SLOT_INDEX_BITS) > 0;
}

/*
 * Whether the slot is idle, if `hold` was read from slot->hold: no lease holds the slot, and its last return in stream
 * order has landed.
 */
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
 * Marks the slot's lease as returned unordered. Call it before the store that ends the hold, so that a thread that sees
 * the hold ended sees the mark. Stores without a test whether the mark is set, because the next store is to the same
 * cache line.
 */
static inline void slot_mark_unordered(struct slot *slot)
{
	atomic_store_explicit(&slot->unordered, true, memory_order_relaxed);
}

/*
 * Ends a hold that became no lease, or whose lease is ended by force. hold: its value of slot->hold. Does nothing if
 * slot->hold has another value by now, because another thread has ended the hold.
 */
static inline void slot_end(struct slot *slot, uint64_t hold)
{
	atomic_compare_exchange_strong(&slot->hold, &hold, SLOT_HOLD(SLOT_SEQUENCE(hold), SLOT_FREE));
}

/*
 * The slots of a client. Address space is reserved for SLOTS_MAX slots, so that a slot's index gives its address. The
 * space becomes usable one chunk at a time. A chunk's slots take 512 KiB, and their words, which are registered with
 * the device, 64 KiB.
 */
#define SLOT_CHUNK  8192 /* number of slots in a chunk */
#define SLOT_CHUNKS (SLOTS_MAX / SLOT_CHUNK)

struct slot_arena {
	struct slot     *slot; /* array of SLOTS_MAX slots; constant once `used` is not 0 */
	_Atomic uint32_t used; /* number of slots at the beginning of the array that records have taken or skipped */
	/* the members from here on are under client->lock */
	uint32_t          chunks; /* number of usable chunks */
	_Atomic uint64_t *words[SLOT_CHUNKS]; /* the array of words of each usable chunk's slots */
};

/*
 * Takes `count` new slots that are adjacent for the record. *slots: the first of them. Returns 0; -ENOMEM if too few of
 * the SLOTS_MAX slots are left; or the error of mapping memory, or of registering it with the device. Call it under
 * client->lock.
 */
int slot_arena_take(struct slot_arena *pool, const struct device *device, struct record *record, uint32_t count,
		    struct slot **slots);

/* For the child's atfork handler: zeroes the slots if the fork did not (wiped.h), so that no lease is valid. */
void slot_arena_wipe(struct slot_arena *pool);

/* Returns the slot with the index, which a lease's token may give, or NULL if there is none. Any thread may call it. */
static inline struct slot *slot_at(struct slot_arena *pool, uint32_t index)
{
	return index < atomic_load_explicit(&pool->used, memory_order_acquire) ? &pool->slot[index] : NULL;
}

#endif
