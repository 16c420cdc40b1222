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

/* Adds the next block of slots. -ENOMEM: the record has all blocks, or no slots are left. Under client->lock. */
int record_grow(struct gpub_client *client, struct record *record);

static inline bool record_live(const struct record *record)
{
	return RECORD_STATE(atomic_load(&record->state)) == RECORD_OPEN &&
	       atomic_load_explicit(atomic_load_explicit(&record->generation, memory_order_relaxed),
				    memory_order_acquire) == record->live;
}

/*
 * Takes an idle slot: publishes a hold in it, then checks that the record may be held. hold: the value that the slot
 * had when it was seen idle. Returns 0 and *token; -EAGAIN if the slot has another value by now; -ESTALE if the
 * record is not OPEN, or its buffer not live. Any thread.
 *
 * A close stores CLOSING, then loads every hold. This function stores a hold, then loads the state. All four accesses
 * are sequentially consistent, so one of the two threads sees the other's store, without a fence beside the exchange.
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

/* As record_hold_in(), in any idle slot of the record. -EAGAIN: all slots are busy (record_grow() adds some). */
int record_hold_any(struct record *record, uint64_t *token);

/* This thread's number: threads are numbered from 0 in the order of their first calls. */
uint32_t hold_thread(void);

/* The slot that this thread tries first, in the last block, which has more than half of all. NULL: no slots. */
static inline struct slot *hold_slot(const struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);
	struct slot *slot = atomic_load_explicit(&record->last, memory_order_acquire);

	return slot ? slot + (hold_thread() & ((SLOTS_FIRST << blocks >> 1) - 1)) : NULL;
}

/* Prefetches the cache lines that record_hold_at() would otherwise wait for one after the other. */
static inline void hold_prefetch(const struct record *record, const struct slot *slot)
{
	__builtin_prefetch(slot, 1);
	__builtin_prefetch((const void *)atomic_load_explicit(&record->generation, memory_order_relaxed));
}

/* As record_hold_in(), in the slot that hold_slot() returned or, if that slot is busy, in any slot. */
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

/* True if every slot is idle. *held: a lease holds one of the busy slots, or a thread is returning it. */
bool record_unused(const struct record *record, bool *held);

/*
 * True if each returned lease of the record's present buffer was returned in stream order. If record_unused() was
 * true before, all device work of the buffer is done then. An unordered return says nothing about the device.
 */
bool record_quiesced(const struct record *record);

/* The sum of the slots' sequences: it changes whenever a slot is taken, also by a hold that is undone. */
uint64_t record_acquire_count(const struct record *record);

/* At disconnect: ends every hold of the record, as gpub_return() does. */
void record_drop_holds(struct record *record);

/*
 * After a reset has closed the mapping: ends every hold of the record. A slot whose return in stream order has not
 * landed stays busy, perhaps for ever: if a later lease used the slot, the late write would hide that lease's own
 * return for good. False: a thread is about to queue a return, so the caller tries again. Under client->lock.
 */
bool record_drop_all(struct record *record);

/* Makes all leases of the record so far stale, before the record serves another buffer. Under client->lock. */
void record_invalidate(struct record *record);

/* Fills in a lease of the record. token: of a hold, which keeps the record as it is. ptr: from record_ptr(). */
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

/* Those of the given rights that leases of the record may not have. 0: all are allowed. */
static inline unsigned record_lacks(const struct record *record, unsigned rights)
{
	return rights & ~atomic_load_explicit(&record->rights, memory_order_relaxed);
}

/* The buffer's address for leases with these rights. NULL: the rights or the view are not available yet. */
static inline void *record_ptr(const struct record *record, unsigned rights)
{
	return record_lacks(record, rights) ? NULL :
					      atomic_load_explicit(&record->ptr[view_of(rights)], memory_order_relaxed);
}

/* Whether the hold has not ended. A reset ends holds, then stores the epoch: check client_was_reset() first. */
static inline bool hold_stands(const struct slot *slot, uint64_t token)
{
	return atomic_load_explicit(&slot->hold, memory_order_relaxed) == SLOT_HOLD(token_sequence(token), SLOT_HELD);
}

/*
 * Checks the record's buffer: owner and layout against `expected` (NULL: any), and the owner if rights have
 * GPUB_MINE. Returns 0; -EPERM: another owner; -EMEDIUMTYPE: another layout.
 */
int lease_expect(const struct record *record, const gpub_expectation *expected, unsigned rights);

/* Ends a hold that was taken and does not become a lease. */
void lease_undo(struct gpub_client *client, uint64_t token);

#endif
