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
		atomic_store(&record->state, RECORD_WORD(mapping->id, state));
}

static bool records_open(const struct mapping *mapping)
{
	struct record *record;

	DL_FOREACH2(mapping->records, record, mapping_next)
		if (RECORD_STATE(atomic_load(&record->state)) != RECORD_OPEN)
			return false;
	return true;
}

/*
 * Waits until no thread is in mapping_sync(), mapping_view() or mapping_extend() for the mapping, or retires a record
 * of it. Such threads wait for the device at most. False: the mapping was closed meanwhile, or another thread closes
 * it. id: mapping->id, because the mapping may have been freed.
 */
static bool close_may_begin(struct gpub_client *client, const struct mapping *mapping, uint64_t id)
{
	while (mapping_find(client, id) == mapping && !mapping->closing) {
		if (!mapping->syncing && records_open(mapping))
			return true;
		pthread_cond_wait(&client->changed, &client->lock);
	}
	return false;
}

/* Whether record_unused() is true for all records of the mapping. *held: a lease of one of them is held. */
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

/* Ends the holds of all records of a lost mapping. False: a thread is about to queue a return, so call it again. */
static bool records_drop(const struct mapping *mapping)
{
	struct record *record;
	bool all = true;

	DL_FOREACH2(mapping->records, record, mapping_next)
		all &= record_drop_all(record);
	return all;
}

/* If this is true and no slot of the mapping's records is busy, the device is done with the mapping. */
bool mapping_is_quiesced(const struct mapping *mapping)
{
	struct record *record;

	DL_FOREACH2(mapping->records, record, mapping_next)
		if (!record_quiesced(record))
			return false;
	return true;
}

/*
 * Whether no lease or return uses the mapping, and `how` allows its close. Ends the holds of a lost mapping first.
 * *held: as for close_begin().
 */
static bool may_close(struct mapping *mapping, enum close_how how, bool *held)
{
	if (mapping->lost ? !records_drop(mapping) : !records_idle(mapping, held))
		return false;
	mapping->quiesced = mapping_is_quiesced(mapping);
	*held = how == CLOSE_IF_QUIESCED && !mapping_closes_at_once(mapping);
	return !*held;
}

/*
 * Sets the states of the mapping's records from OPEN to CLOSING. False: has set them back to OPEN, because a slot is
 * busy, or `how` does not allow the close. *held, if false: true if a lease is held, or the close would wait for the
 * device; false if only returns in stream order have not landed.
 */
static bool close_begin(struct mapping *mapping, enum close_how how, bool *held)
{
	records_mark(mapping, RECORD_CLOSING);
	CRASH_POINT(close_marked);
	/*
	 * an acquirer stores its hold, then loads the state; this thread stores the state, then loads the holds; the
	 * fence makes at least one of the two threads see the other's store
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (may_close(mapping, how, held))
		return true;
	records_mark(mapping, RECORD_OPEN); /* no waiter has seen CLOSING, because client->lock was held throughout */
	CRASH_POINT(close_withdrawn);
	return false;
}

/*
 * Sleeps for a moment, without client->lock. In each 256th of the `scans`, checks the device, because no return in
 * stream order lands on a device that has failed. Returns 0, or the error of that check.
 */
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

	/* counts acquires of live buffers only: an unlinked buffer cannot be acquired any more */
	DL_FOREACH2(mapping->records, record, mapping_next)
		if (atomic_load(record->generation) == record->live)
			count += record_acquire_count(record);
	return count;
}

/*
 * Waits until the close may begin, and sets the states of the records to CLOSING. The records are OPEN while it waits,
 * so that no acquire has to wait. Returns -EBUSY also if a live buffer is acquired or added meanwhile, so that the wait
 * has an end.
 */
static int close_wait(struct gpub_client *client, struct mapping *mapping, enum close_how how)
{
	uint64_t id = mapping->id, acquires = mapping_acquire_count(mapping);
	bool held = false;
	int error = 0;

	for (unsigned scans = 0; !error; scans++) {
		if (!close_may_begin(client, mapping, id))
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

/*
 * Ends the device's watches of the mapping's buffers. Call it before CLOSED is sent, because after CLOSED the broker
 * may use the buffers' ranges for other buffers.
 */
static void records_unwatch(struct gpub_client *client, const struct mapping *mapping)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	DL_FOREACH2(mapping->records, record, mapping_next)
		record_unwatch(client, record);
	pthread_mutex_unlock(&client->lock);
}

/*
 * Releases the mapping's records and the mapping. If the close failed with `error`, leaks both, with `text` for
 * waiters.
 */
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
		call_closed(client, mapping->id);
	CRASH_POINT(closed_sent);
	pthread_mutex_lock(&client->lock);
	close_end(client, mapping, error, error_text());
	CRASH_POINT(record_released);
	return error;
}

/* Returns a mapping of the device that was opened in another epoch than `epoch`, or NULL. */
static struct mapping *find_lost(const struct gpub_client *client, int ordinal, uint64_t epoch)
{
	struct mapping *mapping;

	DL_FOREACH(client->mappings, mapping)
		if (mapping->ordinal == ordinal && mapping->epoch != epoch)
			break;
	return mapping;
}

/*
 * Stores the new epoch last: until the last mapping of the old epoch is closed, client_was_reset() is true, so that no
 * thread gets a lease on the device.
 */
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
 * Waits until the device has done the work of all returned leases of the record. *acquires: the record's acquire count
 * before the wait, by which the caller finds out whether a lease was taken since. -EBUSY: a lease is held, or the
 * record's state has changed meanwhile. Releases client->lock meanwhile.
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
	atomic_store(&record->state, RECORD_WORD(RECORD_MAPPING(state), RECORD_CLOSING));
	/* the fence is for the same race with an acquirer as in close_begin() */
	atomic_thread_fence(memory_order_seq_cst);
	if (!record_unused(record, &held) ||
	    !(quiesced ? record_quiesced(record) : record_acquire_count(record) == acquires)) {
		atomic_store(&record->state, state);
		return -EBUSY;
	}
	record_unwatch(client, record);
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(retire_decided);
	call_quiesced(client, RECORD_MAPPING(state), atomic_load(&record->serial));
	CRASH_POINT(quiesced_sent);
	pthread_mutex_lock(&client->lock);
	record_release(client, record, 0, NULL);
	CRASH_POINT(record_released);
	return 0;
}

/* ---- end of a disconnect ---- */

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
