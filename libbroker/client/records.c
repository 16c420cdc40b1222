/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - see records.h */
#include "records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "client.h"
#include "clock.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "hold.h"
#include "interrupt.h"
#include "mapping.h"
#include "table.h"
#include "timeline-maps.h"

/* ---- the pool ---- */

static int pool_grow(struct record_arena *pool)
{
	uint32_t room = pool->room ? pool->room * 2 : 64;
	struct record **numbered;

	if (pool->count < pool->room)
		return 0;
	if (room > 1u << RECORD_NUMBER_BITS)
		return -ENOMEM;
	numbered = realloc(pool->numbered, room * sizeof *numbered);
	if (!numbered)
		return -ENOMEM;
	pool->numbered = numbered;
	pool->room = room;
	return 0;
}

static struct record *record_new(struct record_arena *pool)
{
	struct record *record = pool_grow(pool) ? NULL : aligned_alloc(_Alignof(struct record), sizeof *record);

	if (!record)
		return NULL;
	memset(record, 0, sizeof *record);
	record->number = pool->count;
	pool->numbered[pool->count++] = record;
	record->next = pool->all;
	pool->all = record;
	return record;
}

static struct record *record_reuse(struct record_arena *pool, struct record *record)
{
	DL_DELETE2(pool->free, record, free_prev, free_next);
	pool->free_count--;
	return record;
}

/*
 * Returns a record for a new buffer: the record that was freed first, if more than free_min are free or memory is
 * short, else a new record. A record keeps its slots. So if more than SLOTS_CROWDED slots are in use, returns the
 * record that was freed last. A program that creates a buffer again and again then uses the same slots.
 */
static struct record *record_take(struct gpub_client *client)
{
	struct record_arena *pool = &client->records;
	struct record *record;

	if (pool->free && atomic_load(&client->slots.used) > SLOTS_CROWDED)
		return record_reuse(pool, pool->free->free_prev);
	if (pool->free_count > pool->free_min)
		return record_reuse(pool, pool->free);
	record = record_new(pool);
	return record || !pool->free ? record : record_reuse(pool, pool->free);
}

static void record_free(struct record_arena *pool, struct record *record, bool was_open)
{
	if (was_open)
		DL_APPEND2(pool->free, record, free_prev, free_next);
	else
		DL_PREPEND2(pool->free, record, free_prev, free_next);
	pool->free_count++;
}

struct record *record_bind(struct gpub_client *client, const char *name, unsigned index)
{
	struct record *record = record_take(client);

	if (!record)
		goto no_memory;
	/* invalidated before a thread can find the record, so that each hold from now on is of the new buffer */
	record_invalidate(record);
	if (table_add(&client->table, record, name, index))
		goto give_back;
	record->attached = true;
	return record;
give_back:
	record_free(&client->records, record, false);
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

void record_unlinked(struct gpub_client *client, struct record *record)
{
	client->newly_due = true;
	if (!record->unlinked) {
		DL_APPEND2(client->due, record, due_prev, due_next);
		record->passed[false] = record->passed[true] = client->passes;
	}
	record->unlinked = true;
}

static void unlinked_clear(struct gpub_client *client, struct record *record)
{
	if (record->unlinked)
		DL_DELETE2(client->due, record, due_prev, due_next);
	record->unlinked = false;
}

void record_add_rights(struct record *record, unsigned rights)
{
	if (record->sealed)
		rights &= ~GPUB_WRITE;
	atomic_fetch_or_explicit(&record->rights, rights, memory_order_relaxed);
}

void record_seal(struct record *record)
{
	record->sealed = true;
	atomic_fetch_and_explicit(&record->rights, ~GPUB_WRITE, memory_order_relaxed);
}

static void watch(struct gpub_client *client, struct record *record, enum view view, uint8_t *ptr)
{
	if (!client->device->watch)
		return;
	record->watch[view] = (struct device_watch){ .name = record_title(record), .ptr = ptr, .size = record->size,
						     .room = record->room };
	client->device->watch(&record->watch[view]);
}

void record_view(struct gpub_client *client, struct record *record, enum view view)
{
	const struct mapping *mapping = record->mapping;
	uint8_t *base = mapping->base[view];

	if (base && (view == VIEW_READ || base != mapping->base[VIEW_READ]))
		watch(client, record, view, base + record->offset);
	atomic_store_explicit(&record->ptr[view], base ? base + record->offset : NULL, memory_order_relaxed);
}

void record_unwatch(struct gpub_client *client, struct record *record)
{
	for (int view = 0; view < VIEWS && client->device->unwatch; view++)
		client->device->unwatch(&record->watch[view]);
}

/*
 * Drops the record's reference to its timeline. If record->forced, a call may still use the timeline, so the reference
 * stays until the client ends.
 */
static void timeline_leave(struct gpub_client *client, struct record *record)
{
	if (!record->forced)
		timeline_map_put(client, record->timeline);
	record->forced = false;
	record->timeline = NULL;
}

void record_release(struct gpub_client *client, struct record *record, int error, const char *text)
{
	bool was_open = RECORD_STATE(atomic_load(&record->state)) >= RECORD_OPEN;

	record_unwatch(client, record);
	record_detach(client, record);
	mapping_detach(record);
	timeline_leave(client, record);
	unlinked_clear(client, record);
	waiters_tell(record, error, text);
	atomic_store(&record->state, RECORD_WORD(0, RECORD_NONE));
	record_free(&client->records, record, was_open);
	pthread_cond_broadcast(&client->changed);
}

void record_leak(struct gpub_client *client, struct record *record, int error, const char *text)
{
	CRASH_POINT(close_failed);
	record_unwatch(client, record);
	record_detach(client, record);
	mapping_detach(record);
	timeline_leave(client, record);
	unlinked_clear(client, record);
	/* the state has no mapping's id any more: the record belongs to no mapping */
	atomic_store(&record->state, RECORD_WORD(0, RECORD_CLOSING));
	waiters_tell(record, error, text);
	pthread_cond_broadcast(&client->changed);
}

void record_wait_end(struct record *record, struct waiter *waiter)
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
	waiter->state = atomic_load(&record->state);
	waiter->next = record->waiters;
	record->waiters = waiter;
}

static bool waits_still(const struct record *record, const struct waiter *waiter)
{
	return !waiter->done && atomic_load(&record->state) == waiter->state;
}

/*
 * Waits until client->changed is signalled, or for one part of the wait (interrupt.h). Returns 0; -ETIMEDOUT if the
 * deadline (NULL: none) has passed; -EINTR if the interrupt function interrupts. Releases client->lock meanwhile.
 */
static int wait_part(struct gpub_client *client, const struct timespec *deadline)
{
	struct timespec part;
	const struct timespec *until = interrupt_part(deadline, &part);
	int error;

	if (!(until ? pthread_cond_timedwait(&client->changed, &client->lock, until) :
		      pthread_cond_wait(&client->changed, &client->lock)))
		return 0;
	if (client_past(deadline))
		return -ETIMEDOUT;
	pthread_mutex_unlock(&client->lock);
	error = interrupt_ask();
	pthread_mutex_lock(&client->lock);
	return error;
}

int record_wait(struct gpub_client *client, struct record *record, struct waiter *waiter,
		const struct timespec *deadline)
{
	int error = 0;

	while (!error && waits_still(record, waiter))
		error = wait_part(client, deadline);
	if (waiter->done)
		return waiter->error ? error_set(waiter->error, "%s", waiter->text) : 0;
	record_wait_end(record, waiter);
	return error;
}

void record_request_begin(struct gpub_client *client, struct record *record, struct waiter *waiter,
			  struct wire_message *message)
{
	record->request = message->request = ++client->next_number << RECORD_NUMBER_BITS | record->number;
	atomic_store(&record->state, RECORD_WORD(0, RECORD_REQUESTED));
	record_wait_begin(record, waiter);
}

struct record *record_of_request(struct gpub_client *client, uint64_t request)
{
	uint32_t number = request & ((1u << RECORD_NUMBER_BITS) - 1);
	struct record *record = number < client->records.count ? client->records.numbered[number] : NULL;

	if (record && record->request == request && RECORD_STATE(atomic_load(&record->state)) == RECORD_REQUESTED)
		return record;
	return NULL;
}
