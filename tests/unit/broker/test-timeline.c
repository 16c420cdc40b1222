/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-timeline.c - a timeline's page: who may write it, one writer, and its end: the mark in it and the board's word.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/registry/timeline.h"
#include "common/board.h"
#include "common/error.h"
#include "common/timeline-page.h"

#define SERIAL 41

static struct timelines timelines;
static struct timeline *timeline;
static struct board_end end;

static const struct timeline_place place = { .end = &end, .serial = SERIAL };

/* As the registry and marks.c do both. */
static void end_now(bool died)
{
	timeline_end(timeline, died);
	timeline_publish(timeline);
}

static void renew(uint64_t serial)
{
	timeline_renew(timeline, serial);
	timeline_publish(timeline);
}

static int setup(void **state)
{
	(void)state;
	timeline = NULL;
	memset(&end, 0, sizeof end);
	return timeline_create(&timelines, &place, &timeline);
}

static int teardown(void **state)
{
	(void)state;
	timeline_destroy(timeline);
	return 0;
}

static struct timeline_page page_read(void)
{
	struct timeline_page page;

	assert_int_equal(pread(timeline->readable, &page, sizeof page, 0), sizeof page);
	return page;
}

static void page_write(uint64_t word)
{
	assert_int_equal(pwrite(timeline->writable, &word, sizeof word, 0), sizeof word);
}

/* ---- the page ---- */

static void test_page_is_one_zeroed_page_of_its_user(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(fstat(timeline->writable, &st), 0);
	assert_int_equal(st.st_size, TIMELINE_PAGE_SIZE);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(page_read().word, 0);
	assert_int_equal(ftruncate(timeline->writable, 0), -1);
	assert_int_equal(ftruncate(timeline->writable, 2 * TIMELINE_PAGE_SIZE), -1);
	assert_int_equal(fcntl(timeline->readable, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(timeline->writable, F_GETFD), FD_CLOEXEC);
}

static void test_readers_cannot_write(void **state)
{
	void *page;

	(void)state;
	assert_int_equal(pwrite(timeline->readable, "x", 1, 0), -1);
	assert_ptr_equal(mmap(NULL, TIMELINE_PAGE_SIZE, PROT_WRITE, MAP_SHARED, timeline->readable, 0), MAP_FAILED);
	page = mmap(NULL, TIMELINE_PAGE_SIZE, PROT_READ, MAP_SHARED, timeline->readable, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(mprotect(page, TIMELINE_PAGE_SIZE, PROT_READ | PROT_WRITE), -1);
	page_write(41);
	assert_true(((struct timeline_page *)page)->word == 41);
	munmap(page, TIMELINE_PAGE_SIZE);
}

/* As a reader that is another user's process would try. */
static void test_another_user_cannot_reopen_it_for_writing(void **state)
{
	char path[40];
	int status;
	pid_t pid;

	(void)state;
	if (getuid())
		return; /* only root can become another user */
	snprintf(path, sizeof path, "/proc/self/fd/%d", timeline->readable);
	pid = fork();
	assert_true(pid >= 0);
	/* dumpable, or /proc itself would refuse whatever the mode */
	if (!pid)
		_exit(setuid(65534) || prctl(PR_SET_DUMPABLE, 1) || open(path, O_RDWR) >= 0 || errno != EACCES ||
		      access("/proc/self/fd", X_OK));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int create_limited(int resource)
{
	struct rlimit old, none;
	struct timeline *result = NULL;
	int error;

	getrlimit(resource, &old);
	none = old;
	none.rlim_cur = 0;
	setrlimit(resource, &none);
	errno = EAGAIN; /* what the loop's last accept(2) left is nobody's reason */
	error = timeline_create(&timelines, &place, &result);
	setrlimit(resource, &old);
	assert_null(result);
	return error;
}

static void test_failure_says_why(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(create_limited(RLIMIT_FSIZE), -EFBIG);
	assert_int_equal(create_limited(RLIMIT_NOFILE), -EMFILE);
	timeline_destroy(NULL);
}

/* ---- the writer ---- */

static void test_one_writer(void **state)
{
	(void)state;
	assert_int_equal(timeline_claim(timeline, 7, &timelines, "u"), 0);
	assert_int_equal(timeline_claim(timeline, 8, &timelines, "u"), -EBUSY);
	assert_int_equal(timeline_claim(timeline, 7, &timelines, "u"), 0);
	assert_int_equal(timeline->writer, 7);
}

static void test_nobody_claims_an_ended_one(void **state)
{
	(void)state;
	assert_int_equal(timeline_claim(timeline, 7, &timelines, "u"), 0);
	end_now(true);
	assert_int_equal(timeline_claim(timeline, 7, &timelines, "u"), -EOWNERDEAD);
	assert_int_equal(timeline_claim(timeline, 8, &timelines, "u"), -EOWNERDEAD);
}

/* ---- the sessions' lists, by which their ends find it ---- */

static void test_it_is_in_the_lists_of_its_creator_and_its_writer(void **state)
{
	struct timelines writer = { 0 };

	(void)state;
	assert_ptr_equal(timelines.made, timeline);
	assert_int_equal(timeline_claim(timeline, 7, &writer, "u"), 0);
	assert_int_equal(timeline_claim(timeline, 7, &writer, "u"), 0);
	assert_ptr_equal(writer.written, timeline);
	assert_null(timeline->written_next);
	assert_null(timelines.written);
	timeline_destroy(timeline);
	timeline = NULL;
	assert_null(timelines.made);
	assert_null(writer.written);
}

/* A timeline is its buffer's, and outlives both. */
static void test_it_outlives_the_sessions_of_both(void **state)
{
	struct timelines writer = { 0 };

	(void)state;
	assert_int_equal(timeline_claim(timeline, 7, &writer, "u"), 0);
	timelines_forget(&writer);
	timelines_forget(&timelines);
	assert_null(writer.written);
	assert_null(timelines.made);
	assert_int_equal(timeline_claim(timeline, 8, &writer, "u"), -EBUSY);
	assert_null(writer.written);
}

static void test_the_brokers_own_has_no_creator(void **state)
{
	struct timeline *own;

	(void)state;
	assert_int_equal(timeline_create(NULL, &place, &own), 0);
	assert_ptr_equal(timelines.made, timeline);
	assert_null(timeline->made_next);
	timeline_destroy(own);
}

/* ---- the end ---- */

/* The comparison of stream waits: signed and cyclic. No wait for a legal value may be left after the mark. */
static void expect_released(uint64_t word)
{
	static const uint64_t awaited[] = { 0, 1, 42, (1ull << 62) - 1 };

	for (size_t i = 0; i < sizeof awaited / sizeof awaited[0]; i++)
		assert_true((int64_t)(word - awaited[i]) >= 0);
}

static void test_death_releases_every_wait(void **state)
{
	(void)state;
	page_write(12);
	end_now(true);
	assert_true(page_read().word == TIMELINE_DIED && TIMELINE_DIED == INT64_MAX);
	expect_released(page_read().word);
	assert_int_equal(board_end_of(&end, SERIAL), BOARD_DIED);
}

static void test_leaving_releases_every_wait(void **state)
{
	(void)state;
	page_write(12);
	end_now(false);
	assert_true(page_read().word == TIMELINE_LEFT && TIMELINE_LEFT != TIMELINE_DIED);
	expect_released(page_read().word);
	assert_int_equal(board_end_of(&end, SERIAL), BOARD_LEFT);
	assert_int_equal(atomic_load(&end.last), 12);
}

/* The first end counts, and the last value is the writer's, not the mark. */
static void test_ends_once(void **state)
{
	(void)state;
	page_write(12);
	end_now(false);
	end_now(true);
	assert_true(page_read().word == TIMELINE_LEFT);
	assert_int_equal(board_end_of(&end, SERIAL), BOARD_LEFT);
	assert_int_equal(atomic_load(&end.last), 12);
}

/* A place serves one buffer after the other. */
static void test_an_end_is_one_buffers(void **state)
{
	(void)state;
	assert_int_equal(board_end_of(&end, SERIAL), BOARD_RUNS);
	end_now(true);
	assert_int_equal(board_end_of(&end, SERIAL + 1), BOARD_RUNS);
}

/* Its buffer has another serial since it was renamed: the end is found by both, whenever it came. */
static void test_an_end_is_found_by_an_earlier_serial(void **state)
{
	(void)state;
	renew(SERIAL + 3);
	assert_int_equal(board_end_of(&end, SERIAL + 3), BOARD_RUNS);
	end_now(true);
	assert_int_equal(board_end_of(&end, SERIAL), BOARD_DIED);
	renew(SERIAL + 5);
	assert_int_equal(board_end_of(&end, SERIAL), BOARD_DIED);
	assert_int_equal(board_end_of(&end, SERIAL + 5), BOARD_DIED);
	assert_int_equal(board_end_of(&end, SERIAL + 6), BOARD_RUNS);
}

/* What overwrites the mark, a late signal or a process that got the page from the writer, does not change the end. */
static void test_a_mark_is_written_anew(void **state)
{
	(void)state;
	page_write(12);
	end_now(false);
	assert_false(timeline_mark(timeline));
	page_write(13);
	assert_true(timeline_mark(timeline));
	assert_true(page_read().word == TIMELINE_LEFT);
	assert_false(timeline_mark(timeline));
	assert_int_equal(atomic_load(&end.last), 12);
}

/* ---- what the writer's open file shares with the broker's ---- */

static void test_the_writers_flags_are_not_the_brokers(void **state)
{
	int fd = timeline_open(timeline);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK | O_NOATIME), 0);
	assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
	end_now(true);
	assert_true(page_read().word == TIMELINE_DIED);
	close(fd);
}

/* A lease would have the broker wait for its holder at the next timeline_open(). */
static void test_no_lease_is_to_be_had(void **state)
{
	int fd = timeline_open(timeline), other;

	(void)state;
	assert_int_equal(fcntl(fd, F_SETLEASE, F_WRLCK), -1);
	assert_int_equal(fcntl(timeline->readable, F_SETLEASE, F_RDLCK), -1);
	other = timeline_open(timeline);
	assert_true(other >= 0);
	close(other);
	close(fd);
}

static void test_no_descriptor_for_the_writer(void **state)
{
	struct rlimit old, none;
	int fd;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	fd = timeline_open(timeline);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(fd, -EMFILE);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_page_is_one_zeroed_page_of_its_user),
		ON(test_readers_cannot_write),
		ON(test_another_user_cannot_reopen_it_for_writing),
		ON(test_failure_says_why),
		ON(test_one_writer),
		ON(test_nobody_claims_an_ended_one),
		ON(test_it_is_in_the_lists_of_its_creator_and_its_writer),
		ON(test_it_outlives_the_sessions_of_both),
		ON(test_the_brokers_own_has_no_creator),
		ON(test_death_releases_every_wait),
		ON(test_leaving_releases_every_wait),
		ON(test_ends_once),
		ON(test_an_end_is_one_buffers),
		ON(test_an_end_is_found_by_an_earlier_serial),
		ON(test_a_mark_is_written_anew),
		ON(test_the_writers_flags_are_not_the_brokers),
		ON(test_no_lease_is_to_be_had),
		ON(test_no_descriptor_for_the_writer),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
