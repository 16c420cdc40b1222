/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include "table.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define SIZE_FIRST 64
#define TOMBSTONE  ((struct record *)1)

_Static_assert(sizeof(((struct table *)0)->hash_key) == crypto_shorthash_KEYBYTES, "SipHash's key");

static struct table_array *array_new(uint32_t size, struct table_array *outgrown)
{
	struct table_array *array = calloc(1, sizeof *array + size * sizeof array->entry[0]);

	if (array) {
		array->size = size;
		array->outgrown = outgrown;
	}
	return array;
}

int table_init(struct table *table)
{
	struct table_array *array = array_new(SIZE_FIRST, NULL);

	if (!array)
		return -ENOMEM;
	atomic_store(&table->array, array);
	table->used = table->live = 0;
	crypto_shorthash_keygen(table->hash_key);
	return 0;
}

void table_deinit(struct table *table)
{
	struct table_array *array = atomic_load(&table->array), *next;

	for (; array; array = next) {
		next = array->outgrown;
		free(array);
	}
	atomic_store(&table->array, NULL);
}

static inline void key_fill(const struct table *table, struct table_key *key, const char *name, size_t length,
			    unsigned index)
{
	uint8_t hash[crypto_shorthash_BYTES];

	key->words = (uint32_t)length / 8 + 1;
	key->word[key->words - 1] = 0;
	memcpy(key->word, name, length);
	key->index = index;
	crypto_shorthash(hash, (const uint8_t *)name, length, table->hash_key);
	memcpy(&key->hash, hash, sizeof key->hash);
	key->hash += index * 0x9e3779b97f4a7c15ull;
}

int table_key_make(const struct table *table, struct table_key *key, const char *name, unsigned index)
{
	int error = name_check(name);

	if (!error)
		key_fill(table, key, name, strlen(name), index);
	return error;
}

bool table_key_look(const struct table *table, struct table_key *key, const char *name, unsigned index)
{
	size_t length = strnlen(name, NAME_SIZE);

	if (length == NAME_SIZE || *name == '#')
		return false;
	key_fill(table, key, name, length, index);
	return true;
}

/*
 * A writer may change the record's key meanwhile. Then the table's version differs afterwards, and the caller does not
 * use the result.
 */
bool table_is(const struct record *record, const struct table_key *key)
{
	if (atomic_load_explicit(&record->index, memory_order_relaxed) != key->index)
		return false;
	for (uint32_t i = 0; i < key->words; i++)
		if (atomic_load_explicit(&record->name[i], memory_order_relaxed) != key->word[i])
			return false;
	return true;
}

/*
 * Returns the next record whose hash is `hash`, or NULL. *step: how many entries the search has looked at, 0 before the
 * first call; set to go on with the next call.
 */
static inline struct record *next_of(struct table_array *array, uint64_t hash, uint32_t *step)
{
	while (*step < array->size) {
		struct table_entry *entry = &array->entry[((uint32_t)hash + (*step)++) & (array->size - 1)];
		struct record *record = atomic_load_explicit(&entry->record, memory_order_acquire);

		if (!record)
			return NULL;
		if (atomic_load_explicit(&entry->hash, memory_order_relaxed) == hash && record != TOMBSTONE)
			return record;
	}
	return NULL;
}

static inline struct table_array *look_begin(struct table *table, uint64_t *version)
{
	*version = atomic_load_explicit(&table->version, memory_order_acquire);
	return atomic_load_explicit(&table->array, memory_order_acquire);
}

struct record *table_find(struct table *table, const struct table_key *key, uint64_t *version)
{
	struct table_array *array = look_begin(table, version);
	struct record *record;
	uint32_t step = 0;

	do
		record = next_of(array, key->hash, &step);
	while (record && !table_is(record, key));
	return record;
}

struct record *table_guess(struct table *table, const struct table_key *key, uint64_t *version)
{
	uint32_t step = 0;

	return next_of(look_begin(table, version), key->hash, &step);
}

static void change_begin(struct table *table)
{
	atomic_fetch_add_explicit(&table->version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void change_end(struct table *table)
{
	atomic_fetch_add_explicit(&table->version, 1, memory_order_release);
}

static void array_put(struct table_array *array, struct record *record)
{
	uint32_t at = (uint32_t)record->hash & (array->size - 1);

	while (atomic_load_explicit(&array->entry[at].record, memory_order_relaxed))
		at = (at + 1) & (array->size - 1);
	atomic_store_explicit(&array->entry[at].hash, record->hash, memory_order_relaxed);
	atomic_store_explicit(&array->entry[at].record, record, memory_order_release);
}

static void array_copy_live(struct table_array *array, struct table_array *from)
{
	struct record *record;

	for (uint32_t i = 0; i < from->size; i++) {
		record = atomic_load_explicit(&from->entry[i].record, memory_order_relaxed);
		if (record && record != TOMBSTONE)
			array_put(array, record);
	}
}

/*
 * Copies all entries of `from` to `array`, of the same size, in place, so that names that come and go cost no memory. A
 * reader of the array finds that the table's version has changed.
 */
static void array_overwrite(struct table_array *array, struct table_array *from)
{
	for (uint32_t i = 0; i < array->size; i++) {
		struct record *record = atomic_load_explicit(&from->entry[i].record, memory_order_relaxed);
		uint64_t hash = atomic_load_explicit(&from->entry[i].hash, memory_order_relaxed);

		atomic_store_explicit(&array->entry[i].hash, hash, memory_order_relaxed);
		atomic_store_explicit(&array->entry[i].record, record, memory_order_release);
	}
}

/*
 * Removes the tombstones. Moves to an array of twice the size if at least half of the entries have a record. -ENOMEM.
 */
static int table_rebuild(struct table *table)
{
	struct table_array *old = atomic_load_explicit(&table->array, memory_order_relaxed);
	bool grow = table->live * 2 >= old->size;
	struct table_array *array = array_new(grow ? old->size * 2 : old->size, grow ? old : NULL);

	if (!array)
		return -ENOMEM;
	array_copy_live(array, old);
	change_begin(table);
	if (grow)
		atomic_store_explicit(&table->array, array, memory_order_release);
	else
		array_overwrite(old, array);
	table->used = table->live;
	change_end(table);
	if (!grow)
		free(array);
	return 0;
}

int table_add(struct table *table, struct record *record, const char *name, unsigned index)
{
	struct table_array *array = atomic_load_explicit(&table->array, memory_order_relaxed);
	struct table_key key;
	int error = 0;

	/* the name is not checked, because a redeemed buffer has a key that is no valid name (delegate.c) */
	key_fill(table, &key, name, strlen(name), index);
	if ((table->used + 1) * 4 > array->size * 3)
		error = table_rebuild(table);
	if (error)
		return error;
	array = atomic_load_explicit(&table->array, memory_order_relaxed);
	change_begin(table);
	for (uint32_t i = 0; i < NAME_WORDS; i++)
		atomic_store_explicit(&record->name[i], i < key.words ? key.word[i] : 0, memory_order_relaxed);
	atomic_store_explicit(&record->index, index, memory_order_relaxed);
	record->hash = key.hash;
	array_put(array, record);
	table->used++;
	table->live++;
	change_end(table);
	return 0;
}

void table_remove(struct table *table, struct record *record)
{
	struct table_array *array = atomic_load_explicit(&table->array, memory_order_relaxed);
	uint32_t at = (uint32_t)record->hash & (array->size - 1);

	while (atomic_load_explicit(&array->entry[at].record, memory_order_relaxed) != record)
		at = (at + 1) & (array->size - 1);
	change_begin(table);
	atomic_store_explicit(&array->entry[at].record, TOMBSTONE, memory_order_release);
	table->live--;
	change_end(table);
}
