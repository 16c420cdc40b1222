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

struct table_array {
	uint32_t            size; /* a power of two */
	struct table_array *outgrown;
	struct record *_Atomic entry[];
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

/* The record, or NULL. *version is what table_unchanged() compares. Any thread. */
struct record *table_find(struct table *table, const struct table_key *key, uint64_t *version);

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
