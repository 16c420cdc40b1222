/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c - gpub_signal_on, gpub_wait_on, gpub_timeline: order between the streams of processes.
 *
 * The writer's GPU writes the word, and the GPUs of all readers read it. This file registers the page with the device on first
 * use, and queues the operation. It reads how a timeline ended in the board, which only the broker can write. Owns nothing.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/thread.h"
#include "lease.h"
#include "timeline-maps.h"
#include "timeline-wait.h"

/*
 * The record that a lease holds, and its timeline, if it has one and the lease has these rights. Another thread may
 * notice a reset of the device at any moment, which ends the lease, and the record may be reused for another buffer. So
 * the hold is checked again after the timeline was read; the timeline itself stays.
 */
static inline __attribute__((always_inline)) int timeline_of(const gpub_lease *lease, unsigned rights, struct record **record,
							     struct timeline_map **map)
{
	int error = lease_record(lease, record);

	if (error)
		return error;
	*map = (*record)->timeline;
	error = lease_record(lease, record);
	if (error)
		return error;
	if (!*map)
		return error_set(-EINVAL, "the buffer has no timeline: create it with GPUB_TIMELINE");
	if (rights & ~lease->rights)
		return error_set(-EACCES, "the lease does not have GPUB_WRITE: acquire it with that right");
	return 0;
}

static int writer_ask(struct gpub_client *client, struct record *record, const struct timeline_map *map, int *fd)
{
	struct wire_message request, reply;
	int error;

	CRASH_POINT(writer_begin);
	wire_init(&request, WIRE_WRITER, 0);
	request.grant_id.grant = RECORD_GRANT(atomic_load(&record->state));
	request.grant_id.serial = map->serial;
	error = call_broker(client, &request, &reply, fd, NULL);
	if (!error && *fd < 0)
		error = error_set(-EMFILE, "no descriptor is left in this process for a timeline: close some, or "
					   "raise ulimit -n");
	return error;
}

/* Under map->signalling: one thread of the process asks; the others find the page mapped. */
static int writer_become(struct gpub_client *client, struct record *record, struct timeline_map *map)
{
	struct timeline_page *page;
	int fd = -1, error = writer_ask(client, record, map, &fd);

	if (error)
		return error;
	CRASH_POINT(writer_granted);
	page = timeline_page_map(fd, PROT_READ | PROT_WRITE);
	close(fd);
	if (!page)
		return -ENOMEM;
	error = client->device->page_register(page, TIMELINE_PAGE_SIZE, true);
	if (error)
		munmap(page, TIMELINE_PAGE_SIZE);
	else
		timeline_map_write(map, page);
	map->ordinal = record->ordinal;
	CRASH_POINT(writer_mapped);
	return error;
}

static int signal_locked(struct gpub_client *client, struct record *record, struct timeline_map *map, uint64_t value,
			 void *stream)
{
	int error = 0;

	if (value > GPUB_TIMELINE_MAX || value <= map->signalled)
		return error_set(-EINVAL, "a timeline's values grow, from 1 to 2^62 - 1: this one has reached %llu",
				 (unsigned long long)map->signalled);
	if (map->marked)
		return error_set(-ECONNRESET, "the broker is gone, and this timeline has ended");
	if (!map->writable)
		error = writer_become(client, record, map);
	if (!error)
		error = client->device->stream_write(stream, &map->writable->word, value);
	if (!error)
		map->signalled = value;
	return error;
}

/* If the stream is full, the other signals of its timeline wait, too: they have larger values. */
int gpub_signal_on(const gpub_lease *lease, uint64_t value, void *stream)
{
	struct timeline_map *map;
	struct record *record;
	int error = timeline_of(lease, GPUB_WRITE, &record, &map);
	HOLD_CANCELLATION();

	if (error)
		return error;
	pthread_mutex_lock(&map->signalling);
	error = signal_locked(lease->client, record, map, value, stream);
	CRASH_POINT(signal_queued);
	pthread_mutex_unlock(&map->signalling);
	return error;
}

static int page_prepare(struct gpub_client *client, struct timeline_map *map)
{
	int error = 0;

	pthread_mutex_lock(&client->lock);
	if (!map->registered) {
		error = client->device->page_register((void *)map->page, TIMELINE_PAGE_SIZE, false);
		map->registered = !error;
		CRASH_POINT(timeline_registered);
	}
	pthread_mutex_unlock(&client->lock);
	return error;
}

static int wait_queue(struct gpub_client *client, const struct record *record, struct timeline_map *map, uint64_t value,
		      void *stream)
{
	int error = map->registered ? 0 : page_prepare(client, map);

	if (!error)
		error = client->device->stream_wait(stream, &map->page->word, value);
	if (!error)
		timeline_wait_note(map, value, record->ordinal);
	return error;
}

/*
 * The timeline has ended, so every wait is done, and the page's word does not count, which a late signal may have overwritten.
 * The stream waits for the value that the lease's own word has. So a stream that is being captured is refused as in any wait.
 */
static int wait_ended(const gpub_lease *lease, void *stream)
{
	struct slot *slot;
	int error = lease_slot(lease, &slot);

	if (error)
		return error;
	return lease->client->device->stream_wait(stream, (const uint64_t *)slot->word, atomic_load(slot->word));
}

int gpub_wait_on(const gpub_lease *lease, uint64_t value, void *stream)
{
	struct timeline_map *map;
	struct record *record;
	int error = timeline_of(lease, 0, &record, &map);
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (value > GPUB_TIMELINE_MAX)
		return error_set(-EINVAL, "a timeline's values end at 2^62 - 1");
	if (timeline_map_ended(map))
		error = wait_ended(lease, stream);
	else
		error = wait_queue(lease->client, record, map, value, stream);
	CRASH_POINT(wait_queued);
	return error;
}

int gpub_timeline(const gpub_lease *lease, uint64_t *value)
{
	struct timeline_map *map;
	struct record *record;
	enum board_ended ended;
	uint64_t reached;
	int error = timeline_of(lease, 0, &record, &map);

	if (error)
		return error;
	if (!value)
		return error_set(-EINVAL, "there is no place for the value: pass the address of one");
	/* the broker publishes the end in the board before it writes the mark: so the page is read first */
	reached = __atomic_load_n(&map->page->word, __ATOMIC_ACQUIRE);
	ended = timeline_map_ended(map);
	if (ended == BOARD_LEFT)
		reached = atomic_load_explicit(&map->end->last, memory_order_relaxed);
	/* a value that no signal sets is the mark of a writer whose broker is gone, or forged by the writer */
	if (ended == BOARD_DIED || reached > GPUB_TIMELINE_MAX)
		return error_set(-EOWNERDEAD, "the process that wrote this timeline died, or lost its broker: its work "
					      "is not complete");
	*value = reached;
	return 0;
}
