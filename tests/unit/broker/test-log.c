/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-log.c - logging neither blocks the broker nor floods the log.
 *
 * stderr is a pipe here, of which the other end is in this process.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/log.h"

static int reader, stderr_before;
static char said[1 << 17];

static int setup(void **state)
{
	int ends[2];

	(void)state;
	/* what would wait for ever ends the test */
	alarm(20);
	stderr_before = dup(STDERR_FILENO);
	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK) || dup2(ends[1], STDERR_FILENO) < 0)
		return -1;
	close(ends[1]);
	reader = ends[0];
	log_serving(true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(reader);
	return dup2(stderr_before, STDERR_FILENO) < 0 || close(stderr_before);
}

/* All that was written since the last time; how many lines. */
static unsigned lines(void)
{
	ssize_t got, length = 0;
	unsigned count = 0;

	while ((got = read(reader, said + length, sizeof said - 1 - (size_t)length)) > 0)
		length += got;
	said[length] = 0;
	for (const char *c = said; *c; c++)
		count += *c == '\n';
	return count;
}

/* More than a pipe takes. The first is a line of the rate, so this goes before what empties the bucket. */
static void invariant_5_a_full_pipe_keeps_nobody_waiting(void **state)
{
	char text[400];

	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	for (int i = 0; i < 1000; i++)
		log_say("%s", text);
	log_line("a client's");
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	assert_in_range(lines(), 20, 999);
	log_say("there is room again");
	assert_int_equal(lines(), 2);
	assert_non_null(strstr(said, "lines were left out\n"));
	assert_non_null(strstr(said, ": there is room again\n"));
}

static void test_a_flood_is_thinned_out(void **state)
{
	(void)state;
	for (int i = 0; i < 500; i++)
		log_line("line %d", i);
	assert_in_range(lines(), LOG_BURST - 1, LOG_BURST + 10);
	/* the program's own is not */
	for (int i = 0; i < 50; i++)
		log_say("own %d", i);
	assert_int_equal(lines(), 51);
	assert_non_null(strstr(said, "lines were left out\n"));
	usleep(300000);
	log_line("later");
	assert_int_equal(lines(), 1);
}

static void test_one_line_that_is_left_out(void **state)
{
	(void)state;
	do
		log_line("another");
	while (lines() == 1);
	log_say("own");
	assert_int_equal(lines(), 2);
	assert_non_null(strstr(said, ": 1 line was left out\n"));
}

static void test_a_long_line_is_cut_and_ended(void **state)
{
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	log_say("%s", text);
	assert_int_equal(lines(), 1);
	log_say("next");
	assert_int_equal(lines(), 1);
}

static void test_levels(void **state)
{
	static const struct {
		enum log_level level;
		unsigned       told; /* of the note and the detail; what fails is always */
	} levels[] = { { LOG_QUIET, 0 }, { LOG_NORMAL, 1 }, { LOG_VERBOSE, 2 } };

	(void)state;
	usleep(500000); /* the rate's bucket is empty after a flood */
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		log_level_set(levels[i].level);
		log_note("a note");
		log_detail("a detail");
		assert_int_equal(lines(), levels[i].told);
		log_say("a failure");
		log_line("a client's");
		assert_int_equal(lines(), 2);
	}
	log_level_set(LOG_NORMAL);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_a_full_pipe_keeps_nobody_waiting),
		ON(test_a_flood_is_thinned_out),
		ON(test_one_line_that_is_left_out),
		ON(test_a_long_line_is_cut_and_ended),
		ON(test_levels),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
