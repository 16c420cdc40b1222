/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-close-concurrent.c - several passes of a client's cache at once: a pass skips no mapping, whatever another does
 * meanwhile. What is due is closed, and nothing else. An error message is that of the error that is returned.
 *
 * As in records-harness.c mappings are made by hand, without a broker. The device is a table whose close does what the
 * test wants in the midst of it, when the lock is released: so the test decides the order of the threads.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "client/cache.h"
#include "client/client.h"
#include "client/close.h"
#include "client/hold.h"
#include "client/mapping.h"
#include "client/records.h"
#include "client/send.h"
#include "common/error.h"

#define MAPPINGS 5
#define LIVE     BOARD_WORD(5, BOARD_LIVE)

static struct gpub_client *client;
static _Atomic uint64_t board_generation = LIVE;
static struct mapping *mappings[MAPPINGS];
static struct record *records[MAPPINGS];
static char memory[MAPPINGS][64];
static unsigned closed[MAPPINGS];
static uint64_t last_mapping;
static sem_t closer_closes, trim_is_over;
static int (*during_close)(unsigned which); /* what the device does; its result */

static int fake_register(void *page, size_t size, bool writable)
{
	(void)page;
	(void)size;
	(void)writable;
	return 0;
}

static int fake_close(int ordinal, void *base)
{
	unsigned which = (unsigned)((char *)base - memory[0]) / sizeof memory[0];

	(void)ordinal;
	closed[which]++;
	return during_close ? during_close(which) : 0;
}

static int fake_sync(int ordinal, const struct device_handle *handle, uint64_t size)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	return 0;
}

static const struct device fake = {
	.kind = DEVICE_HOST, .page_register = fake_register, .close = fake_close, .sync = fake_sync
};

static int open_one(unsigned i)
{
	char name[8] = { (char)('a' + i) };
	struct record *record = records[i] = record_bind(client, name, 0);
	struct mapping *mapping = mappings[i] = calloc(1, sizeof *mapping);

	if (!record || !mapping || record_grow(client, record))
		return -1;
	mapping->id = ++last_mapping;
	mapping->base[VIEW_READ] = mapping->base[VIEW_WRITE] = memory[i];
	if (mapping_add(client, mapping))
		return -1;
	record->generation = &board_generation;
	record->live = LIVE;
	record->rights = GPUB_READ;
	mapping_attach(mapping, record);
	atomic_store(&record->state, RECORD_WORD(mapping->id, RECORD_OPEN));
	return 0;
}

static int setup(void **state)
{
	(void)state;
	during_close = NULL;
	sem_init(&closer_closes, 0, 0);
	sem_init(&trim_is_over, 0, 0);
	memset(closed, 0, sizeof closed);
	client = sodium_init() < 0 ? NULL : client_alloc();
	if (!client)
		return -1;
	client->device = &fake;
	client->link.sock.fd = -1; /* so each send fails */
	atomic_store(&client->guard->state, CLIENT_OPEN);
	for (unsigned i = 0; i < MAPPINGS; i++)
		if (open_one(i))
			return -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sem_post(&trim_is_over); /* also where the test failed before */
	pthread_mutex_lock(&client->lock);
	client->leaving = true;
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
	cache_stop(client);
	during_close = NULL;
	for (struct record *record = client->records.all; record; record = record->next)
		record_drop_holds(record);
	cache_close_all(client);
	pthread_mutex_lock(&client->lock);
	mappings_forget(client);
	pthread_mutex_unlock(&client->lock);
	sodium_free(client->key);
	atomic_store(&client->guard->state, CLIENT_ENDED);
	client_recycle(client);
	return 0;
}

static void hold(unsigned i)
{
	uint64_t token;

	assert_int_equal(record_hold(records[i], &token), 0);
}

/* ---- passes ---- */

/*
 * The trim has come to the two that are held, and closes the third. Meanwhile the closer comes to all up to the last,
 * which it closes until the trim is over.
 */
static int close_both_at_once(unsigned which)
{
	if (which == 2) {
		gpub_set_flags(client, GPUB_BACKGROUND_CLOSE);
		sem_wait(&closer_closes);
	} else if (which == 4) {
		sem_post(&closer_closes);
		sem_wait(&trim_is_over);
	}
	return 0;
}

static void test_a_trim_skips_no_mapping_that_the_closer_visits(void **state)
{
	(void)state;
	hold(0);
	hold(1);
	mappings[4]->wanted = true;
	during_close = close_both_at_once;
	assert_int_equal(gpub_trim(client), 0);
	assert_int_equal(closed[3], 1);
	assert_int_equal(closed[2], 1);
	assert_int_equal(closed[0] + closed[1], 0);
}

static void test_a_pass_comes_to_each_once(void **state)
{
	struct cache_pass pass, due, later;
	unsigned count = 0;

	(void)state;
	pthread_mutex_lock(&client->lock);
	cache_pass_begin(client, CACHE_DUE, &due);
	cache_pass_begin(client, CACHE_ALL, &pass);
	while (cache_pass_next(client, &pass))
		count++;
	assert_int_equal(count, MAPPINGS);
	/* one of another scope, and a later one of this scope, come to all again */
	for (count = 0; cache_pass_next(client, &due); count++)
		;
	assert_int_equal(count, MAPPINGS);
	cache_pass_begin(client, CACHE_ALL, &later);
	for (count = 0; cache_pass_next(client, &later); count++)
		assert_null(cache_pass_next(client, &pass));
	assert_int_equal(count, MAPPINGS);
	/* what comes while it goes on is of the next one: else a pass among threads that open would never end */
	cache_pass_begin(client, CACHE_ALL, &pass);
	cache_pass_next(client, &pass);
	assert_int_equal(open_one(0), 0);
	for (count = 1; cache_pass_next(client, &pass); count++)
		;
	assert_int_equal(count, MAPPINGS);
	pthread_mutex_unlock(&client->lock);
}

static void test_the_cache_closes_the_oldest_first(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MAPPINGS; i++)
		mappings[i]->used = MAPPINGS - i;
	client->cache.scans = MAPPINGS;
	client->cache.mappings = 3;
	pthread_mutex_lock(&client->lock);
	assert_true(cache_make_room(client));
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(closed[4] + closed[3], 2);
	assert_int_equal(closed[0] + closed[1] + closed[2], 0);
	client->cache.mappings = CACHE_MAPPINGS;
}

/* What the broker wants back counts for the bound, so it goes first, however much it is used. */
static void test_what_is_wanted_goes_before_the_oldest(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MAPPINGS; i++)
		mappings[i]->used = i + 1;
	client->cache.scans = MAPPINGS;
	client->cache.mappings = 3;
	mappings[4]->wanted = true;
	pthread_mutex_lock(&client->lock);
	assert_true(cache_make_room(client));
	assert_false(cache_make_room(client));
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(closed[4] + closed[0], 2);
	assert_int_equal(closed[1] + closed[2] + closed[3], 0);
	client->cache.mappings = CACHE_MAPPINGS;
}

/* An acquirer that has its answer and not yet its hold: a ticket that can be redeemed once would be lost. */
static void test_no_pass_closes_what_is_awaited(void **state)
{
	struct waiter waiter;

	(void)state;
	client->cache.mappings = 0;
	mappings[1]->wanted = true;
	pthread_mutex_lock(&client->lock);
	record_wait_begin(records[1], &waiter);
	cache_make_room(client);
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(gpub_trim(client), 0);
	assert_int_equal(closed[1], 0);
	assert_int_equal(closed[0] + closed[2] + closed[3] + closed[4], 4);
	pthread_mutex_lock(&client->lock);
	record_wait_end(records[1], &waiter);
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(gpub_trim(client), 0);
	assert_int_equal(closed[1], 1);
	client->cache.mappings = CACHE_MAPPINGS;
}

/* ---- error messages ---- */

static int fail_in_turn(unsigned which)
{
	if (which == 1)
		return error_set(-EIO, "the first reason");
	if (which == 3)
		return error_set(-ENOMEM, "another reason");
	return 0;
}

static void test_the_message_is_of_the_error_that_is_returned(void **state)
{
	(void)state;
	during_close = fail_in_turn;
	assert_int_equal(gpub_trim(client), -EIO);
	assert_string_equal(gpub_strerror_last(), "the first reason");
	assert_int_equal(closed[4], 1);
}

/* The broker may be gone by then: a cleanup writes no error message. */
static void test_a_cleanup_leaves_the_error_message(void **state)
{
	(void)state;
	error_set(-EDQUOT, "the answer's");
	call_closed(client, 7);
	call_quiesced(client, 7, 8);
	assert_string_equal(error_text(), "the answer's");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_trim_skips_no_mapping_that_the_closer_visits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_pass_comes_to_each_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_cache_closes_the_oldest_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_wanted_goes_before_the_oldest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_pass_closes_what_is_awaited, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_message_is_of_the_error_that_is_returned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_cleanup_leaves_the_error_message, setup, teardown),
	};

	return cmocka_run_group_tests_name("closing", tests, NULL, NULL);
}
