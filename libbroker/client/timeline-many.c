/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-many.c - gpub_signal_many_on, gpub_wait_many_on: several timelines by one operation of the stream.
 *
 * All timelines are checked and prepared before the operation is queued, so either all words are queued or none. A
 * signal locks its timelines in the order of the maps' addresses. Owns nothing.
 */
#include <stdlib.h>

#include "common/crash-point.h"
#include "common/thread.h"
#include "timeline-wait.h"
#include "timeline.h"

_Static_assert(GPUB_TIMELINES_MAX <= DEVICE_WORDS_MAX, "a device takes the words of all");

/* One of the timelines that a call signals or waits for. */
struct member {
	const gpub_lease    *lease;
	struct record       *record;
	struct timeline_map *map;
	uint64_t             value;
	bool                 ended; /* the timeline has ended, so timeline_wait_note() is not called */
};

static int members_read(struct member *members, const gpub_lease *const *leases, const uint64_t *values, unsigned count,
			unsigned rights)
{
	int error = 0;

	if (count > GPUB_TIMELINES_MAX)
		return error_set(-EINVAL, "%u timelines in one call: %u is the most", count, GPUB_TIMELINES_MAX);
	if (count && (!leases || !values))
		return error_set(-EINVAL,
				 "%u timelines need as many leases and values: pass the addresses of both arrays",
				 count);
	for (unsigned i = 0; i < count && !error; i++) {
		members[i].lease = leases[i];
		members[i].value = values[i];
		error = timeline_of(leases[i], rights, &members[i].record, &members[i].map);
		if (!error && leases[i]->client->device != leases[0]->client->device)
			error = error_set(-EINVAL, "leases of a host device and of a GPU in one call: make one call "
						   "for each kind");
	}
	return error;
}

/* ---- signals ---- */

static int compare_maps(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct member *)left)->map, b = (uintptr_t)((const struct member *)right)->map;

	return (a > b) - (a < b);
}

/* Sorts the members into the order in which their timelines are locked. -EINVAL: two members have one timeline. */
static int members_sort(struct member *members, unsigned count)
{
	qsort(members, count, sizeof *members, compare_maps);
	for (unsigned i = 1; i < count; i++)
		if (members[i].map == members[i - 1].map)
			return error_set(-EINVAL, "a timeline is there twice: a call signals each one once");
	return 0;
}

/* Queues the signals of members whose timelines this session writes, and which are locked. */
static int signal_locked(struct member *members, unsigned count, void *stream)
{
	struct device_word words[GPUB_TIMELINES_MAX];
	int error;

	for (unsigned i = 0; i < count; i++) {
		struct member *m = &members[i];

		error = timeline_signal_check(m->map, m->value);
		if (error)
			return error;
		words[i] = (struct device_word){ .word = &m->map->writable->word, .value = m->value };
	}
	error = members->lease->client->device->stream_write_many(stream, words, count);
	for (unsigned i = 0; i < count && !error; i++)
		members[i].map->signalled = members[i].value;
	return error;
}

/*
 * Prepares each member's signal, for which this session may have to become the writer. Locks one timeline at a time,
 * because no lock may be held while a thread waits for the broker.
 */
static int members_become_writers(struct member *members, unsigned count)
{
	int error = 0;

	for (unsigned i = 0; i < count && !error; i++) {
		struct member *m = &members[i];

		pthread_mutex_lock(&m->map->signalling);
		error = timeline_signal_prepare(m->lease->client, m->record, m->map, m->value);
		pthread_mutex_unlock(&m->map->signalling);
	}
	return error;
}

int gpub_signal_many_on(const gpub_lease *const *leases, const uint64_t *values, unsigned count, void *stream)
{
	struct member members[GPUB_TIMELINES_MAX];
	int error = members_read(members, leases, values, count, GPUB_WRITE);
	HOLD_CANCELLATION();

	if (!error && count)
		error = members_sort(members, count);
	if (!error)
		error = members_become_writers(members, count);
	if (error || !count)
		return error;
	for (unsigned i = 0; i < count; i++)
		pthread_mutex_lock(&members[i].map->signalling);
	error = signal_locked(members, count, stream);
	CRASH_POINT(signal_queued);
	for (unsigned i = count; i-- > 0;)
		pthread_mutex_unlock(&members[i].map->signalling);
	return error;
}

/* ---- waits ---- */

static int wait_word(struct member *m, struct device_word *word)
{
	int error = timeline_wait_check(m->value);

	if (error)
		return error;
	m->ended = timeline_map_ended(m->map);
	if (m->ended)
		return timeline_wait_of_ended(m->lease, word);
	error = timeline_wait_prepare(m->lease->client, m->map);
	if (error)
		return error;
	*word = (struct device_word){ .word = (uint64_t *)&m->map->page->word, .value = m->value };
	return 0;
}

int gpub_wait_many_on(const gpub_lease *const *leases, const uint64_t *values, unsigned count, void *stream)
{
	struct device_word words[GPUB_TIMELINES_MAX];
	struct member members[GPUB_TIMELINES_MAX];
	int error = members_read(members, leases, values, count, 0);
	HOLD_CANCELLATION();

	for (unsigned i = 0; i < count && !error; i++)
		error = wait_word(&members[i], &words[i]);
	if (error || !count)
		return error;
	error = members->lease->client->device->stream_wait_many(stream, words, count);
	for (unsigned i = 0; i < count && !error; i++)
		if (!members[i].ended)
			timeline_wait_note(members[i].map, members[i].value, members[i].record->ordinal);
	CRASH_POINT(wait_queued);
	return error;
}
