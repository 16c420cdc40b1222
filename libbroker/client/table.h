/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the map from (name, device) to record, read without a lock.
 *
 * A hash table with open addressing, under a sequence lock. Writers, who hold client->lock, make the version odd while
 * they change the table. A reader whose version stayed even and unchanged saw one consistent state. Outgrown arrays are
 * kept until table_deinit(), because a reader may still use one. Owns the arrays, not the records.
 */
#ifndef GPUB_TABLE_H
#define GPUB_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/name.h"

struct record;

/*
 * One entry of the table. A reader may rely on it that `hash` is the hash of `record` only if the table's version is
 * unchanged afterwards.
 */
struct table_entry {
	_Atomic uint64_t hash;
	struct record *_Atomic record;
};

struct table_array {
	uint32_t            size; /* number of entries: a power of two */
	struct table_array *outgrown; /* the smaller array that this array has replaced; NULL: none */
	struct table_entry  entry[];
};

struct table {
	_Atomic uint64_t version; /* incremented when a writer begins and ends a change; odd in between */
	struct table_array *_Atomic array;
	uint32_t used; /* number of entries in use, tombstones of removed records included */
	uint32_t live; /* number of entries that have a record */
	uint8_t  hash_key[16];
};

/* A key of the table: a buffer's name, padded with zeros, and a device. */
struct table_key {
	uint64_t word[NAME_SIZE / 8];
	uint32_t words; /* number of elements of `word` that the name takes, with its NUL */
	uint32_t index; /* the broker's index of the device */
	uint64_t hash;
};

int table_init(struct table *table); /* returns 0 or -ENOMEM */
void table_deinit(struct table *table);

/* Makes the key of a buffer's name and the broker's index of a device. Returns 0, or the error of name_check(). */
int table_key_make(const struct table *table, struct table_key *key, const char *name, unsigned index);

/*
 * As table_key_make(), for a look-up only. Does not check the name, because a look-up of an invalid name finds nothing.
 * False: the name is too long, or begins with '#' as the keys of buffers that came by a ticket do.
 */
bool table_key_look(const struct table *table, struct table_key *key, const char *name, unsigned index);

/* Returns the record of the key, or NULL. *version: for table_unchanged(). Any thread may call it. */
struct record *table_find(struct table *table, const struct table_key *key, uint64_t *version);

/*
 * As table_find(), but compares only the hash. The caller prefetches what the record points to, then compares the key
 * by table_is().
 */
struct record *table_guess(struct table *table, const struct table_key *key, uint64_t *version);
bool table_is(const struct record *record, const struct table_key *key);

/* Whether the table has not changed since the look-up that stored `version`. */
static inline bool table_unchanged(struct table *table, uint64_t version)
{
	atomic_thread_fence(memory_order_acquire);
	return !(version & 1) && atomic_load_explicit(&table->version, memory_order_relaxed) == version;
}

/*
 * Sets the record's key, which must not be in the table yet, and adds the record. Returns 0 or -ENOMEM. Call it, and
 * table_remove(), under client->lock.
 */
int table_add(struct table *table, struct record *record, const char *name, unsigned index);
void table_remove(struct table *table, struct record *record);

#endif
