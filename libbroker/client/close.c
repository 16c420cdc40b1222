/* SPDX-License-Identifier: Apache-2.0 */
/* close.c - see close.h */
#include "close.h"

#include <errno.h>
#include <unistd.h>

#include <utlist.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/thread.h"
#include "devices.h"
#include "hold.h"
#include "mapping.h"
#include "records.h"
#include "send.h"
#include "timeline-maps.h"
#include "trace.h"

#define LAND_POLL_US 50

/* ---- closing a mapping ---- */

static void records_mark(const struct mapping *mapping, enum record_state state)
{
	struct record *record;

	DL_FOREACH2(mapping->records, record, mapping_next)
		atomic_store(&record->state, RECORD_WORD(mapping->grant, state));
}

static bool records_open(const struct mapping *mapping)
{
	struct record *record;

	DL_FOREACH2(mapping->records, record, mapping_next)
		if (RECORD_STATE(atomic_load(&record->state)) != RECORD_OPEN)
			return false;
	return true;
}

/* False: it is gone, or another thread closes it. Who retires a record of it is soon done: it sends, or waits for the device. */
static bool close_may_begin(struct gpub_client *client, const struct mapping *mapping, uint64_t grant)
{
	while (mapping_find(client, grant) == mapping && !mapping->closing) {
		if (!mapping->syncing && records_open(mapping))
			return true;
		pthread_cond_wait(&client->changed, &client->lock);
	}
	return false;
}

static bool records_idle(const struct mapping *mapping, bool *held)
{
	struct record *record;
	bool idle = true, one;

	*held = false;
	DL_FOREACH2(mapping->records, record, mapping_next) {
		idle &= record_idle(record, &one);
		*held |= one;
	}
	return idle;
}

/* Nothing of a lost mapping is waited for but threads that are about to queue a return. */
static bool records_drop(const struct mapping *mapping)
{
	struct record *record;
	bool all = true;

	DL_FOREACH2(mapping->records, record, mapping_next)
		all &= record_drop_all(record);
	return all;
}

/* OPEN to CLOSING, unless a slot is busy; *held: with a lease, not with a return that is yet to land. */
static bool close_begin(struct mapping *mapping, bool *held)
{
	records_mark(mapping, RECORD_CLOSING);
	CRASH_POINT(close_marked);
	/* an acquirer stores its hold, then looks for CLOSING; we the other way round: one of us sees */
	atomic_thread_fence(memory_order_seq_cst);
	if (mapping->lost ? records_drop(mapping) : records_idle(mapping, held))
		return true;
	records_mark(mapping, RECORD_OPEN); /* nobody can have waited for them: the lock was held throughout */
	CRASH_POINT(close_withdrawn);
	return false;
}

/* A moment for the device. A device that has failed will never write the word that is waited for. */
static int close_pause(struct gpub_client *client, int ordinal, unsigned looks)
{
	int error = 0;

	pthread_mutex_unlock(&client->lock);
	usleep(LAND_POLL_US);
	if (looks % 256 == 255)
		error = client->device->check(ordinal);
	pthread_mutex_lock(&client->lock);
	return error;
}

static uint64_t mapping_acquire_count(const struct mapping *mapping)
{
	const struct record *record;
	uint64_t takes = 0;

	/* of what is live: somebody who never rests would be waited for for ever, while nobody takes what is unlinked */
	DL_FOREACH2(mapping->records, record, mapping_next)
		if (atomic_load(record->generation) == record->live)
			takes += record_acquire_count(record);
	return takes;
}

/*
 * Waiting is done in OPEN, so that nobody's acquire has to wait for the device with us. A buffer that was unlinked, or
 * added, since the first look changes the sum as a take does: then it is in use, too, as far as this close is concerned.
 */
static int close_wait(struct gpub_client *client, struct mapping *mapping, bool wait)
{
	uint64_t grant = mapping->grant, takes = mapping_acquire_count(mapping);
	bool held = false;
	int error = 0;

	for (unsigned looks = 0; !error; looks++) {
		if (!close_may_begin(client, mapping, grant))
			return -EBUSY;
		mapping->lost = mapping_is_lost(client, mapping);
		if (close_begin(mapping, &held))
			return 0;
		if (!mapping->lost && (held || !wait || mapping_acquire_count(mapping) > takes))
			return -EBUSY;
		error = close_pause(client, mapping->ordinal, looks);
	}
	return error;
}

/* Before the broker may give a buffer's range to another. */
static void records_unwatch(struct gpub_client *client, const struct mapping *mapping)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	DL_FOREACH2(mapping->records, record, mapping_next)
		record_unwatch(client, record);
	pthread_mutex_unlock(&client->lock);
}

/* All that stood on it stands for nothing any more. */
static void close_end(struct gpub_client *client, struct mapping *mapping, int error, const char *text)
{
	while (mapping->records)
		if (error)
			record_leak(client, mapping->records, error, text);
		else
			record_release(client, mapping->records, 0, NULL);
	if (error)
		mapping_leak(client, mapping);
	else
		mapping_remove(client, mapping);
	pthread_cond_broadcast(&client->changed);
}

int mapping_close(struct gpub_client *client, struct mapping *mapping, bool wait)
{
	int error = close_wait(client, mapping, wait);

	if (error)
		return error;
	mapping->closing = true;
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(close_decided);
	if (!mapping->lost)
		error = mapping_unmap(client, mapping);
	CRASH_POINT(mapping_closed);
	records_unwatch(client, mapping);
	if (!error)
		call_closed(client, mapping->grant);
	CRASH_POINT(closed_sent);
	pthread_mutex_lock(&client->lock);
	close_end(client, mapping, error, error_text());
	CRASH_POINT(record_released);
	return error;
}

static struct mapping *find_lost(const struct gpub_client *client, int ordinal, uint64_t epoch)
{
	struct mapping *mapping;

	DL_FOREACH(client->mappings, mapping)
		if (mapping->ordinal == ordinal && mapping->epoch != epoch)
			break;
	return mapping;
}

/* Until the last one is gone client_was_reset() says so of the device, and nobody is given a lease of one. */
int client_notice_reset(struct gpub_client *client, int ordinal)
{
	uint64_t now = client_epoch(client, ordinal);
	struct mapping *mapping;
	int error = 0;

	if (now == atomic_load(&client->epochs[ordinal]))
		return 0;
	while (now && (!error || error == -EBUSY) && (mapping = find_lost(client, ordinal, now))) {
		if (mapping->closing)
			pthread_cond_wait(&client->changed, &client->lock);
		else
			error = mapping_close(client, mapping, false);
		now = client_epoch(client, ordinal);
	}
	if (!now || (error && error != -EBUSY))
		return -EIO;
	atomic_store(&client->epochs[ordinal], now);
	return 1;
}

/* ---- letting go of one buffer ---- */

/*
 * All its leases were returned, and the device is done with them: from before the sync until now nobody took it, and what
 * was queued before is done. *takes: to compare with afterwards. -EBUSY: one is held, or it changed meanwhile.
 */
static int retire_sync(struct gpub_client *client, struct record *record, uint64_t *takes)
{
	uint64_t state = atomic_load(&record->state);
	bool held;
	int error;

	*takes = record_acquire_count(record);
	if (!record_idle(record, &held))
		return -EBUSY;
	error = mapping_sync(client, record->mapping);
	CRASH_POINT(retire_synced);
	return atomic_load(&record->state) == state ? error : -EBUSY;
}

int record_retire(struct gpub_client *client, struct record *record, bool sync)
{
	uint64_t state = atomic_load(&record->state), takes = 0;
	bool proven = record_quiesced(record), held;
	int error = RECORD_STATE(state) != RECORD_OPEN || !(proven || sync) ? -EBUSY : 0;

	if (!error && !proven)
		error = retire_sync(client, record, &takes);
	if (error)
		return error;
	atomic_store(&record->state, RECORD_WORD(RECORD_GRANT(state), RECORD_CLOSING));
	/* as in close_begin() */
	atomic_thread_fence(memory_order_seq_cst);
	if (!record_idle(record, &held) || !(proven ? record_quiesced(record) : record_acquire_count(record) == takes)) {
		atomic_store(&record->state, state);
		return -EBUSY;
	}
	record_unwatch(client, record);
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(retire_decided);
	call_idle(client, RECORD_GRANT(state), atomic_load(&record->serial));
	CRASH_POINT(idle_sent);
	pthread_mutex_lock(&client->lock);
	record_release(client, record, 0, NULL);
	CRASH_POINT(record_released);
	return 0;
}

/* ---- the end ---- */

void client_forget_all(struct gpub_client *client)
{
	static const char text[] = "the client was disconnected";
	struct record *record;

	pthread_mutex_lock(&client->lock);
	while (client->mappings)
		close_end(client, client->mappings, -ESTALE, text);
	mappings_forget(client);
	for (record = client->records.all; record; record = record->next) {
		record_invalidate(record);
		if (RECORD_STATE(atomic_load(&record->state)) == RECORD_REQUESTED)
			record_release(client, record, -ESTALE, text);
	}
	pthread_mutex_unlock(&client->lock);
	timeline_maps_forget(client);
}
