/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - holds: takes a record's slots for leases, and tells a close which slots are in use.
 *
 * Owns the slots' states between lease.c, which ends holds, and close.c, which scans them. Takes no lock and makes no
 * system call, except in record_grow(). A thread first tries the slot of its own thread number, so threads that share
 * a buffer do not share a cache line while there are slots for all.
 */
#ifndef GPUB_HOLD_H
#define GPUB_HOLD_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/crash-point.h"
#include "gpubroker.h"
#include "record.h"
#include "slot.h"

/*
 * Adds the next block of slots to the record. -ENOMEM, error message set: the record has SLOT_BLOCKS blocks. Or the
 * error of slot_arena_take(). Call it under client->lock.
 */
int record_grow(struct gpub_client *client, struct record *record);

/* Whether the record is OPEN and its buffer was not unlinked, renamed or resized. */
static inline bool record_live(const struct record *record)
{
	return RECORD_STATE(atomic_load(&record->state)) == RECORD_OPEN &&
	       atomic_load_explicit(atomic_load_explicit(&record->generation, memory_order_relaxed),
				    memory_order_acquire) == record->live;
}

/*
 * Takes an idle slot: publishes a hold in the slot, then checks that the record may be held. hold: the value that
 * slot->hold had when the slot was seen idle. Returns 0 and *token; -EAGAIN if slot->hold has another value by now;
 * -ESTALE if record_live() is false. Any thread may call it.
 *
 * A close stores the state CLOSING, then loads every hold. This function stores a hold, then loads the state. All four
 * accesses are sequentially consistent, so at least one of the two threads sees the other's store. The exchange is
 * enough for that; no fence is needed here.
 */
static inline int record_hold_in(struct record *record, struct slot *slot, uint64_t hold, uint64_t *token)
{
	uint64_t taken = slot_take(hold);

	if (!atomic_compare_exchange_strong(&slot->hold, &hold, taken))
		return -EAGAIN;
	CRASH_POINT(hold_published);
	if (__builtin_expect(!record_live(record), 0)) {
		slot_end(slot, taken);
		CRASH_POINT(hold_undone);
		return -ESTALE;
	}
	CRASH_POINT(hold_checked);
	*token = slot_token(slot->index, SLOT_SEQUENCE(taken));
	return 0;
}

/* As record_hold_in(), in any idle slot of the record. -EAGAIN: all its slots are busy (record_grow() adds slots). */
int record_hold_any(struct record *record, uint64_t *token);

/*
 * Returns the calling thread's number. Threads are numbered from 0, in the order of their first calls of this function.
 */
uint32_t hold_thread(void);

/*
 * Returns the slot that this thread tries first. It is in the record's last block, which has more than half of the
 * record's slots. NULL: the record has no slots.
 */
static inline struct slot *hold_slot(const struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);
	struct slot *slot = atomic_load_explicit(&record->last, memory_order_acquire);

	return slot ? slot + (hold_thread() & ((SLOTS_FIRST << blocks >> 1) - 1)) : NULL;
}

/*
 * Prefetches the cache lines of the slot and of the buffer's board word, so that record_hold_at() does not wait twice.
 */
static inline void hold_prefetch(const struct record *record, const struct slot *slot)
{
	__builtin_prefetch(slot, 1);
	__builtin_prefetch((const void *)atomic_load_explicit(&record->generation, memory_order_relaxed));
}

/*
 * As record_hold_in(), in the slot that hold_slot() returned or, if that slot is busy, in any idle slot of the record.
 */
static inline int record_hold_at(struct record *record, struct slot *slot, uint64_t *token)
{
	uint64_t hold;
	int error = -EAGAIN;

	if (!slot)
		return -ESTALE;
	hold = atomic_load_explicit(&slot->hold, memory_order_acquire);
	if (slot_unused(slot, hold))
		error = record_hold_in(record, slot, hold, token);
	return error == -EAGAIN ? record_hold_any(record, token) : error;
}

static inline int record_hold(struct record *record, uint64_t *token)
{
	return record_hold_at(record, hold_slot(record), token);
}

/*
 * As record_hold(), but adds slots to the record if all its slots are busy. Returns 0 and *token; -ESTALE if
 * record_live() is false; or the error of record_grow(). Call it under client->lock.
 */
int record_hold_growing(struct gpub_client *client, struct record *record, uint64_t *token);

/*
 * Whether every slot of the record is idle, or waits only for a return of an earlier buffer to land. *held: whether a
 * lease holds one of the busy slots, or a thread is returning such a lease; false: the busy slots only wait for returns
 * in stream order to land.
 */
bool record_unused(const struct record *record, bool *held);

/*
 * Whether each returned lease of the record's present buffer was returned in stream order. If so, and record_unused()
 * was true before, all device work on the buffer is done. An unordered return does not show that device work is done.
 */
bool record_quiesced(const struct record *record);

/* Returns the sum of the slots' sequences, which changes whenever a slot is taken, also by a hold that is undone. */
uint64_t record_acquire_count(const struct record *record);

/* For a disconnect: ends every hold of the record, as gpub_return() does. */
void record_drop_holds(struct record *record);

/*
 * After a reset of the device: ends every hold of the record. A slot whose return in stream order has not landed stays
 * busy, perhaps for ever, because the late write of that return could hide the return of a later lease in the slot.
 * False: a thread is about to queue a return in stream order, so the caller tries again. Call it under client->lock.
 */
bool record_drop_all(struct record *record);

/*
 * Makes all leases that the record has given so far stale, before the record serves another buffer. Call it under
 * client->lock.
 */
void record_invalidate(struct record *record);

/*
 * Fills in *lease for a hold of the record. token: names the hold, which keeps the record as it is. ptr: record_ptr().
 */
static inline void lease_fill(gpub_lease *lease, struct gpub_client *client, const struct record *record, void *ptr,
			      unsigned rights, uint64_t token)
{
	lease->ptr = ptr;
	lease->size = record->size;
	lease->device = record->lease_device;
	lease->rights = rights;
	lease->token = token;
	lease->client = client;
	CRASH_POINT(acquired);
}

/* Returns those of `rights` that leases of the record may not have; 0 if they may have all. */
static inline unsigned record_lacks(const struct record *record, unsigned rights)
{
	return rights & ~atomic_load_explicit(&record->rights, memory_order_relaxed);
}

/*
 * Returns the buffer's address for leases with these rights. NULL: leases may not have the rights yet, or since a seal,
 * or the view that they need is not mapped yet.
 */
static inline void *record_ptr(const struct record *record, unsigned rights)
{
	return record_lacks(record, rights) ? NULL :
					      atomic_load_explicit(&record->ptr[view_of(rights)], memory_order_relaxed);
}

/*
 * Whether the hold that the token names has not ended. A reset first ends holds, then stores the new epoch, so check
 * client_was_reset() before this.
 */
static inline bool hold_stands(const struct slot *slot, uint64_t token)
{
	return atomic_load_explicit(&slot->hold, memory_order_relaxed) == SLOT_HOLD(token_sequence(token), SLOT_HELD);
}

/*
 * Compares owner and layout of the record's buffer with `expected` (NULL: any owner and layout). If rights have
 * GPUB_MINE, also checks that the owner is this user, root or the broker's user. Returns 0; -EPERM if the owner is not
 * as demanded; -EMEDIUMTYPE if the layout is not.
 */
int lease_expect(const struct record *record, const gpub_expectation *expected, unsigned rights);

/* Ends the hold that the token names, which does not become a lease. */
void lease_undo(struct gpub_client *client, uint64_t token);

#endif
