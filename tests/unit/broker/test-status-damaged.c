/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status-damaged.c - what broker-status shows of a file that is not whole: its broker is writing it, was killed in
 * the middle, or somebody changed it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "status-file.h"

/* ---- torn ---- */

/* Nothing is unreadable, and this is that buffer's name. */
static void expect_name(int fd, size_t i, const char *name)
{
	struct shown shown = read_file(fd);
	const json_t *buffer = json_array_get(json_object_get(shown.text, "buffers"), i);

	assert_int_equal(shown.unreadable, 0);
	assert_string_equal(json_string_value(json_object_get(buffer, "name")), name);
	shown_free(&shown);
}

struct repair {
	int         fd;
	atomic_bool is_done;
};

static void *repair_later(void *argument)
{
	struct repair *repair = argument;

	usleep(20000);
	put_header(repair->fd, header_of(RECORDS));
	put_record(repair->fd, LIVE, record_of(LIVE));
	atomic_store(&repair->is_done, true);
	return NULL;
}

/*
 * The broker was in the middle of writing header and record: they are read again until they are whole. On a busy
 * machine the other thread may come later than the reader's patience ends: that is no failure, but a reader that begins
 * behind it must succeed.
 */
static void test_torn(void **unused)
{
	struct repair repair = { .fd = good_file() };
	struct shown shown;
	pthread_t thread;
	bool was_done, good = false;
	int error;

	(void)unused;
	put(repair.fd, "X", 1, offsetof(struct status_header, waiting));
	put(repair.fd, "X", 1, (off_t)STATUS_OFFSET(LIVE) + 40);
	assert_int_equal(pthread_create(&thread, NULL, repair_later, &repair), 0);
	do {
		was_done = atomic_load(&repair.is_done);
		error = shown_read_fd(&shown, "x", repair.fd);
		if (error)
			continue;
		good = !shown.unreadable && size_of(&shown, "buffers") == 2;
		shown_free(&shown);
	} while (!good && !was_done);
	pthread_join(thread, NULL);
	assert_true(good);
	close(repair.fd);
}

static void put_copy(int fd, uint64_t offset, const void *bytes, size_t size)
{
	struct status_copy copy = { .offset = offset };

	memcpy(copy.bytes, bytes, size);
	put(fd, &copy, sizeof copy, STATUS_COPY);
}

/*
 * The broker was killed while it wrote a record, which was there or was not, or while it freed it: what it wrote is
 * shown.
 */
static void test_killed_in_a_record(void **unused)
{
	union status_record record = record_of(LIVE), free_one = { 0 };

	(void)unused;
	strcpy(record.buffer.name, "longer");
	status_seal(&record.seal, status_size(record.type), 2);
	for (size_t done = 8; done < sizeof record; done += 8)
		for (int was_there = 0; was_there < 2; was_there++) {
			int fd = good_file();
			struct shown shown;

			put_record(fd, LIVE, record_of(was_there ? LIVE : FREE));
			put_copy(fd, STATUS_OFFSET(LIVE), &record, sizeof record);
			put(fd, &record, done, (off_t)STATUS_OFFSET(LIVE));
			expect_name(fd, 1, "longer");
			put_record(fd, LIVE, record_of(LIVE));
			put_copy(fd, STATUS_OFFSET(LIVE), &free_one, sizeof free_one);
			put(fd, (char *)&free_one + sizeof free_one - done, done,
			    (off_t)(STATUS_OFFSET(LIVE) + sizeof free_one - done));
			shown = read_file(fd);
			assert_int_equal(shown.unreadable, 0);
			shown_free(&shown);
			close(fd);
		}
}

/* It was killed while it wrote the copy, or wrote something else: the record is as it was. */
static void test_a_copy_of_something_else(void **unused)
{
	union status_record record = record_of(LIVE);
	int fd = good_file();

	(void)unused;
	strcpy(record.buffer.name, "other");
	status_seal(&record.seal, status_size(record.type), 2);
	put_copy(fd, STATUS_COPY, &record, sizeof record);
	expect_name(fd, 1, "live");
	put_copy(fd, STATUS_OFFSET(FREE), &record, sizeof record);
	expect_name(fd, 1, "live");
	put_copy(fd, 0, &record, sizeof record);
	expect_name(fd, 1, "live");
	close(fd);
}

static void test_killed_in_the_header(void **unused)
{
	struct status_header header = header_of(RECORDS);

	(void)unused;
	header.waiting = 4;
	header.counters.buffers_created = 77;
	status_seal(&header.seal, STATUS_HEADER_SEALED, 2);
	for (size_t done = 8; done < sizeof header; done += 8) {
		int fd = good_file();
		struct shown shown;

		put_copy(fd, 0, &header, sizeof header);
		put(fd, &header, done, 0);
		shown = read_file(fd);
		assert_true(shown.header.waiting == (done > offsetof(struct status_header, seal) ? 4 : 3));
		shown_free(&shown);
		close(fd);
	}
}

/* It stays torn, as where a machine went down: the rest is shown, and that one is counted. */
static void test_damaged(void **unused)
{
	(void)unused;
	for (int which = 0; which < FREE; which++) {
		int fd = good_file();
		struct shown shown;

		put(fd, "X", 1, (off_t)STATUS_OFFSET(which) + (off_t)sizeof(struct status_seal) + 9);
		shown = read_file(fd);
		assert_int_equal(shown.unreadable, 1);
		assert_int_equal(size_of(&shown, "buffers"), which == LIVE || which == DRAINING ? 1 : 2);
		shown_free(&shown);
		close(fd);
	}
}

/* What is sealed may be nonsense all the same. */
static void test_nonsense(void **unused)
{
	union status_record bad[6];

	(void)unused;
	for (int i = 0; i < 6; i++)
		bad[i] = record_of(i < 3 ? LIVE : SESSION);
	bad[0].buffer.state = STATUS_BUFFER_STATES;
	memset(bad[1].buffer.name, 'x', sizeof bad[1].buffer.name);
	strcpy(bad[2].buffer.name, "\033[2J");
	bad[3].session.state = STATUS_SESSION_STATES;
	memset(bad[4].session.command, 'x', sizeof bad[4].session.command);
	bad[5].type = TRACKED_TYPES;
	for (int i = 0; i < 6; i++) {
		int fd = good_file();
		struct shown shown;

		status_seal(&bad[i].seal, i < 5 ? status_size(bad[i].type) : sizeof bad[i], 1);
		put(fd, &bad[i], sizeof bad[i], (off_t)STATUS_OFFSET(FREE));
		shown = read_file(fd);
		assert_int_equal(shown.unreadable, 1);
		assert_int_equal(size_of(&shown, "buffers"), 2);
		assert_int_equal(size_of(&shown, "sessions"), 1);
		shown_free(&shown);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torn),
		cmocka_unit_test(test_killed_in_a_record),
		cmocka_unit_test(test_a_copy_of_something_else),
		cmocka_unit_test(test_killed_in_the_header),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests_name("status-damaged", tests, NULL, NULL);
}
