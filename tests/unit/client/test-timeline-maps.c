/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-timeline-maps.c - which of a process's timelines are found, which pages are given back, and when.
 *
 * The device is a table that counts what is registered and does nothing else; pages are real ones, so that what is
 * unmapped is seen to be.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/timeline-maps.h"
#include "client/timeline-wait.h"
#include "common/error.h"
#include "common/tables.h"

#define MANY 2000u

static unsigned registered;
static int unregister_error;
static bool lock_was_free;

static struct client_guard guard;
static struct gpub_client client;
static _Atomic uint64_t words[MANY];
static struct board_end ends[MANY];

static int fake_unregister(void *page)
{
	(void)page;
	lock_was_free = !pthread_mutex_trylock(&client.lock);
	if (lock_was_free)
		pthread_mutex_unlock(&client.lock);
	if (unregister_error)
		return error_set(unregister_error, "the device has failed");
	registered--;
	return 0;
}

static const struct device device = { .page_unregister = fake_unregister };

static int setup(void **state)
{
	(void)state;
	tables_init();
	memset(&client, 0, sizeof client);
	memset(ends, 0, sizeof ends);
	client.device = &device;
	client.guard = &guard;
	client.board.words = words;
	client.board.ends = ends;
	client.cache.mappings = CACHE_MAPPINGS;
	atomic_store(&guard.state, CLIENT_OPEN);
	pthread_mutex_init(&client.lock, NULL);
	registered = 0;
	unregister_error = 0;
	for (unsigned i = 0; i < MANY; i++)
		atomic_store(&words[i], BOARD_WORD(i + 1, BOARD_LIVE));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unregister_error = 0;
	timeline_maps_forget(&client);
	return registered != 0 || client.timelines.by_serial != NULL;
}

static int page_fd(void)
{
	int fd = memfd_create("gpubroker-timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && !ftruncate(fd, TIMELINE_PAGE_SIZE));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	return fd;
}

/* The timeline of the buffer in that place. */
static struct timeline_map *get(unsigned i)
{
	struct wire_grant grant = { .serial = i + 1, .buffer = i };
	struct timeline_map *map;
	int fd = page_fd();

	pthread_mutex_lock(&client.lock);
	map = timeline_map_get(&client, &grant, fd);
	pthread_mutex_unlock(&client.lock);
	close(fd);
	assert_non_null(map);
	return map;
}

/* And a stream has waited for it. */
static struct timeline_map *get_used(unsigned i)
{
	struct timeline_map *map = get(i);

	registered += !map->registered;
	map->registered = true;
	return map;
}

/* And signalled it: its page is another one here. */
static struct timeline_map *get_written(unsigned i)
{
	struct timeline_map *map = get_used(i);
	int fd = page_fd();

	registered++;
	pthread_mutex_lock(&map->signalling);
	timeline_map_write(map, timeline_page_map(fd, PROT_READ | PROT_WRITE));
	pthread_mutex_unlock(&map->signalling);
	close(fd);
	return map;
}

static void put(struct timeline_map *map)
{
	pthread_mutex_lock(&client.lock);
	timeline_map_put(&client, map);
	pthread_mutex_unlock(&client.lock);
}

static void give_back(bool all)
{
	pthread_mutex_lock(&client.lock);
	timeline_maps_give_back(&client, all);
	pthread_mutex_unlock(&client.lock);
}

static void buffer_ends(unsigned i)
{
	atomic_store(&words[i], BOARD_WORD(i + 1, BOARD_FREE));
}

static bool is_mapped(const void *page)
{
	return !msync((void *)page, TIMELINE_PAGE_SIZE, MS_ASYNC);
}

static unsigned count(void)
{
	return HASH_COUNT(client.timelines.by_serial);
}

/* ---- finding ---- */

static void test_one_for_each_buffer(void **state)
{
	struct timeline_map *map = get(0);

	(void)state;
	assert_ptr_equal(get(0), map);
	assert_ptr_not_equal(get(1), map);
	assert_int_equal(map->references, 2);
	assert_int_equal(count(), 2);
}

/* How many are looked at to find one is how long its chain is. */
static void test_many_are_found_as_fast_as_few(void **state)
{
	const UT_hash_table *table;
	uint64_t steps = 0;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		get(i);
	table = client.timelines.by_serial->hh.tbl;
	for (unsigned i = 0; i < table->num_buckets; i++)
		steps += (uint64_t)table->buckets[i].count * table->buckets[i].count;
	assert_int_equal(table->num_items, MANY);
	assert_true(steps < 20ull * MANY);
}

/* ---- giving back ---- */

static void test_a_page_that_the_device_does_not_know_goes_at_once(void **state)
{
	struct timeline_map *map = get(0);
	const void *page = map->page;

	(void)state;
	get(0);
	put(map);
	assert_true(is_mapped(page));
	put(map);
	assert_false(is_mapped(page));
	assert_int_equal(count(), 0);
	put(NULL);
}

/* Not by the thread that releases it, which may not wait; and not under the lock. */
static void test_a_registered_page_goes_where_waiting_is_allowed(void **state)
{
	struct timeline_map *map = get_used(0);
	const void *page = map->page;

	(void)state;
	put(map);
	assert_true(is_mapped(page) && registered == 1);
	assert_int_equal(client.timelines.fresh, 1);
	give_back(false);
	assert_true(lock_was_free);
	assert_true(!is_mapped(page) && registered == 0);
	assert_int_equal(count() + client.timelines.unused_count + client.timelines.fresh, 0);
}

static void test_what_is_used_again_stays(void **state)
{
	struct timeline_map *map = get_used(0);

	(void)state;
	put(map);
	assert_ptr_equal(get(0), map);
	give_back(true);
	assert_true(is_mapped(map->page) && registered == 1);
	put(map);
	give_back(true);
	assert_int_equal(registered, 0);
}

static void test_what_a_stream_is_parked_on_stays(void **state)
{
	struct timeline_map *map = get_written(0);
	struct timeline_page *page;
	int fd = page_fd();

	(void)state;
	page = mmap(NULL, TIMELINE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	munmap((void *)map->page, TIMELINE_PAGE_SIZE);
	map->page = timeline_page_map(fd, PROT_READ);
	close(fd);
	buffer_ends(0);
	timeline_wait_note(map, 3, 0);
	put(map);
	give_back(true);
	assert_int_equal(registered, 2);
	page->word = 2;
	give_back(true);
	assert_int_equal(registered, 2);
	page->word = 3;
	give_back(true);
	assert_int_equal(registered, 0);
	assert_true(timeline_waits_none());
	munmap(page, TIMELINE_PAGE_SIZE);
}

/* Its readers are released through it where there is no broker. */
static void test_a_writers_page_stays_as_long_as_the_buffer(void **state)
{
	struct timeline_map *map = get_written(0);

	(void)state;
	put(map);
	give_back(true);
	atomic_store(&words[0], BOARD_WORD(1, BOARD_DRAINING));
	give_back(true);
	assert_int_equal(registered, 2);
	buffer_ends(0);
	atomic_store(&guard.state, CLIENT_LOST); /* it is timeline-end.c's now */
	give_back(true);
	assert_int_equal(registered, 2);
	atomic_store(&guard.state, CLIENT_OPEN);
	atomic_store(&words[0], BOARD_WORD(2, BOARD_LIVE)); /* the place serves another buffer */
	give_back(true);
	assert_int_equal(registered, 0);
	assert_null(client.timelines.written);
}

static void test_a_page_with_a_signal_on_its_way_stays(void **state)
{
	struct timeline_map *map = get_written(0);

	(void)state;
	map->signalled = 7;
	map->writable->word = 6;
	buffer_ends(0);
	put(map);
	give_back(true);
	assert_int_equal(registered, 2);
	map->writable->word = TIMELINE_DIED; /* over which the signal is still to be written */
	give_back(true);
	assert_int_equal(registered, 2);
	map->writable->word = 7;
	give_back(true);
	assert_int_equal(registered, 0);
}

/* So that releasing many, one after the other, does not scan all that others wait for each time. */
static void test_the_work_is_in_proportion_to_what_is_new(void **state)
{
	struct timeline_map *oldest;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		put(get_written(i));
	give_back(false);
	oldest = client.timelines.unused;
	put(get_used(100));
	assert_int_equal(client.timelines.fresh, 1);
	give_back(false);
	assert_ptr_equal(client.timelines.unused->unused_prev, oldest->unused_next);
	for (unsigned i = 0; i < 100; i++)
		buffer_ends(i);
	/* those that have become free since go two at a time */
	for (unsigned i = 101; i < 301; i++) {
		put(get_used(i));
		give_back(false);
	}
	assert_true(count() < 4);
	give_back(true);
	assert_int_equal(count(), 0);
}

static void test_an_acquire_gives_them_back_where_there_are_many(void **state)
{
	unsigned i = 0;

	(void)state;
	client.cache.mappings = 160;
	while (!timeline_maps_full(&client))
		put(get_used(i++));
	assert_int_equal(i, 11);
	give_back(false);
	assert_false(timeline_maps_full(&client));
	assert_int_equal(registered, 0);
	client.cache.mappings = 0;
	assert_false(timeline_maps_full(&client));
	put(get_used(0));
	assert_true(timeline_maps_full(&client));
	client.cache.mappings = UINT32_MAX;
	for (i = 1; !timeline_maps_full(&client); i++)
		put(get_used(i));
	assert_int_equal(i, 1025);
}

static void test_a_page_that_is_not_unregistered_stays_mapped(void **state)
{
	struct timeline_map *map = get_used(0);
	void *page = (void *)map->page;

	(void)state;
	error_set(-ENOENT, "what the caller is told");
	unregister_error = -EIO;
	put(map);
	give_back(true);
	assert_true(is_mapped(page));
	assert_int_equal(count(), 0);
	assert_string_equal(error_text(), "what the caller is told");
	munmap(page, TIMELINE_PAGE_SIZE);
	registered = 0;
}

/* ---- at disconnect ---- */

static void test_all_go_at_disconnect(void **state)
{
	const void *used = get_used(0)->page, *unused = get_used(1)->page, *fresh = get(2)->page;
	struct timeline_map *written = get_written(3);

	(void)state;
	put(get(1));
	written->signalled = written->writable->word = 4;
	written->landed = 4;
	written->writable->word = TIMELINE_LEFT; /* the broker's, by then */
	timeline_maps_forget(&client);
	assert_false(is_mapped(used) || is_mapped(unused) || is_mapped(fresh));
	assert_int_equal(registered + count(), 0);
}

/* To unregister would wait for that stream, which no close waits for: one of another context. */
static void test_no_page_is_unregistered_while_a_stream_works(void **state)
{
	struct timeline_map *written = get_written(0);
	void *page = (void *)written->page, *writable = written->writable;
	const void *fresh = get(1)->page;

	(void)state;
	written->signalled = 4;
	timeline_maps_forget(&client);
	assert_true(is_mapped(page) && is_mapped(writable) && !is_mapped(fresh));
	assert_int_equal(registered, 2);
	munmap(page, TIMELINE_PAGE_SIZE);
	munmap(writable, TIMELINE_PAGE_SIZE);
	registered = 0;

	written = get_used(0);
	page = (void *)written->page;
	timeline_wait_note(written, 1, 0);
	timeline_maps_forget(&client);
	assert_true(is_mapped(page) && registered == 1);
	assert_true(timeline_waits_none());
	munmap(page, TIMELINE_PAGE_SIZE);
	registered = 0;
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_one_for_each_buffer),
		ON(test_many_are_found_as_fast_as_few),
		ON(test_a_page_that_the_device_does_not_know_goes_at_once),
		ON(test_a_registered_page_goes_where_waiting_is_allowed),
		ON(test_what_is_used_again_stays),
		ON(test_what_a_stream_is_parked_on_stays),
		ON(test_a_writers_page_stays_as_long_as_the_buffer),
		ON(test_a_page_with_a_signal_on_its_way_stays),
		ON(test_the_work_is_in_proportion_to_what_is_new),
		ON(test_an_acquire_gives_them_back_where_there_are_many),
		ON(test_a_page_that_is_not_unregistered_stays_mapped),
		ON(test_all_go_at_disconnect),
		ON(test_no_page_is_unregistered_while_a_stream_works),
	};

	return cmocka_run_group_tests_name("timeline-maps", tests, NULL, NULL);
}
