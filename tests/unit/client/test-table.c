/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-table.c - the table of records: what was added is found, what was removed is not, and a reader beside a writer
 * never gets a record of another name.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <sodium.h>

#include "client/record.h"
#include "client/table.h"

#define RECORDS 1000

static struct table table;
static struct record records[RECORDS];

static int setup(void **state)
{
	(void)state;
	memset(&table, 0, sizeof table);
	memset(records, 0, sizeof records);
	return sodium_init() < 0 || table_init(&table);
}

static int teardown(void **state)
{
	(void)state;
	table_deinit(&table);
	return 0;
}

static struct record *find(const char *name, unsigned index)
{
	struct table_key key;
	struct record *record;
	uint64_t version;

	assert_int_equal(table_key_make(&table, &key, name, index), 0);
	record = table_find(&table, &key, &version);
	assert_true(table_unchanged(&table, version));
	return record;
}

/* Names of every length, so that every number of words in a key is tried. */
static const char *name_of(int i)
{
	static char name[NAME_SIZE + 16];

	snprintf(name, sizeof name, "n%d-%090d", i, 0);
	name[4 + i % 91] = 0;
	return name;
}

static void add(int i)
{
	assert_int_equal(table_add(&table, &records[i], name_of(i), (unsigned)i % 3), 0);
}

static struct record *find_number(int i)
{
	return find(name_of(i), (unsigned)i % 3);
}

static void test_found_by_name_and_device(void **state)
{
	(void)state;
	assert_null(find("a", 0));
	assert_int_equal(table_add(&table, &records[0], "a", 0), 0);
	assert_int_equal(table_add(&table, &records[1], "a", 1), 0);
	assert_int_equal(table_add(&table, &records[2], "a/b", 0), 0);
	assert_ptr_equal(find("a", 0), &records[0]);
	assert_ptr_equal(find("a", 1), &records[1]);
	assert_ptr_equal(find("a/b", 0), &records[2]);
	assert_null(find("a", 2));
	assert_null(find("a/", 0));
	assert_null(find("A", 0));
}

/* So many that they lie beside each other, whatever the hash makes of them. */
static void test_one_name_on_many_devices(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 47; i++)
		assert_int_equal(table_add(&table, &records[i], "a", i), 0);
	for (unsigned i = 0; i < 94; i++)
		assert_ptr_equal(find("a", i), i < 47 ? &records[i] : NULL);
}

/* Where one is the beginning of the other, also at the edges of the key's words. */
static void test_prefixes_are_other_names(void **state)
{
	char name[NAME_SIZE];

	(void)state;
	memset(name, 'x', sizeof name);
	for (int length = 1; length < NAME_SIZE; length++) {
		name[length] = 0;
		assert_null(find(name, 0));
		assert_int_equal(table_add(&table, &records[length], name, 0), 0);
		name[length] = 'x';
	}
	for (int length = 1; length < NAME_SIZE; length++) {
		name[length] = 0;
		assert_ptr_equal(find(name, 0), &records[length]);
		name[length] = 'x';
	}
}

/* A record that had a longer name keeps nothing of it. */
static void test_record_takes_another_name(void **state)
{
	(void)state;
	assert_int_equal(table_add(&table, &records[0], "a-rather-long-name/of-a-buffer", 0), 0);
	table_remove(&table, &records[0]);
	assert_int_equal(table_add(&table, &records[0], "short", 1), 0);
	assert_null(find("a-rather-long-name/of-a-buffer", 0));
	assert_ptr_equal(find("short", 1), &records[0]);
}

static void test_bad_names_are_refused(void **state)
{
	struct table_key key;

	(void)state;
	assert_int_equal(table_key_make(&table, &key, "", 0), -EINVAL);
	assert_int_equal(table_key_make(&table, &key, "/a", 0), -EINVAL);
	assert_int_equal(table_key_make(&table, &key, "#1", 0), -EINVAL); /* a key of what was redeemed: no name */
	assert_int_equal(table.live, 0);
}

static void test_grows_and_keeps_all(void **state)
{
	uint32_t before = atomic_load(&table.array)->size;

	(void)state;
	for (int i = 0; i < RECORDS; i++)
		add(i);
	assert_true(atomic_load(&table.array)->size > before);
	assert_int_equal(table.live, RECORDS);
	for (int i = 0; i < RECORDS; i++)
		assert_ptr_equal(find_number(i), &records[i]);
	for (int i = 0; i < RECORDS; i += 2)
		table_remove(&table, &records[i]);
	for (int i = 0; i < RECORDS; i++)
		assert_ptr_equal(find_number(i), i % 2 ? &records[i] : NULL);
	for (int i = 0; i < RECORDS; i += 2)
		add(i);
	for (int i = 0; i < RECORDS; i++)
		assert_ptr_equal(find_number(i), &records[i]);
}

/* Adding and removing for ever fills it with tombstones, not with memory; and a full one still ends a search. */
static void test_tombstones_do_not_fill_it(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		add(i);
	for (int round = 0; round < 1000; round++) {
		add(10 + round % 20);
		assert_ptr_equal(find_number(10 + round % 20), &records[10 + round % 20]);
		table_remove(&table, &records[10 + round % 20]);
		assert_null(find_number(10 + round % 20));
		assert_true(table.used * 4 <= atomic_load(&table.array)->size * 3);
	}
	assert_int_equal(atomic_load(&table.array)->size, 64);
	assert_null(atomic_load(&table.array)->outgrown);
	assert_int_equal(table.live, 10);
	for (int i = 0; i < 10; i++)
		assert_ptr_equal(find_number(i), &records[i]);
}

static void test_a_change_is_noticed(void **state)
{
	struct table_key key;
	uint64_t version;

	(void)state;
	add(0);
	assert_int_equal(table_key_make(&table, &key, name_of(0), 0), 0);
	table_find(&table, &key, &version);
	assert_true(table_unchanged(&table, version));
	add(1);
	assert_false(table_unchanged(&table, version));
	table_find(&table, &key, &version);
	assert_true(table_unchanged(&table, version));
	table_remove(&table, &records[0]);
	assert_false(table_unchanged(&table, version));
	/* in the middle of a change: never used */
	atomic_fetch_add(&table.version, 1);
	table_find(&table, &key, &version);
	assert_false(table_unchanged(&table, version));
	atomic_fetch_add(&table.version, 1);
}

/* ---- readers beside a writer ---- */

#define NAMES     200
#define SPARES    100 /* records for them: one serves many names, one after another */
#define STRESS_MS 1000
#define READERS   2

static char stress_name[NAMES][NAME_SIZE];
static struct record *_Atomic owner_of[NAMES]; /* set before it is added, cleared after it was removed */
static struct record *spare[SPARES];
static unsigned spares;
static _Atomic bool stop;
static _Atomic unsigned wrong, found;

/* A look that nothing disturbed gives the record that the name has in the writer's own list. */
static void look(const struct table_key *key, struct record *_Atomic *owner)
{
	uint64_t version;
	struct record *record = table_find(&table, key, &version), *expected = atomic_load(owner);

	if (!record || !table_unchanged(&table, version))
		return;
	wrong += record != expected;
	found++;
}

/* One name is always there: to miss it while nothing changes is wrong too. */
static void look_for_the_constant(const struct table_key *key)
{
	uint64_t version;
	struct record *record = table_find(&table, key, &version);

	wrong += record != &records[RECORDS - 1] && table_unchanged(&table, version);
}

static void *read_until_stopped(void *argument)
{
	struct table_key keys[NAMES], constant;
	unsigned seed = (unsigned)(uintptr_t)argument;

	for (int i = 0; i < NAMES; i++)
		table_key_make(&table, &keys[i], stress_name[i], 0);
	table_key_make(&table, &constant, "constant", 0);
	while (!atomic_load(&stop)) {
		int i = rand_r(&seed) % NAMES;

		look(&keys[i], &owner_of[i]);
		look_for_the_constant(&constant);
	}
	return NULL;
}

/* Takes the name's record away, or gives it any that is spare. */
static void change(int i, unsigned *seed)
{
	struct record *record = atomic_load(&owner_of[i]);
	unsigned at;

	if (record) {
		table_remove(&table, record);
		atomic_store(&owner_of[i], NULL);
		spare[spares++] = record;
	} else if (spares) {
		at = (unsigned)rand_r(seed) % spares;
		record = spare[at];
		spare[at] = spare[--spares];
		atomic_store(&owner_of[i], record);
		assert_int_equal(table_add(&table, record, stress_name[i], 0), 0);
	}
}

static unsigned write_for_a_while(void)
{
	struct timespec now, start;
	unsigned seed = 7, changes = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (int i = 0; i < 100; i++, changes++)
			change(rand_r(&seed) % NAMES, &seed);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < STRESS_MS);
	return changes;
}

static void test_stress_readers_never_get_a_wrong_record(void **state)
{
	pthread_t reader[READERS];
	unsigned changes;

	(void)state;
	for (int i = 0; i < NAMES; i++)
		snprintf(stress_name[i], NAME_SIZE, "name/%d/%s", i, i % 2 ? "" : "that-takes-several-words");
	for (spares = 0; spares < SPARES; spares++)
		spare[spares] = &records[spares];
	assert_int_equal(table_add(&table, &records[RECORDS - 1], "constant", 0), 0);
	for (uintptr_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, read_until_stopped, (void *)(i + 1)), 0);
	changes = write_for_a_while();
	stop = true;
	for (int i = 0; i < READERS; i++)
		pthread_join(reader[i], NULL);
	assert_int_equal(wrong, 0);
	/* both sides acted, or nothing was tried */
	assert_true(changes > 1000 && found > 1000);
}

/* A key of its own, at random: nobody can choose names that all fall into one place of it. */
static void test_each_table_hashes_in_its_own_way(void **state)
{
	struct table other = { 0 };

	(void)state;
	assert_int_equal(table_init(&other), 0);
	assert_memory_not_equal(table.hash_key, other.hash_key, sizeof table.hash_key);
	table_deinit(&other);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_found_by_name_and_device),
		ON(test_one_name_on_many_devices),
		ON(test_prefixes_are_other_names),
		ON(test_record_takes_another_name),
		ON(test_bad_names_are_refused),
		ON(test_grows_and_keeps_all),
		ON(test_tombstones_do_not_fill_it),
		ON(test_a_change_is_noticed),
		ON(test_each_table_hashes_in_its_own_way),
		ON(test_stress_readers_never_get_a_wrong_record),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
