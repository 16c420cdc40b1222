/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - holds: how a record's slots are taken and become leases, and what a close finds in them.
 *
 * Owns the slots' states between lease.c, which ends holds, and close.c, which scans them. Takes no lock and makes no
 * system call, except in record_grow(). A thread starts at the slot of its own number, so threads that share a buffer
 * do not share a cache line while there are slots for all.
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

/* Adds the next block of slots. -ENOMEM when it has all. Locked. */
int record_grow(struct gpub_client *client, struct record *record);

static inline bool record_live(const struct record *record)
{
	return RECORD_STATE(atomic_load(&record->state)) == RECORD_OPEN &&
	       atomic_load_explicit(atomic_load_explicit(&record->generation, memory_order_relaxed), memory_order_acquire) ==
		       record->live;
}

/*
 * Publishes a hold in a slot of the record, which was idle with the given hold, and checks that the record may be held. 0 and
 * the token; -EAGAIN: another thread has the slot; -ESTALE: the record is not mapped, or its buffer is not live. Any thread.
 *
 * A close stores CLOSING, then loads every hold. This function stores a hold, then loads the state. All four accesses are
 * sequentially consistent, so one of the two sees the other, without a fence beside the exchange.
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

/* The same in any slot, starting where the last free one was found. -EAGAIN: all are busy (record_grow() helps). */
int record_hold_any(struct record *record, uint64_t *token);

/* This thread's number: threads are numbered from 0 in the order in which they first call. */
uint32_t hold_thread(void);

/* The thread's own slot in the last block, which has more than half of all slots. NULL: there is none. */
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

/* record_hold_in() in that slot, which is hold_slot()'s, else in any. */
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

/* True if every slot is idle. *held: a lease holds one of those that are not. */
bool record_unused(const struct record *record, bool *held);

/*
 * True if each returned lease of its present buffer was returned in stream order. After record_unused() was true, that
 * means that all of the buffer's device work is done. An unordered return says nothing about the device.
 */
bool record_quiesced(const struct record *record);

/* How often its slots were taken, also by holds that were undone: it changes whenever one is taken. */
uint64_t record_acquire_count(const struct record *record);

/* Ends every hold, as gpub_return() does: at disconnect. */
void record_drop_holds(struct record *record);

/*
 * The same when a reset has closed the mapping. A return in stream order keeps its slot until it lands, which may never
 * happen: if it landed after a later sequence of its slot, it would hide that one for good. False: a thread is about to
 * queue a return: try again. Locked.
 */
bool record_drop_all(struct record *record);

/* Makes the leases of its previous buffer stale. Locked. */
void record_invalidate(struct record *record);

/* Fills a lease from a record, which the hold of that token pins. ptr: as record_ptr() gave it. */
static inline void lease_fill(gpub_lease *lease, struct gpub_client *client, const struct record *record, void *ptr, unsigned rights,
			      uint64_t token)
{
	lease->ptr = ptr;
	lease->size = record->size;
	lease->device = record->lease_device;
	lease->rights = rights;
	lease->token = token;
	lease->client = client;
	CRASH_POINT(acquired);
}

/* The rights of those that leases of the record may not have. */
static inline unsigned record_lacks(const struct record *record, unsigned rights)
{
	return rights & ~atomic_load_explicit(&record->rights, memory_order_relaxed);
}

/* The buffer for leases with these rights. NULL: it has yet to be granted, or mapped, for them. */
static inline void *record_ptr(const struct record *record, unsigned rights)
{
	return record_lacks(record, rights) ? NULL : atomic_load_explicit(&record->ptr[view_of(rights)], memory_order_relaxed);
}

/* client_notice_reset() ends all holds, then stores the epoch: so this check comes after client_was_reset(). */
static inline bool hold_stands(const struct slot *slot, uint64_t token)
{
	return atomic_load_explicit(&slot->hold, memory_order_relaxed) == SLOT_HOLD(token_sequence(token), SLOT_HELD);
}

/* Whether the record's buffer is as expected (NULL: whatever it is), and the owner's that rights demand. -EPERM, -EMEDIUMTYPE. */
int lease_expect(const struct record *record, const gpub_expectation *expected, unsigned rights);

/* Gives back a hold that was taken and does not become a lease. */
void lease_undo(struct gpub_client *client, uint64_t token);

#endif
