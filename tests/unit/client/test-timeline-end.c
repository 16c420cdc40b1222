/* SPDX-License-Identifier: Apache-2.0 */
/* test-timeline-end.c - what a writer waits for at its end, and which timelines it ends when its broker is gone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/timeline-end.h"
#include "client/timeline-map.h"
#include "common/error.h"

static unsigned checks;

static int check_failed(int ordinal)
{
	checks++;
	return error_set(-EIO, "device %d has failed", ordinal);
}

static const struct device device = { .check = check_failed };
static struct gpub_client client = { .device = &device };
static struct timeline_page page[2];
static struct timeline_map map[2]; /* of the first this process is the writer */

static int setup(void **state)
{
	pthread_condattr_t clock;

	(void)state;
	memset(page, 0, sizeof page);
	memset(map, 0, sizeof map);
	checks = 0;
	client.leaving = false;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&client.lock, NULL);
	pthread_cond_init(&client.changed, &clock);
	for (int i = 0; i < 2; i++) {
		pthread_mutex_init(&map[i].signalling, NULL);
		map[i].client = &client;
		map[i].page = &page[i];
	}
	map[0].writable = &page[0];
	map[0].signalled = 5;
	client.timelines = (struct timeline_maps){ .written = &map[0] };
	return 0;
}

static void test_what_landed_is_not_waited_for(void **state)
{
	(void)state;
	page[0].word = 5;
	assert_int_equal(timelines_land(&client), 0);
	assert_int_equal(checks, 0);
}

/* As long as the device works it is waited for; that it does not is seen. */
static void test_what_never_lands_is_an_error(void **state)
{
	(void)state;
	page[0].word = 4;
	assert_int_equal(timelines_land(&client), -EIO);
	assert_int_equal(checks, 1);
}

/* Whatever its writer wrote there: as a larger value than any mark, which a comparison takes for one below 0. */
static void test_others_timelines_are_not_waited_for(void **state)
{
	(void)state;
	page[0].word = 5;
	page[1].word = UINT64_MAX;
	assert_int_equal(timelines_land(&client), 0);
	assert_int_equal(checks, 0);
}

/* It may have landed, or be behind the mark: that is waited for no more, and yet not known. */
static void test_an_end_mark_says_nothing_of_signals(void **state)
{
	(void)state;
	page[0].word = TIMELINE_DIED;
	assert_int_equal(timelines_land(&client), 0);
	assert_int_equal(map[0].landed, 0);
	page[0].word = 5;
	assert_int_equal(timelines_land(&client), 0);
	assert_int_equal(map[0].landed, 5);
	page[0].word = TIMELINE_LEFT;
	assert_true(timeline_map_landed(&map[0]));
}

static void test_an_orphaned_timeline_ends_when_its_signals_landed(void **state)
{
	(void)state;
	page[0].word = 5;
	page[1].word = 7;
	timelines_end_orphaned(&client);
	assert_true(page[0].word == TIMELINE_DIED && map[0].marked);
	assert_true(page[1].word == 7);
}

static void *leave_later(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&client.lock);
	client.leaving = true;
	pthread_cond_broadcast(&client.changed);
	pthread_mutex_unlock(&client.lock);
	return NULL;
}

static void test_a_disconnect_ends_the_waiting_for_signals(void **state)
{
	pthread_t thread;

	(void)state;
	page[0].word = 4;
	assert_int_equal(pthread_create(&thread, NULL, leave_later, NULL), 0);
	timelines_end_orphaned(&client);
	pthread_join(thread, NULL);
	assert_true(page[0].word == 4 && !map[0].marked);
	/* and then ends what is left */
	timelines_end_now(&client);
	assert_true(page[0].word == TIMELINE_DIED && map[0].marked);
	assert_true(page[1].word == 0);
}

/* Behind a LEFT it is the broker's, whose mark says that the writer left. */
static void test_a_writer_that_left_ends_no_timeline(void **state)
{
	(void)state;
	page[0].word = TIMELINE_LEFT;
	client.leaving = true;
	timelines_end_orphaned(&client);
	assert_true(page[0].word == TIMELINE_LEFT);
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_what_landed_is_not_waited_for),
		ON(test_what_never_lands_is_an_error),
		ON(test_others_timelines_are_not_waited_for),
		ON(test_an_end_mark_says_nothing_of_signals),
		ON(test_an_orphaned_timeline_ends_when_its_signals_landed),
		ON(test_a_disconnect_ends_the_waiting_for_signals),
		ON(test_a_writer_that_left_ends_no_timeline),
	};

	return cmocka_run_group_tests_name("timeline-end", tests, NULL, NULL);
}
