/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - holds: how a record's slots are taken and become leases, and what a closer finds in them.
 *
 * Owns the slots' states between lease.c, which ends holds, and close.c, which looks for them. Takes no lock and makes no
 * system call, record_grow() apart. A thread begins with a slot of its own number, so that threads which share a buffer
 * do not share a cache line as long as there are slots for all.
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
 * Publishes a hold in a slot of the record that was idle with that hold, and checks that it took: 0 and the token;
 * -EAGAIN: somebody else has the slot; -ESTALE: the record is not mapped, or its buffer not live any more. Any thread.
 *
 * The closer stores CLOSING, then loads every hold; here a hold is stored, then CLOSING looked for. All four are
 * sequentially consistent, so that one of the two sees the other, without a fence beside the exchange.
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

/* The same in any slot, beginning where the last one was found. -EAGAIN: all are busy (record_grow() helps). */
int record_hold_any(struct record *record, uint64_t *token);

/* This thread's number, counted from 0 as threads come. */
uint32_t hold_thread(void);

/* The thread's own slot of the last block, which has more than half of all. NULL: there is none. */
static inline struct slot *hold_slot(const struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);
	struct slot *slot = atomic_load_explicit(&record->last, memory_order_acquire);

	return slot ? slot + (hold_thread() & ((SLOTS_FIRST << blocks >> 1) - 1)) : NULL;
}

/* Has the lines on their way that record_hold_at() would otherwise wait for one after the other. */
static inline void hold_prefetch(const struct record *record, const struct slot *slot)
{
	__builtin_prefetch(slot, 1);
	__builtin_prefetch((const void *)atomic_load_explicit(&record->generation, memory_order_relaxed));
}

/* The same in that slot, hold_slot()'s, or in any. */
static inline int record_hold_at(struct record *record, struct slot *slot, uint64_t *token)
{
	uint64_t hold;
	int error = -EAGAIN;

	if (!slot)
		return -ESTALE;
	hold = atomic_load_explicit(&slot->hold, memory_order_acquire);
	if (slot_idle(slot, hold))
		error = record_hold_in(record, slot, hold, token);
	return error == -EAGAIN ? record_hold_any(record, token) : error;
}

static inline int record_hold(struct record *record, uint64_t *token)
{
	return record_hold_at(record, hold_slot(record), token);
}

/* True when every slot is idle; *held says whether one of those that are not is held by a lease. */
bool record_idle(const struct record *record, bool *held);

/*
 * True where each lease of its present buffer that was returned was returned in stream order: behind a record_idle()
 * that said true, all of its device work is over then. A plain return says nothing of the device.
 */
bool record_quiesced(const struct record *record);

/* How often its slots were taken so far, tries among them: a number that changes whenever one is. */
uint64_t record_acquire_count(const struct record *record);

/* Ends every hold, as gpub_return() does: at disconnect. */
void record_drop_holds(struct record *record);

/*
 * The same where the mapping is gone. A return in stream order is not waited for, and keeps its slot until it lands, which may
 * be never: a sequence that lands behind a later one of its slot would hide that one for good. False: a thread is about to
 * queue one; again then. Locked.
 */
bool record_drop_all(struct record *record);

/* Leases of the buffer that it stood for are stale from here on. Locked. */
void record_invalidate(struct record *record);

/* Fills a lease from a record that the hold of that token pins. */
static inline void lease_fill(gpub_lease *lease, struct gpub_client *client, const struct record *record, unsigned rights,
			      uint64_t token)
{
	lease->ptr = record->ptr;
	lease->size = record->size;
	lease->device = record->lease_device;
	lease->rights = rights;
	lease->token = token;
	lease->client = client;
	CRASH_POINT(acquired);
}

/* Whether the record's buffer gives those rights and is that owner's, or anybody's where GPUB_ANY_USER. -EACCES, -EPERM. */
int lease_expect(const struct record *record, uint32_t owner, unsigned rights);

/* Gives back a hold that was taken and is not to be a lease. */
void lease_undo(struct gpub_client *client, uint64_t token);

#endif
