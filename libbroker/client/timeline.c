/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c - gpub_signal_on, gpub_wait_on, gpub_timeline, gpub_timeline_wait: order between processes' streams.
 *
 * The writer's GPU writes the timeline's word, and the GPUs of all readers read it. This file registers the timeline's
 * page with the device on first use, and queues the operation. It reads in the board how a timeline has ended, because
 * only the broker can write the board. Owns nothing.
 */
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call.h"
#include "clock.h"
#include "common/crash-point.h"
#include "common/thread.h"
#include "interrupt.h"
#include "slot.h"
#include "timeline-wait.h"
#include "timeline.h"

static int writer_ask(struct gpub_client *client, struct record *record, const struct timeline_map *map, int *fd)
{
	struct wire_message request, reply;
	int error;

	CRASH_POINT(writer_begin);
	wire_init(&request, WIRE_WRITER, 0);
	request.grant_id.mapping = RECORD_MAPPING(atomic_load(&record->state));
	request.grant_id.serial = map->serial;
	error = call_broker(client, &request, &reply, fd, NULL);
	if (!error && *fd < 0)
		error = error_set(-EMFILE, "no descriptor is left in this process for a timeline: close some, or "
					   "raise ulimit -n");
	return error;
}

/* Maps the page in the file `fd` writable. Call it under map->signalling. */
static int writer_map(struct gpub_client *client, const struct record *record, struct timeline_map *map, int fd)
{
	struct timeline_page *page = timeline_page_map(fd, PROT_READ | PROT_WRITE);
	int error;

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

/* Threads that ask at the same time all get the page. The first one maps it. */
int timeline_writer_become(struct gpub_client *client, struct record *record, struct timeline_map *map)
{
	int fd = -1, error;

	pthread_mutex_unlock(&map->signalling);
	error = writer_ask(client, record, map, &fd);
	pthread_mutex_lock(&map->signalling);
	if (error)
		return error;
	CRASH_POINT(writer_granted);
	if (!map->writable)
		error = writer_map(client, record, map, fd);
	close(fd);
	return error;
}

static int signal_locked(struct gpub_client *client, struct record *record, struct timeline_map *map, uint64_t value,
			 void *stream)
{
	int error = timeline_signal_prepare(client, record, map, value);

	if (!error)
		error = client->device->stream_write(stream, &map->writable->word, value);
	if (!error)
		map->signalled = value;
	return error;
}

/*
 * May block, under map->signalling, while the stream's queue is full. Then other signals on the timeline wait, too, as
 * they must, because their values are larger.
 */
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

int timeline_page_prepare(struct gpub_client *client, struct timeline_map *map)
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

int timeline_wait_of_ended(const gpub_lease *lease, struct device_word *word)
{
	struct slot *slot;
	int error = lease_slot(lease, &slot);

	if (!error)
		*word = (struct device_word){ .word = (uint64_t *)slot->word, .value = atomic_load(slot->word) };
	return error;
}

static int wait_ended(const gpub_lease *lease, void *stream)
{
	struct device_word word;
	int error = timeline_wait_of_ended(lease, &word);

	return error ? error : lease->client->device->stream_wait(stream, word.word, word.value);
}

static int wait_queue(struct gpub_client *client, const struct record *record, struct timeline_map *map, uint64_t value,
		      void *stream)
{
	int error = timeline_wait_prepare(client, map);

	if (!error)
		error = client->device->stream_wait(stream, &map->page->word, value);
	if (!error)
		timeline_wait_note(map, value, record->ordinal);
	return error;
}

int gpub_wait_on(const gpub_lease *lease, uint64_t value, void *stream)
{
	struct timeline_map *map;
	struct record *record;
	int error = timeline_of(lease, 0, &record, &map);
	HOLD_CANCELLATION();

	if (!error)
		error = timeline_wait_check(value);
	if (error)
		return error;
	if (timeline_map_ended(map))
		error = wait_ended(lease, stream);
	else
		error = wait_queue(lease->client, record, map, value, stream);
	CRASH_POINT(wait_queued);
	return error;
}

/* The state of a timeline at one moment. */
struct reading {
	uint64_t         value; /* the largest value that the timeline has reached */
	enum board_ended ended;
};

/*
 * Reads the timeline of the lease's buffer, also one that has ended. -EOWNERDEAD: the writer wrote an end mark itself,
 * and the board does not say at which value.
 */
static int timeline_read(const gpub_lease *lease, struct reading *reading)
{
	struct timeline_map *map;
	struct record *record;
	int error = timeline_of(lease, 0, &record, &map);

	if (error)
		return error;
	/*
	 * reads the page before the board, because the broker publishes the end in the board before it writes the mark
	 */
	reading->value = timeline_word(map);
	reading->ended = timeline_map_ended(map);
	if (reading->ended != BOARD_RUNS)
		reading->value = atomic_load_explicit(&map->end->last, memory_order_relaxed);
	/* no signal sets such a value: it is the end mark of a writer that has lost its broker, or forges a mark */
	if (reading->value > GPUB_TIMELINE_MAX)
		return error_set(-EOWNERDEAD, "the process that wrote this timeline died, or lost its broker: its work "
					      "is not complete");
	return 0;
}

int gpub_timeline(const gpub_lease *lease, uint64_t *value)
{
	struct reading now;
	int error = timeline_read(lease, &now);

	if (error)
		return error;
	if (!value)
		return error_set(-EINVAL, "there is no place for the value: pass the address of one");
	if (now.ended == BOARD_DIED)
		return error_set(-EOWNERDEAD,
				 "the process that wrote this timeline died at %llu, or lost its broker: its work is "
				 "not complete",
				 (unsigned long long)now.value);
	*value = now.value;
	return 0;
}

/* ---- a wait of the calling thread ---- */

#define NAP_FIRST_US 20
#define NAP_LAST_US  1000 /* longest nap, because a GPU that writes the word wakes no thread */

/* Sleeps for `us` microseconds, or until the host device writes the timeline's word, which was seen->value. */
static void word_nap(const struct timeline_map *map, const struct reading *seen, unsigned us)
{
	const struct timespec nap = { .tv_nsec = us * 1000l };

	syscall(SYS_futex, &map->page->word, FUTEX_WAIT, (uint32_t)seen->value, &nap, NULL, 0);
}

/*
 * Stores the timeline map of the lease's buffer with a reference, which keeps the map if another thread returns the
 * lease. *ordinal: ordinal of the lease's device.
 */
static int map_keep(const gpub_lease *lease, struct timeline_map **map, int32_t *ordinal)
{
	struct gpub_client *client = lease->client;
	struct record *record;
	int error;

	pthread_mutex_lock(&client->lock);
	error = timeline_of(lease, 0, &record, map);
	if (!error) {
		timeline_map_share(*map);
		*ordinal = record->ordinal;
	}
	pthread_mutex_unlock(&client->lock);
	return error;
}

static void map_release(struct gpub_client *client, struct timeline_map *map)
{
	pthread_mutex_lock(&client->lock);
	timeline_map_put(client, map);
	pthread_mutex_unlock(&client->lock);
}

static int wait_verdict(uint64_t value, int timeout_ms, const struct reading *now)
{
	if (now->value >= value)
		return 0;
	if (now->ended != BOARD_RUNS)
		return error_set(-EOWNERDEAD, "the process that writes this timeline %s at %llu, before %llu",
				 now->ended == BOARD_LEFT ? "left" : "died", (unsigned long long)now->value,
				 (unsigned long long)value);
	return error_set(-ETIMEDOUT, "the timeline has reached %llu, and not %llu within %d ms",
			 (unsigned long long)now->value, (unsigned long long)value, timeout_ms);
}

static bool waits_on(uint64_t value, const struct timespec *deadline, const struct reading *now)
{
	return now->value < value && now->ended == BOARD_RUNS && !client_past(deadline);
}

/*
 * Waits until the timeline has reached `value` or ended, or the deadline (NULL: none) has passed. *now: the last
 * reading, which the caller sets at first. Returns 0, or the error of timeline_read() or of the interrupt function.
 */
static int wait_until(const gpub_lease *lease, const struct timeline_map *map, uint64_t value,
		      const struct timespec *deadline, struct reading *now)
{
	struct timespec next = { 0 };
	unsigned us = NAP_FIRST_US;
	int error = 0;

	while (!error && waits_on(value, deadline, now)) {
		word_nap(map, now, us);
		us = 2 * us < NAP_LAST_US ? 2 * us : NAP_LAST_US;
		error = interrupt_ask_now_and_then(&next);
		if (!error)
			error = timeline_read(lease, now);
	}
	return error;
}

/* Does the work of gpub_timeline_wait(). Records the wait, so that the broker can show it to a user whose job hangs. */
static int wait_here(const gpub_lease *lease, uint64_t value, int timeout_ms, struct reading *now)
{
	struct timespec end = client_deadline(timeout_ms), *deadline = timeout_ms < 0 ? NULL : &end;
	struct thread_wait wait;
	struct timeline_map *map;
	int32_t ordinal;
	int error = timeline_read(lease, now);

	if (error || !timeout_ms || !waits_on(value, NULL, now))
		return error;
	error = map_keep(lease, &map, &ordinal);
	if (error)
		return error;
	timeline_wait_begin(map, &wait, value, ordinal);
	error = wait_until(lease, map, value, deadline, now);
	timeline_wait_end(map, &wait);
	map_release(lease->client, map);
	return error;
}

int gpub_timeline_wait(const gpub_lease *lease, uint64_t value, int timeout_ms, uint64_t *reached)
{
	struct reading now = { 0 };
	int error = timeline_wait_check(value);
	HOLD_CANCELLATION();

	if (!error && timeout_ms < -1)
		error = error_set(-EINVAL, "a timeout is at least 0, or -1 for no limit");
	if (!error)
		error = wait_here(lease, value, timeout_ms, &now);
	if (!error)
		error = wait_verdict(value, timeout_ms, &now);
	if (!error && reached)
		*reached = now.value;
	return error;
}
