/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status.c - a status file that somebody removed is made again with its events, and the file of a broker that died
 * is taken over by the next one. session-harness.h is the world.
 */
#include "session-harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/base/process-start.h"
#include "broker/status/status.h"

static uint8_t ring[STATUS_HEADER_SIZE - STATUS_RING];

static void expect_ring(void)
{
	assert_memory_equal(ring, broker.status->file.bytes + STATUS_RING, sizeof ring);
}

/* Without room for the events no new file is made: the former one, without a name, is written on and keeps them. */
static void test_a_removed_file_comes_again_with_its_events(void **state)
{
	struct peer peer = join();
	struct rlimit before, small;
	int fd = broker.status->file.fd;

	(void)state;
	create_with_mode(&peer, "a", 0600);
	memcpy(ring, broker.status->file.bytes + STATUS_RING, sizeof ring);
	assert_int_equal(shm_unlink(broker.status->name), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ .rlim_cur = STATUS_HEADER_SIZE - 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(status_restore(&broker), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(broker.status->file.fd, fd);
	expect_ring();
	assert_int_equal(status_restore(&broker), 1);
	expect_ring();
	part(&peer);
}

/* ---- the next broker ---- */

static struct status next;
static struct broker other; /* the next broker: the harness's but for its status */

/* Lets the harness's broker die as far as its status file is concerned. Returns the descriptor that is kept. */
static int status_dies(void)
{
	broker_publish(&broker);
	mapped_file_reset(&broker.status->file);
	return fcntl(broker.status->file.fd, F_DUPFD_CLOEXEC, 0);
}

static int reopen(int fd)
{
	other = broker;
	other.status = &next;
	other.tracking = &next.tracking;
	return status_reopen(&next, fd, broker.config->instance);
}

/* The next broker dies, too. */
static void next_dies(void)
{
	if (next.retry)
		event_free(next.retry);
	mapped_file_reset(&next.file);
	close(next.file.fd);
	tracking_deinit(&next.tracking);
}

/* What a reader sees: a whole header of a broker that lives. */
static struct status_header header_seen(void)
{
	int fd = status_file_open(broker.config->instance);
	struct status_header header;

	assert_true(fd >= 0);
	assert_true(status_file_is_held(fd));
	assert_int_equal(pread(fd, &header, sizeof header, 0), sizeof header);
	assert_true(status_is_whole(&header.seal, STATUS_HEADER_SEALED));
	close(fd);
	return header;
}

static void test_the_next_broker_goes_on_with_the_file(void **state)
{
	struct peer peer = join();
	struct status_header before, after;
	struct ring *last = &broker.status->ring;
	uint64_t since = broker.status->owner_now.since;

	(void)state;
	create_with_mode(&peer, "a", 0600);
	broker.status->owner_now.died = 3;
	tracked_changed(broker.tracking, &broker.status->address);
	broker.counters.buffers_created++;
	assert_int_equal(reopen(status_dies()), 0);
	before = header_seen();
	assert_int_equal(next.sequence, broker.status->sequence);
	assert_int_equal(next.ring.events, last->events);
	assert_memory_equal(next.ring.next, last->next, sizeof last->next);
	assert_int_equal(next.ring.predecessor, 0);
	/* readers see what the last broker wrote, until the next one has all to write */
	status_set_process(&next, getppid());
	status_keep_events(&next);
	after = header_seen();
	assert_memory_equal(&before, &after, sizeof before);
	status_start(&other);
	after = header_seen();
	assert_int_equal(after.pid, getppid());
	assert_int_equal(after.start_time, process_start((uint64_t)getppid(), NULL));
	assert_int_equal(after.keeps_events, 1);
	assert_true(after.seal.sequence > before.seal.sequence);
	assert_int_equal(after.records, next.tracking.slots);
	assert_true(after.records < before.records);
	assert_memory_equal(&after.counters, &before.counters, sizeof after.counters);
	assert_int_equal(next.owner_now.died, 3);
	assert_int_equal(next.owner_now.since, since);
	next_dies();
	part(&peer);
}

static unsigned types_in_file(int fd, unsigned type)
{
	union status_record record;
	unsigned count = 0;

	for (off_t at = STATUS_OFFSET(0); pread(fd, &record, sizeof record, at) == sizeof record; at += sizeof record)
		count += record.type == type;
	return count;
}

/*
 * Its record is freed although its slot is behind the last used one: the next object in that slot may be one that the
 * file does not show, whose begin writes nothing.
 */
static void test_the_slot_of_an_ended_object_is_freed_in_the_file(void **state)
{
	struct tracked hidden[8] = { 0 };
	struct peer peer = join();
	struct wire_message drain = named(WIRE_DRAIN, 1, "x");

	(void)state;
	drain.drain.timeout_ms = -1;
	create_with_mode(&peer, "x", 0600);
	assert_int_equal(types_in_file(broker.status->file.fd, TRACKED_BUFFER), 1);
	assert_int_equal(answer_to(&peer, &drain).type, WIRE_DONE);
	run_passes();
	for (unsigned i = 0; i < 8; i++)
		tracked_begin(broker.tracking, &hidden[i], TRACKED_OWED);
	broker_changed(&broker);
	run_passes();
	assert_int_equal(types_in_file(broker.status->file.fd, TRACKED_BUFFER), 0);
	for (unsigned i = 0; i < 8; i++)
		tracked_end(broker.tracking, &hidden[i]);
	part(&peer);
}

/* Its slots are others', and of objects that the file does not show: nothing of the last broker stays in the file. */
static void test_records_of_the_last_broker_are_freed(void **state)
{
	struct tracked hidden[300] = { 0 };
	struct peer peer = join();

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		char name[8];

		snprintf(name, sizeof name, "%u", i);
		create_with_mode(&peer, name, 0600);
	}
	assert_int_equal(reopen(status_dies()), 0);
	assert_int_equal(types_in_file(next.file.fd, TRACKED_BUFFER), 20);
	status_start(&other);
	for (unsigned i = 0; i < 300; i++) /* more than a step of the file's mapping has room for */
		tracked_begin(&next.tracking, &hidden[i], TRACKED_OWED);
	broker_changed(&other);
	status_write(&other);
	assert_int_equal(types_in_file(next.file.fd, TRACKED_BUFFER), 0);
	assert_int_equal(types_in_file(next.file.fd, TRACKED_DEVICE), 1);
	next_dies();
	part(&peer);
}

static void test_its_events_follow_those_of_the_last_broker(void **state)
{
	const struct broker_event event = { .kind = EVENT_CREATE, .name = "a" };
	struct status_event written;
	uint32_t place;

	(void)state;
	for (int i = 0; i < 5; i++)
		status_record(&broker, &event);
	place = status_parts[EVENT_OF_USERS].first + broker.status->ring.next[EVENT_OF_USERS];
	assert_int_equal(reopen(status_dies()), 0);
	status_record(&other, &event);
	assert_int_equal(pread(next.file.fd, &written, sizeof written,
			       (off_t)(STATUS_RING + place * sizeof written)), sizeof written);
	assert_int_equal(written.seal.sequence, broker.status->ring.events + 1);
	assert_true(status_event_is_good(&written, place));
	next_dies();
}

/* As a broker that cannot begin: the one after it goes on with the same file. */
static void test_a_broker_that_does_not_begin_leaves_the_file(void **state)
{
	int kept = status_dies();
	struct status_header before = header_seen(), after;

	(void)state;
	assert_int_equal(reopen(fcntl(kept, F_DUPFD_CLOEXEC, 0)), 0);
	status_close(&next);
	after = header_seen();
	assert_memory_equal(&before, &after, sizeof before);
	assert_int_equal(reopen(kept), 0);
	assert_int_equal(next.ring.events, broker.status->ring.events);
	next_dies();
}

static void test_a_file_without_its_name_is_taken_over(void **state)
{
	int kept = status_dies();

	(void)state;
	assert_int_equal(shm_unlink(broker.status->name), 0);
	assert_int_equal(reopen(kept), 1);
	status_start(&other);
	assert_int_equal(status_restore(&other), 1);
	assert_int_equal(header_seen().records, next.tracking.slots);
	next_dies();
}

static void test_other_files_are_not_taken_over(void **state)
{
	char path[96];
	int locked, nothing = memfd_create("nothing", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(fchmod(nothing, 0600), 0);
	assert_int_equal(reopen(nothing), -EBADMSG);
	close(nothing);
	snprintf(path, sizeof path, SHM_DIR "%s", broker.status->name);
	locked = open(path, O_RDWR | O_CLOEXEC); /* an open file of its own, without the lock */
	assert_int_equal(reopen(locked), -EBUSY);
	close(locked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_removed_file_comes_again_with_its_events),
		ON(test_the_next_broker_goes_on_with_the_file),
		ON(test_records_of_the_last_broker_are_freed),
		ON(test_the_slot_of_an_ended_object_is_freed_in_the_file),
		ON(test_its_events_follow_those_of_the_last_broker),
		ON(test_a_broker_that_does_not_begin_leaves_the_file),
		ON(test_a_file_without_its_name_is_taken_over),
		ON(test_other_files_are_not_taken_over),
	};

	return cmocka_run_group_tests_name("status", tests, harness_group_setup, harness_group_teardown);
}
