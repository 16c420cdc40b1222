/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - (name, device) to record, read without a lock.
 *
 * Open addressing over a sequence lock: writers (under the client's lock) make the version odd while they
 * change something; a reader whose version stayed even and the same saw one consistent state. Arrays that
 * were outgrown are kept until the end, for a reader may still be in one. Owns the arrays, not the records.
 */
#ifndef GPUB_TABLE_H
#define GPUB_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/name.h"

struct record;

/* Hash and record are each other's as long as the version is unchanged. */
struct table_entry {
	_Atomic uint64_t hash;
	struct record *_Atomic record;
};

struct table_array {
	uint32_t            size; /* a power of two */
	struct table_array *outgrown;
	struct table_entry  entry[];
};

struct table {
	_Atomic uint64_t version;
	struct table_array *_Atomic array;
	uint32_t used; /* entries and tombstones */
	uint32_t live;
	uint8_t  hash_key[16];
};

/* What is looked for: a name padded with zeros. */
struct table_key {
	uint64_t word[NAME_SIZE / 8];
	uint32_t words, index;
	uint64_t hash;
};

int table_init(struct table *table); /* -ENOMEM */
void table_deinit(struct table *table);

/* 0, or name_check()'s refusal. */
int table_key_make(const struct table *table, struct table_key *key, const char *name, unsigned index);

/* The same for who only looks: what is no name may pass, since the table has only names, but for the keys of what was
 * redeemed, which do not. False: table_key_make() says why. */
bool table_key_look(const struct table *table, struct table_key *key, const char *name, unsigned index);

/* The record, or NULL. *version is what table_unchanged() compares. Any thread. */
struct record *table_find(struct table *table, const struct table_key *key, uint64_t *version);

/* The same by the hash alone: almost surely right, table_is() says so. Whoever has the record early can have what it
 * leads to on its way meanwhile. */
struct record *table_guess(struct table *table, const struct table_key *key, uint64_t *version);
bool table_is(const struct record *record, const struct table_key *key);

/* Nothing was changed since that look. */
static inline bool table_unchanged(struct table *table, uint64_t version)
{
	atomic_thread_fence(memory_order_acquire);
	return !(version & 1) && atomic_load_explicit(&table->version, memory_order_relaxed) == version;
}

/* Sets the record's key and adds it; that key is not in the table. -ENOMEM. Under the client's lock. */
int table_add(struct table *table, struct record *record, const char *name, unsigned index);
void table_remove(struct table *table, struct record *record);

#endif
