/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - what timeline.c and timeline-many.c need before they queue a signal or a wait: the lease's timeline, its
 * page, and the right to write the page. Owns nothing.
 */
#ifndef GPUB_TIMELINE_H
#define GPUB_TIMELINE_H

#include <errno.h>

#include "client.h"
#include "common/error.h"
#include "lease.h"
#include "timeline-maps.h"

/*
 * Finds the record that a lease holds, and the record's timeline. Returns 0; -EINVAL if the buffer has no timeline;
 * -EACCES if the lease does not have `rights`; or the error of lease_record(). Another thread may notice a reset of the
 * device at any moment, which ends the lease, and the record may be reused for another buffer. So the hold is checked
 * again after the timeline was read. A map whose lease a reset has ended exists until the client ends.
 */
static inline __attribute__((always_inline)) int timeline_of(const gpub_lease *lease, unsigned rights,
							     struct record **record, struct timeline_map **map)
{
	int error = lease_record(lease, record);

	if (error)
		return error;
	*map = (*record)->timeline;
	error = lease_record(lease, record);
	if (error)
		return error;
	if (!*map)
		return error_set(-EINVAL, "'%s' has no timeline: create it with GPUB_TIMELINE", record_title(*record));
	if (rights & ~lease->rights)
		return error_set(-EACCES, "the lease of '%s' does not have GPUB_WRITE: acquire it with that right",
				 record_title(*record));
	return 0;
}

/*
 * Asks the broker to make this session the timeline's writer, and maps the page writable. Call it under
 * map->signalling, which it releases while it waits for the answer, because this thread's interrupt function may be
 * called then.
 */
int timeline_writer_become(struct gpub_client *client, struct record *record, struct timeline_map *map);

/* Checks the value of a signal. Call it under map->signalling. */
static inline int timeline_signal_check(const struct timeline_map *map, uint64_t value)
{
	if (value > GPUB_TIMELINE_MAX || value <= map->signalled)
		return error_set(-EINVAL, "a timeline's values grow, from 1 to 2^62 - 1: this one has reached %llu",
				 (unsigned long long)map->signalled);
	if (map->marked)
		return error_set(-ECONNRESET, "the broker is gone, and this timeline has ended");
	return 0;
}

/*
 * Checks the value of a signal, and makes this session the timeline's writer if it is not. Call it under
 * map->signalling, which it releases meanwhile if this session is not the writer yet. A caller that then queues the
 * signal keeps that mutex until map->signalled is set.
 */
static inline int timeline_signal_prepare(struct gpub_client *client, struct record *record, struct timeline_map *map,
					  uint64_t value)
{
	int error = timeline_signal_check(map, value);

	if (error || map->writable)
		return error;
	error = timeline_writer_become(client, record, map);
	/* another thread may have signalled a larger value meanwhile */
	return error ? error : timeline_signal_check(map, value);
}

/* Registers the timeline's page, mapped read-only, with the device. */
int timeline_page_prepare(struct gpub_client *client, struct timeline_map *map);

static inline int timeline_wait_prepare(struct gpub_client *client, struct timeline_map *map)
{
	return map->registered ? 0 : timeline_page_prepare(client, map);
}

static inline int timeline_wait_check(uint64_t value)
{
	return value > GPUB_TIMELINE_MAX ? error_set(-EINVAL, "a timeline's values end at 2^62 - 1") : 0;
}

/*
 * For a wait on a timeline that has ended: stores the address and the present value of the word of the lease's slot
 * (slot.word). If the caller queues a wait for this word, the wait ends at once, and a stream that is being captured is
 * refused as in any wait. The timeline's own word will not do, because a late signal may have overwritten the end mark.
 */
int timeline_wait_of_ended(const gpub_lease *lease, struct device_word *word);

#endif
