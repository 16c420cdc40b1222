/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h */
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client.h"

/* ---- the pool ---- */

static struct record *record_take(struct record_pool *pool)
{
	struct record *record = pool->free;

	if (record) {
		pool->free = record->next_free;
		return record;
	}
	record = calloc(1, sizeof *record);
	if (!record)
		return NULL;
	record->next = pool->all;
	pool->all = record;
	return record;
}

void record_outdate(struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_relaxed);

	for (uint32_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < SLOTS_FIRST << b; i++) {
			struct slot *slot = &record->block[b].slot[i];

			atomic_store(&slot->base, SLOT_SEQUENCE(atomic_load(&slot->hold)));
		}
}

struct record *record_bind(struct gpub_client *client, const char *name, unsigned index)
{
	struct record *record = record_take(&client->records);

	if (!record)
		goto no_memory;
	/* before anybody can find it: what is held from then on is of the new buffer */
	record_outdate(record);
	if (table_add(&client->table, record, name, index))
		goto give_back;
	record->attached = true;
	record->noticed = false;
	return record;
give_back:
	record->next_free = client->records.free;
	client->records.free = record;
no_memory:
	error_set(-ENOMEM, "out of memory for another buffer");
	return NULL;
}

void record_detach(struct gpub_client *client, struct record *record)
{
	if (record->attached)
		table_remove(&client->table, record);
	record->attached = false;
}

static void waiters_tell(struct record *record, int error, const char *text)
{
	struct waiter *waiter;

	for (waiter = record->waiters; waiter; waiter = waiter->next) {
		waiter->done = true;
		waiter->error = error;
		if (error)
			snprintf(waiter->text, sizeof waiter->text, "%s", text);
	}
	record->waiters = NULL;
}

void record_release(struct gpub_client *client, struct record *record, int error, const char *text)
{
	record_detach(client, record);
	waiters_tell(record, error, text);
	atomic_store(&record->mapping, RECORD_MAPPING(0, RECORD_NONE));
	record->next_free = client->records.free;
	client->records.free = record;
	pthread_cond_broadcast(&client->changed);
}

void record_strand(struct gpub_client *client, struct record *record, int error, const char *text)
{
	CRASH_POINT(close_failed);
	record_detach(client, record);
	/* without its grant: a notice that is still to come finds nothing to close */
	atomic_store(&record->mapping, RECORD_MAPPING(0, RECORD_CLOSING));
	record->noticed = false;
	waiters_tell(record, error, text);
	pthread_cond_broadcast(&client->changed);
}

static void waiter_remove(struct record *record, struct waiter *waiter)
{
	struct waiter **link;

	for (link = &record->waiters; *link; link = &(*link)->next)
		if (*link == waiter) {
			*link = waiter->next;
			return;
		}
}

void record_wait_begin(struct record *record, struct waiter *waiter)
{
	waiter->done = false;
	waiter->error = 0;
	waiter->mapping = atomic_load(&record->mapping);
	waiter->next = record->waiters;
	record->waiters = waiter;
}

static bool waits_still(const struct record *record, const struct waiter *waiter)
{
	return !waiter->done && atomic_load(&record->mapping) == waiter->mapping;
}

int record_wait(struct gpub_client *client, struct record *record, struct waiter *waiter,
		const struct timespec *deadline)
{
	int late = 0;

	while (!late && waits_still(record, waiter))
		late = deadline ? pthread_cond_timedwait(&client->changed, &client->lock, deadline) :
				  pthread_cond_wait(&client->changed, &client->lock);
	if (waiter->done)
		return waiter->error ? error_set(waiter->error, "%s", waiter->text) : 0;
	waiter_remove(record, waiter);
	return late ? -ETIMEDOUT : 0;
}

struct record *record_of_grant(struct gpub_client *client, uint64_t grant)
{
	struct record *record;

	/* also while it is being closed: the closer may find it held after all, and go back to OPEN */
	for (record = client->records.all; record; record = record->next)
		if (grant && RECORD_GRANT(atomic_load(&record->mapping)) == grant)
			return record;
	return NULL;
}

struct record *record_of_request(struct gpub_client *client, uint64_t request)
{
	struct record *record;

	for (record = client->records.all; record; record = record->next)
		if (RECORD_STATE(atomic_load(&record->mapping)) == RECORD_REQUESTED && record->request == request)
			return record;
	return NULL;
}

/* ---- slots ---- */

int record_grow(struct gpub_client *client, struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_relaxed), index;
	int error;

	if (blocks == SLOT_BLOCKS)
		return error_set(-ENOMEM, "%u leases of one buffer are out or on their way back: wait for some",
				 (SLOTS_FIRST << SLOT_BLOCKS) - SLOTS_FIRST);
	error = slot_pool_take(&client->slots, client->device, record, SLOTS_FIRST << blocks, &index);
	if (error)
		return error;
	record->block[blocks] = (struct slot_block){ slot_at(&client->slots, index), index };
	atomic_store_explicit(&record->blocks, blocks + 1, memory_order_release);
	return 0;
}

/* Slots are numbered through the blocks: block b begins at SLOTS_FIRST * (2^b - 1). */
static struct slot *slot_number(struct record *record, uint32_t number, uint32_t *index)
{
	uint32_t block = 31 - (uint32_t)__builtin_clz(number / SLOTS_FIRST + 1);
	uint32_t in = number - (SLOTS_FIRST << block) + SLOTS_FIRST;

	*index = record->block[block].index + in;
	return &record->block[block].slot[in];
}

static bool record_live(const struct record *record)
{
	return RECORD_STATE(atomic_load(&record->mapping)) == RECORD_OPEN &&
	       atomic_load_explicit(record->word, memory_order_acquire) == record->live;
}

int record_hold_in(struct record *record, struct slot *slot, uint32_t index, uint64_t hold, uint64_t *token)
{
	uint64_t sequence = slot_next(SLOT_SEQUENCE(hold));

	if (!atomic_compare_exchange_strong(&slot->hold, &hold, SLOT_HOLD(sequence, SLOT_HELD)))
		return -EAGAIN;
	CRASH_POINT(hold_published);
	/* the closer stores CLOSING, then looks here; we store here, then look for CLOSING: one of us sees */
	atomic_thread_fence(memory_order_seq_cst);
	if (record_live(record)) {
		CRASH_POINT(hold_checked);
		*token = slot_token(index, sequence);
		return 0;
	}
	atomic_store_explicit(&slot->hold, SLOT_HOLD(sequence, SLOT_FREE), memory_order_release);
	CRASH_POINT(hold_undone);
	return -ESTALE;
}

int record_hold(struct record *record, uint64_t *token)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);
	uint32_t count = (SLOTS_FIRST << blocks) - SLOTS_FIRST;
	uint32_t at = atomic_load_explicit(&record->cursor, memory_order_relaxed), index;

	for (uint32_t tries = 0; tries < count; tries++, at++) {
		struct slot *slot = slot_number(record, at >= count ? at %= count : at, &index);
		uint64_t hold = atomic_load_explicit(&slot->hold, memory_order_acquire);
		int error = slot_idle(slot, hold) ? record_hold_in(record, slot, index, hold, token) : -EAGAIN;

		if (error == -EAGAIN)
			continue;
		if (atomic_load_explicit(&record->cursor, memory_order_relaxed) != at)
			atomic_store_explicit(&record->cursor, at, memory_order_relaxed);
		return error;
	}
	return count ? -EAGAIN : -ESTALE;
}

bool record_idle(const struct record *record, bool *held)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);
	bool idle = true;

	*held = false;
	for (uint32_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < SLOTS_FIRST << b; i++) {
			const struct slot *slot = &record->block[b].slot[i];
			uint64_t hold = atomic_load(&slot->hold);

			if (slot_idle(slot, hold))
				continue;
			idle = false;
			*held |= SLOT_STATE(hold) != SLOT_RETURNED;
		}
	return idle;
}

uint64_t record_takes(const struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);
	uint64_t takes = 0;

	for (uint32_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < SLOTS_FIRST << b; i++)
			takes += SLOT_SEQUENCE(atomic_load(&record->block[b].slot[i].hold));
	return takes;
}

void record_drop_holds(struct record *record)
{
	uint32_t blocks = atomic_load_explicit(&record->blocks, memory_order_acquire);

	for (uint32_t b = 0; b < blocks; b++)
		for (uint32_t i = 0; i < SLOTS_FIRST << b; i++) {
			struct slot *slot = &record->block[b].slot[i];
			uint64_t hold = atomic_load(&slot->hold);

			if (SLOT_STATE(hold) == SLOT_HELD)
				atomic_store(&slot->hold, SLOT_HOLD(SLOT_SEQUENCE(hold), SLOT_FREE));
		}
}
