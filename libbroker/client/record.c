/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h */
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* ---- the pool ---- */

static struct record *record_take(struct record_pool *pool)
{
	struct record *record = pool->free;

	if (record) {
		pool->free = record->next_free;
		return record;
	}
	record = aligned_alloc(_Alignof(struct record), sizeof *record);
	if (!record)
		return NULL;
	memset(record, 0, sizeof *record);
	record->next = pool->all;
	pool->all = record;
	return record;
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
