/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - hash tables of broker and library: uthash with a keyed hash, and without an exit when memory is exhausted.
 *
 * Clients choose the names and ids that are keys of tables. SipHash under a random key of this process keeps a client
 * from choosing names that all fall into one bucket. A HASH_ADD for which there is no memory does not add the entry,
 * so each HASH_ADD must be followed by table_added(). Owns the hash key.
 */
#ifndef GPUB_TABLES_H
#define GPUB_TABLES_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, hash) ((hash) = table_hash((key), (length)))
#include <uthash.h>

/* Draws the random hash key at the first call. Call it before the first entry of any table. Thread-safe. */
void tables_init(void);

unsigned table_hash(const void *key, size_t length);

/*
 * Whether the last HASH_ADD of the entry succeeded. handle: name of the entry's member of type UT_hash_handle, which is
 * "hh" for table_added().
 */
#define table_added_by(handle, entry) ((entry)->handle.tbl != NULL)
#define table_added(entry)            table_added_by(hh, entry)

/*
 * Changes the key of a table's entry. The statement `change` stores the new key in the entry. Cannot fail, because
 * the table exists all the time and does not grow: `anchor`, a second entry with any key, is in the table while the
 * entry is not.
 */
#define TABLE_REKEY(handle, head, field, length, entry, anchor, change)                         \
	do {                                                                                    \
		unsigned noexpand_ = (head)->handle.tbl->noexpand;                              \
		(head)->handle.tbl->noexpand = 1;                                               \
		HASH_ADD_KEYPTR(handle, head, &(anchor)->field, sizeof(anchor)->field, anchor); \
		HASH_DELETE(handle, head, entry);                                               \
		change;                                                                         \
		HASH_ADD_KEYPTR(handle, head, &(entry)->field, length, entry);                  \
		HASH_DELETE(handle, head, anchor);                                              \
		(head)->handle.tbl->noexpand = noexpand_;                                       \
	} while (0)

#endif
