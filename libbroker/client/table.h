/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the map from (name, device) to record, read without a lock.
 *
 * Open addressing under a sequence lock. Writers (under the client's lock) make the version odd while they change
 * something. A reader whose version stayed even and unchanged saw one consistent state. Outgrown arrays are kept
 * until the end, because a reader may still use one. Owns the arrays, not the records.
 */
#ifndef GPUB_TABLE_H
#define GPUB_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/name.h"

struct record;

/* One entry. hash and record belong together if the table's version is unchanged. */
struct table_entry {
	_Atomic uint64_t hash;
	struct record *_Atomic record;
};

struct table_array {
	uint32_t            size; /* number of entries: a power of two */
	struct table_array *outgrown; /* the smaller array that this one has replaced; NULL: none */
	struct table_entry  entry[];
};

struct table {
	_Atomic uint64_t version; /* odd while a writer changes something */
	struct table_array *_Atomic array;
	uint32_t used; /* entries in use, tombstones of removed records included */
	uint32_t live; /* entries that have a record */
	uint8_t  hash_key[16];
};

/* A key: the name, padded with zeros, and the device. */
struct table_key {
	uint64_t word[NAME_SIZE / 8];
	uint32_t words; /* number of words that the name takes */
	uint32_t index; /* the broker's index of the device */
	uint64_t hash;
};

int table_init(struct table *table); /* -ENOMEM */
void table_deinit(struct table *table);

/* Makes the key of a name and a device. Returns 0, or the error of name_check(). */
int table_key_make(const struct table *table, struct table_key *key, const char *name, unsigned index);

/*
 * As table_key_make(), for a look-up only: accepts invalid names, because the table has none. False: the name is too
 * long, or begins with '#' as the keys of redeemed buffers do.
 */
bool table_key_look(const struct table *table, struct table_key *key, const char *name, unsigned index);

/* Finds the record of a key, or NULL. *version: for table_unchanged(). Any thread. */
struct record *table_find(struct table *table, const struct table_key *key, uint64_t *version);

/* As table_find(), by the hash alone: the caller prefetches what the record points to, then calls table_is(). */
struct record *table_guess(struct table *table, const struct table_key *key, uint64_t *version);
bool table_is(const struct record *record, const struct table_key *key);

/* Whether the table has not changed since the look-up that gave that version. */
static inline bool table_unchanged(struct table *table, uint64_t version)
{
	atomic_thread_fence(memory_order_acquire);
	return !(version & 1) && atomic_load_explicit(&table->version, memory_order_relaxed) == version;
}

/* Sets the record's key, which must not be in the table, and adds the record. -ENOMEM. Under the client's lock. */
int table_add(struct table *table, struct record *record, const char *name, unsigned index);
void table_remove(struct table *table, struct record *record);

#endif
