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

/* False: it is gone, or another thread closes it. Waits for threads that retire a record of it: they soon end. */
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
		idle &= record_unused(record, &one);
		*held |= one;
	}
	return idle;
}

/* For a lost mapping, only threads that are about to queue a return are waited for. */
static bool records_drop(const struct mapping *mapping)
{
	struct record *record;
	bool all = true;

	DL_FOREACH2(mapping->records, record, mapping_next)
		all &= record_drop_all(record);
	return all;
}

/* So where no slot is busy, the device is done with it. */
bool mapping_is_quiesced(const struct mapping *mapping)
{
	struct record *record;

	DL_FOREACH2(mapping->records, record, mapping_next)
		if (!record_quiesced(record))
			return false;
	return true;
}

/* Nobody uses it, and it can be closed in that way. */
static bool may_close(struct mapping *mapping, enum close_how how, bool *held)
{
	if (mapping->lost ? !records_drop(mapping) : !records_idle(mapping, held))
		return false;
	mapping->quiesced = mapping_is_quiesced(mapping);
	*held = how == CLOSE_IF_QUIESCED && !mapping_closes_at_once(mapping);
	return !*held;
}

/* OPEN to CLOSING, unless a slot is busy. *held: a lease holds it, or what it is to wait for; else a return has not landed. */
static bool close_begin(struct mapping *mapping, enum close_how how, bool *held)
{
	records_mark(mapping, RECORD_CLOSING);
	CRASH_POINT(close_marked);
	/* an acquirer stores its hold, then loads the state; here it is the other way round: one of the two sees the other */
	atomic_thread_fence(memory_order_seq_cst);
	if (may_close(mapping, how, held))
		return true;
	records_mark(mapping, RECORD_OPEN); /* no waiter saw CLOSING: the lock was held throughout */
	CRASH_POINT(close_withdrawn);
	return false;
}

/* A short pause for the device. Checks now and then that it works: a failed device never writes the awaited word. */
static int close_pause(struct gpub_client *client, int ordinal, unsigned scans)
{
	int error = 0;

	pthread_mutex_unlock(&client->lock);
	usleep(LAND_POLL_US);
	if (scans % 256 == 255)
		error = client->device->check(ordinal);
	pthread_mutex_lock(&client->lock);
	return error;
}

static uint64_t mapping_acquire_count(const struct mapping *mapping)
{
	const struct record *record;
	uint64_t count = 0;

	/*
	 * live buffers only: a thread that acquires one again and again must not delay the close without end; unlinked ones end
	 */
	DL_FOREACH2(mapping->records, record, mapping_next)
		if (atomic_load(record->generation) == record->live)
			count += record_acquire_count(record);
	return count;
}

/*
 * It waits in state OPEN, so that no acquire has to wait for the device with it. A buffer that is unlinked or added
 * meanwhile changes the sum as an acquire does: then this close takes the mapping for used.
 */
static int close_wait(struct gpub_client *client, struct mapping *mapping, enum close_how how)
{
	uint64_t grant = mapping->grant, acquires = mapping_acquire_count(mapping);
	bool held = false;
	int error = 0;

	for (unsigned scans = 0; !error; scans++) {
		if (!close_may_begin(client, mapping, grant))
			return -EBUSY;
		mapping->lost = mapping_is_lost(client, mapping);
		if (close_begin(mapping, how, &held))
			return 0;
		if (!mapping->lost && (held || how != CLOSE_WHEN_LANDED || mapping_acquire_count(mapping) > acquires))
			return -EBUSY;
		error = close_pause(client, mapping->ordinal, scans);
	}
	return error;
}

/* Before the broker may use a buffer's range for another one. */
static void records_unwatch(struct gpub_client *client, const struct mapping *mapping)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	DL_FOREACH2(mapping->records, record, mapping_next)
		record_unwatch(client, record);
	pthread_mutex_unlock(&client->lock);
}

/* Releases its records, or leaks all of it after an error. */
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

int mapping_close(struct gpub_client *client, struct mapping *mapping, enum close_how how)
{
	int error = close_wait(client, mapping, how);

	if (error)
		return error;
	mapping->closing = true;
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(close_decided);
	if (!mapping->lost || !mapping_export(mapping)->ends_at_reset)
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

/* Until the last mapping is gone, client_was_reset() is true for the device, and no thread gets a lease of one. */
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
			error = mapping_close(client, mapping, CLOSE_IF_UNUSED);
		now = client_epoch(client, ordinal);
	}
	if (!now || (error && error != -EBUSY))
		return -EIO;
	atomic_store(&client->epochs[ordinal], now);
	return 1;
}

/* ---- retiring one buffer ---- */

/*
 * All leases were returned, and the device is done with them: nobody has acquired the buffer since before the sync.
 * *acquires: to compare with afterwards. -EBUSY: a lease is held, or the record has changed meanwhile.
 */
static int retire_sync(struct gpub_client *client, struct record *record, uint64_t *acquires)
{
	uint64_t state = atomic_load(&record->state);
	bool held;
	int error;

	*acquires = record_acquire_count(record);
	if (!record_unused(record, &held))
		return -EBUSY;
	error = mapping_sync(client, record->mapping);
	CRASH_POINT(retire_synced);
	return atomic_load(&record->state) == state ? error : -EBUSY;
}

int record_retire(struct gpub_client *client, struct record *record, bool sync)
{
	uint64_t state = atomic_load(&record->state), acquires = 0;
	bool quiesced = record_quiesced(record), held;
	int error = RECORD_STATE(state) != RECORD_OPEN || !(quiesced || sync) ? -EBUSY : 0;

	if (!error && !quiesced)
		error = retire_sync(client, record, &acquires);
	if (error)
		return error;
	atomic_store(&record->state, RECORD_WORD(RECORD_GRANT(state), RECORD_CLOSING));
	/* as in close_begin() */
	atomic_thread_fence(memory_order_seq_cst);
	if (!record_unused(record, &held) || !(quiesced ? record_quiesced(record) : record_acquire_count(record) == acquires)) {
		atomic_store(&record->state, state);
		return -EBUSY;
	}
	record_unwatch(client, record);
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(retire_decided);
	call_quiesced(client, RECORD_GRANT(state), atomic_load(&record->serial));
	CRASH_POINT(quiesced_sent);
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
