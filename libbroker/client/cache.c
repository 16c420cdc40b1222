/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - see cache.h; gpub_trim, gpub_set_cache, gpub_set_flags */
#include "cache.h"

#include <errno.h>

#include <utlist.h>

#include "client.h"
#include "clock.h"
#include "close.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/thread.h"
#include "hold.h"
#include "mapping.h"
#include "timeline-maps.h"
#include "trace.h"

/* a pass closes 1/PART of the limit more than it must, because a scan of all mappings costs more than a few closes */
#define PART     64
#define AGAIN_MS 2  /* milliseconds between two passes of the closer thread while a due mapping or record is in use */

/* ---- the bound ---- */

static bool exceeds_bound(const struct gpub_client *client)
{
	const struct cache *cache = &client->cache;

	return client->mapping_count > cache->mappings || client->mapping_bytes > cache->bytes;
}

static bool has_room(const struct gpub_client *client)
{
	const struct cache *cache = &client->cache;

	return client->mapping_count <= cache->mappings - cache->mappings / PART &&
	       client->mapping_bytes <= cache->bytes - cache->bytes / PART;
}

static bool is_full(const struct gpub_client *client)
{
	return exceeds_bound(client) || timeline_maps_full(client);
}

/* ---- the order of use ---- */

static uint64_t acquire_count(const struct mapping *mapping)
{
	const struct record *record;
	uint64_t count = 0;

	DL_FOREACH2(mapping->records, record, mapping_next)
		count += record_acquire_count(record);
	return count;
}

/* Comparison for a sort: mappings that the broker wants back come first, then the least recently used. */
static int compare_use(const struct mapping *a, const struct mapping *b)
{
	if (a->wanted != b->wanted)
		return a->wanted ? -1 : 1;
	return (a->used > b->used) - (a->used < b->used);
}

static void sort_by_use(struct gpub_client *client)
{
	struct mapping *mapping;
	uint64_t count;

	client->cache.scans++;
	DL_FOREACH(client->mappings, mapping) {
		count = acquire_count(mapping);
		if (count != mapping->acquires)
			mapping->used = client->cache.scans;
		mapping->acquires = count;
	}
	DL_SORT(client->mappings, compare_use);
}

/* ---- passes ---- */

void cache_pass_begin(struct gpub_client *client, enum cache_scope scope, struct cache_pass *pass)
{
	*pass = (struct cache_pass){ .scope = scope, .number = ++client->passes, .bounded = exceeds_bound(client) };
	if (pass->bounded && scope == CACHE_DUE)
		sort_by_use(client);
}

/*
 * Moves the mapping that it returns to the end of client->mappings. So the visited mappings keep their order, and the
 * next mapping that this pass has not visited is near the front.
 */
struct mapping *cache_pass_next(struct gpub_client *client, const struct cache_pass *pass)
{
	struct mapping *mapping;

	DL_FOREACH(client->mappings, mapping)
		if (mapping->passed[pass->scope] < pass->number)
			break;
	if (!mapping)
		return NULL;
	mapping->passed[pass->scope] = pass->number;
	DL_DELETE(client->mappings, mapping);
	DL_APPEND(client->mappings, mapping);
	return mapping;
}

static bool is_due(const struct gpub_client *client, const struct mapping *mapping, const struct cache_pass *pass)
{
	return pass->scope == CACHE_ALL || mapping->wanted || (pass->bounded && !has_room(client));
}

/*
 * Whether an acquirer waits for a record of the mapping. Such an acquirer has waited for the mapping to open, and has
 * no hold yet. If it came by a ticket that can be redeemed once, it could not open the mapping again.
 */
static bool is_awaited(const struct mapping *mapping)
{
	const struct record *record;

	DL_FOREACH2(mapping->records, record, mapping_next)
		if (record->waiters)
			return true;
	return false;
}

/*
 * Closes a mapping that is due in this pass. -EBUSY: the mapping stays open, or another thread closes it. Only a
 * CACHE_ALL pass waits for a thread that synchronises or changes the mapping (mapping->syncing).
 */
static int close_one(struct gpub_client *client, struct mapping *mapping, const struct cache_pass *pass)
{
	bool all = pass->scope == CACHE_ALL;

	if ((is_awaited(mapping) && !client->leaving) || (!all && (mapping->closing || mapping->syncing)))
		return -EBUSY;
	return mapping_close(client, mapping, all ? CLOSE_WHEN_LANDED : CLOSE_IF_UNUSED);
}

/*
 * Makes one pass, which closes the mappings that are due. Returns the first error except -EBUSY, with its message, or
 * 0. Sets *busy if a mapping that is due stays open. Call it under client->lock, which it releases from time to time.
 */
static int close_pass(struct gpub_client *client, enum cache_scope scope, bool *busy)
{
	struct cache_pass pass;
	struct saved_error text;
	struct mapping *mapping;
	int first = 0, error;

	cache_pass_begin(client, scope, &pass);
	while ((mapping = cache_pass_next(client, &pass))) {
		error = is_due(client, mapping, &pass) ? close_one(client, mapping, &pass) : 0;
		*busy |= error == -EBUSY;
		if (!error || error == -EBUSY || first)
			continue;
		first = error;
		text = error_save();
	}
	if (first)
		error_restore(&text);
	return first;
}

bool cache_make_room(struct gpub_client *client)
{
	bool busy = false;

	if (!is_full(client) || atomic_load(&client->flags) & GPUB_BACKGROUND_CLOSE)
		return false;
	close_pass(client, CACHE_DUE, &busy);
	timeline_maps_give_back(client, false);
	return true;
}

/* ---- unlinked buffers ---- */

/*
 * Returns the next record of client->due that pass number `pass` has not visited, or NULL, as cache_pass_next() does
 * for mappings. A pass with sync does not count as a visit for passes without sync, nor the other way round.
 */
static struct record *due_next(struct gpub_client *client, bool sync, uint64_t pass)
{
	struct record *record;

	DL_FOREACH2(client->due, record, due_next)
		if (record->passed[sync] < pass)
			break;
	if (!record)
		return NULL;
	record->passed[sync] = pass;
	DL_DELETE2(client->due, record, due_prev, due_next);
	DL_APPEND2(client->due, record, due_prev, due_next);
	return record;
}

/* Returns the next mapping of client->wanted that pass number `pass` has not visited, or NULL. */
static struct mapping *wanted_next(struct gpub_client *client, uint64_t pass)
{
	struct mapping *mapping;

	DL_FOREACH2(client->wanted, mapping, wanted_next)
		if (mapping->passed_wanted < pass)
			break;
	if (!mapping)
		return NULL;
	mapping->passed_wanted = pass;
	DL_DELETE2(client->wanted, mapping, wanted_prev, wanted_next);
	DL_APPEND2(client->wanted, mapping, wanted_prev, wanted_next);
	return mapping;
}

/*
 * Closes each mapping of client->wanted whose close need not wait. True: another one may become such a mapping when
 * returns in stream order land, or a thread that uses it now has done so.
 */
static bool close_wanted(struct gpub_client *client)
{
	uint64_t pass = ++client->passes;
	struct mapping *mapping;
	bool again = false, quiesced;

	while ((mapping = wanted_next(client, pass))) {
		quiesced = mapping_is_quiesced(mapping);
		/* a close would wait while mapping->syncing is set */
		again |= (mapping->syncing || is_awaited(mapping) ||
			  mapping_close(client, mapping, CLOSE_IF_QUIESCED) == -EBUSY) && quiesced;
	}
	return again;
}

bool cache_retire(struct gpub_client *client, bool sync)
{
	uint64_t pass = ++client->passes;
	struct record *record;
	bool again = false;
	int error;

	while ((record = due_next(client, sync, pass))) {
		error = record_retire(client, record, sync);
		/* this driver cannot wait for the device, so close the whole mapping, once no lease holds it */
		if (error == -ENOTSUP && record->mapping && !is_awaited(record->mapping))
			error = mapping_close(client, record->mapping, CLOSE_IF_UNUSED);
		/*
		 * after an error, unless that close failed, the record is still in client->due, and the caller may try
		 * again after a pause
		 */
		again |= error && (sync || record_quiesced(record));
	}
	again |= close_wanted(client);
	return again;
}

/* ---- all of it ---- */

int cache_close_all(struct gpub_client *client)
{
	bool busy = false;
	int error;

	pthread_mutex_lock(&client->lock);
	error = close_pass(client, CACHE_ALL, &busy);
	{
		SAVE_ERROR();

		cache_retire(client, true);
	}
	timeline_maps_give_back(client, true);
	pthread_mutex_unlock(&client->lock);
	return error;
}

int gpub_trim(gpub_client *client)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	TRACE("trim");
	return error ? error : cache_close_all(client);
}

/* ---- the closer thread ---- */

/* Whether a mapping, a record or a timeline map is due for the closer thread. */
static bool any_due(const struct gpub_client *client)
{
	const struct mapping *wanted;

	if (!(atomic_load(&client->flags) & GPUB_BACKGROUND_CLOSE))
		return false;
	if (client->due || is_full(client) || client->timelines.fresh)
		return true;
	DL_SEARCH_SCALAR(client->mappings, wanted, wanted, true);
	return wanted;
}

/*
 * Closes, retires and unmaps what is due. True: a due mapping or record is still in use, or too much is still open. A
 * return wakes no thread, so the closer thread then tries again after a pause.
 */
static bool close_due(struct gpub_client *client)
{
	bool again;

	CRASH_POINT(closer_begins);
	for (int ordinal = 0; ordinal < client->devices; ordinal++)
		client_notice_reset(client, ordinal);
	again = cache_retire(client, true);
	close_pass(client, CACHE_DUE, &again);
	timeline_maps_give_back(client, false);
	again |= is_full(client);
	CRASH_POINT(closer_done);
	return again;
}

static bool closer_ends(const struct gpub_client *client)
{
	return client->leaving || atomic_load(&client->guard->state) != CLIENT_OPEN;
}

static void *closer_main(void *argument)
{
	struct gpub_client *client = argument;
	struct timespec soon;
	HOLD_CANCELLATION();

	CRASH_POINT(closer_started);
	pthread_mutex_lock(&client->lock);
	while (!closer_ends(client)) {
		soon = client_deadline(AGAIN_MS);
		if (!any_due(client))
			pthread_cond_wait(&client->changed, &client->lock);
		else if (close_due(client)) /* after false, check any_due() again, because the lock was released */
			pthread_cond_timedwait(&client->changed, &client->lock, &soon);
	}
	pthread_mutex_unlock(&client->lock);
	return NULL;
}

void cache_stop(struct gpub_client *client)
{
	if (client->closing)
		pthread_join(client->closer, NULL);
	client->closing = false;
}

/* ---- settings ---- */

/*
 * Starts the closer thread if GPUB_BACKGROUND_CLOSE is set and the thread does not run. Wakes the thread, so that it
 * looks at the new settings. Returns 0, or the error of thread_start().
 */
static int closer_wake(struct gpub_client *client)
{
	int error = 0;

	if (!client->closing && atomic_load(&client->flags) & GPUB_BACKGROUND_CLOSE) {
		error = thread_start(&client->closer, closer_main, client);
		client->closing = !error;
	}
	pthread_cond_broadcast(&client->changed);
	return error;
}

int gpub_set_flags(gpub_client *client, unsigned flags)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error && flags & ~GPUB_BACKGROUND_CLOSE)
		error = error_set(-EINVAL, "unknown flags: GPUB_BACKGROUND_CLOSE is the only one");
	if (error)
		return error;
	pthread_mutex_lock(&client->lock);
	atomic_store(&client->flags, flags);
	error = closer_wake(client);
	pthread_mutex_unlock(&client->lock);
	return error;
}

int gpub_set_cache(gpub_client *client, unsigned mappings, uint64_t bytes)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (error)
		return error;
	pthread_mutex_lock(&client->lock);
	client->cache.mappings = mappings;
	client->cache.bytes = bytes;
	error = closer_wake(client);
	pthread_mutex_unlock(&client->lock);
	return error;
}
