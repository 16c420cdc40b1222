/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c - see hold.h */
#include "hold.h"

#include "client.h"
#include "common/error.h"
#include "common/layout.h"

int record_grow(struct gpub_client *client, struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_relaxed);
	struct slot *slots;
	int error;

	if (blocks == SLOT_BLOCKS)
		return error_set(-ENOMEM, "%u leases of '%s' are held or being returned: wait for some",
				 (SLOTS_FIRST << SLOT_BLOCKS) - SLOTS_FIRST, record_title(record));
	error = slot_arena_take(&client->slots, client->device, record, SLOTS_FIRST << blocks, &slots);
	if (error)
		return error;
	record->block[blocks] = slots;
	atomic_store_explicit(&record->last, slots, memory_order_release);
	atomic_store_explicit(&record->blocks, blocks + 1, memory_order_release);
	return 0;
}

/*
 * Returns the record's slot with the number `number`. Slots are numbered through all blocks of the record: block b
 * begins with number SLOTS_FIRST * (2^b - 1).
 */
static struct slot *slot_number(const struct record *record, uint32_t number)
{
	uint32_t block = 31 - (uint32_t)__builtin_clz(number / SLOTS_FIRST + 1);

	return &record->block[block][number - (SLOTS_FIRST << block) + SLOTS_FIRST];
}

static uint32_t slot_count(const struct record *record)
{
	return (SLOTS_FIRST << atomic_load_explicit(&record->blocks, memory_order_acquire)) - SLOTS_FIRST;
}

int record_hold_any(struct record *record, uint64_t *token)
{
	uint32_t count = slot_count(record);
	uint32_t at = atomic_load_explicit(&record->cursor, memory_order_relaxed);

	for (uint32_t tries = 0; tries < count; tries++, at++) {
		struct slot *slot = slot_number(record, at >= count ? at %= count : at);
		uint64_t hold = atomic_load_explicit(&slot->hold, memory_order_acquire);
		int error = slot_unused(slot, hold) ? record_hold_in(record, slot, hold, token) : -EAGAIN;

		if (error == -EAGAIN)
			continue;
		if (atomic_load_explicit(&record->cursor, memory_order_relaxed) != at)
			atomic_store_explicit(&record->cursor, at, memory_order_relaxed);
		return error;
	}
	return -EAGAIN;
}

int record_hold_growing(struct gpub_client *client, struct record *record, uint64_t *token)
{
	int error;

	while ((error = record_hold(record, token)) == -EAGAIN) {
		error = record_grow(client, record);
		if (error)
			break;
	}
	return error;
}

uint32_t hold_thread(void)
{
	static _Atomic uint32_t threads;
	static _Thread_local uint32_t number; /* the thread's number plus 1; 0: not numbered yet */

	if (__builtin_expect(!number, 0))
		number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
	return number - 1;
}

/* A loop over all slots of the record. */
#define EACH_SLOT(record, slot)                                                              \
	for (uint32_t number_ = 0, count_ = slot_count(record); number_ < count_; number_++) \
		for (struct slot *slot = slot_number(record, number_); slot; slot = NULL)

/*
 * Whether the slot waits for a return of an earlier buffer of the record, whose mapping a reset closed before the
 * return landed. The return may still land, from a stream of another device or context. Until then no thread takes the
 * slot, and its sequence equals slot->base. Such a slot does not keep the record's present buffer from being closed.
 */
static bool slot_outlives(const struct slot *slot, uint64_t hold)
{
	return SLOT_STATE(hold) == SLOT_RETURNED && SLOT_SEQUENCE(hold) == atomic_load(&slot->base);
}

bool record_unused(const struct record *record, bool *held)
{
	bool idle = true;

	*held = false;
	EACH_SLOT(record, slot) {
		uint64_t hold = atomic_load(&slot->hold);

		if (slot_unused(slot, hold) || slot_outlives(slot, hold))
			continue;
		idle = false;
		*held |= SLOT_STATE(hold) != SLOT_RETURNED;
	}
	return idle;
}

bool record_quiesced(const struct record *record)
{
	EACH_SLOT(record, slot)
		if (atomic_load_explicit(&slot->unordered, memory_order_relaxed))
			return false;
	return true;
}

uint64_t record_acquire_count(const struct record *record)
{
	uint64_t count = 0;

	EACH_SLOT(record, slot)
		count += SLOT_SEQUENCE(atomic_load(&slot->hold));
	return count;
}

void record_drop_holds(struct record *record)
{
	EACH_SLOT(record, slot) {
		uint64_t hold = atomic_load(&slot->hold);

		if (SLOT_STATE(hold) != SLOT_HELD)
			continue;
		slot_mark_unordered(slot);
		slot_end(slot, hold);
	}
}

bool record_drop_all(struct record *record)
{
	bool all = true;

	EACH_SLOT(record, slot) {
		uint64_t hold = atomic_load(&slot->hold);

		all &= SLOT_STATE(hold) != SLOT_RETURNING;
		record->forced |= SLOT_STATE(hold) == SLOT_HELD;
		if (SLOT_STATE(hold) == SLOT_HELD)
			slot_end(slot, hold);
	}
	return all;
}

void record_invalidate(struct record *record)
{
	EACH_SLOT(record, slot) {
		atomic_store(&slot->base, SLOT_SEQUENCE(atomic_load(&slot->hold)));
		atomic_store_explicit(&slot->unordered, false, memory_order_relaxed);
	}
}

/* ---- a hold as a lease ---- */

int lease_expect(const struct record *record, const gpub_expectation *expected, unsigned rights)
{
	const char *name = record_title(record);
	uint32_t owner = expected ? expected->owner : GPUB_ANY_USER;

	if (owner != GPUB_ANY_USER && owner != record->owner)
		return error_set(-EPERM,
				 "'%s' belongs to uid %u, and uid %u is expected: it is not the buffer that is meant",
				 name, record->owner, owner);
	if (record_lacks(record, rights) & GPUB_MINE)
		return error_set(-EPERM,
				 "'%s' belongs to uid %u, neither this user nor root nor the broker's: GPUB_MINE "
				 "refuses it",
				 name, record->owner);
	return expected ? layout_expect(name, &record->layout, &expected->layout) : 0;
}

void lease_undo(struct gpub_client *client, uint64_t token)
{
	slot_end(slot_at(&client->slots, token_index(token)), SLOT_HOLD(token_sequence(token), SLOT_HELD));
}
