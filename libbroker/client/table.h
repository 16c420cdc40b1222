/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - the map from (name, device) to record, read without a lock.
 *
 * Open addressing under a sequence lock. Writers (under the client's lock) make the version odd while they change
 * something. A reader whose version stayed even and unchanged saw one consistent state. Outgrown arrays are kept until
 * the end, because a reader may still use one. Owns the arrays, not the records.
 */
#ifndef GPUB_TABLE_H
#define GPUB_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/name.h"

struct record;

/* Hash and record belong together if the version is unchanged. */
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

/* A key: the name padded with zeros, and the device. */
struct table_key {
	uint64_t word[NAME_SIZE / 8];
	uint32_t words, index;
	uint64_t hash;
};

int table_init(struct table *table); /* -ENOMEM */
void table_deinit(struct table *table);

/* 0, or name_check()'s error. */
int table_key_make(const struct table *table, struct table_key *key, const char *name, unsigned index);

/*
 * The same for a look-up: accepts also invalid names, which the table does not have; refuses the keys of redeemed
 * buffers. False: table_key_make() gives the error.
 */
bool table_key_look(const struct table *table, struct table_key *key, const char *name, unsigned index);

/* The record, or NULL. *version is for table_unchanged(). Any thread. */
struct record *table_find(struct table *table, const struct table_key *key, uint64_t *version);

/* The same by the hash alone, so that the caller can prefetch what the record points to. table_is() checks the key. */
struct record *table_guess(struct table *table, const struct table_key *key, uint64_t *version);
bool table_is(const struct record *record, const struct table_key *key);

/* Nothing has changed since that look-up. */
static inline bool table_unchanged(struct table *table, uint64_t version)
{
	atomic_thread_fence(memory_order_acquire);
	return !(version & 1) && atomic_load_explicit(&table->version, memory_order_relaxed) == version;
}

/* Sets the record's key, which must not be in the table, and adds the record. -ENOMEM. Under the client's lock. */
int table_add(struct table *table, struct record *record, const char *name, unsigned index);
void table_remove(struct table *table, struct record *record);

#endif
