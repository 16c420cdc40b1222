/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - uthash as broker and library use it: keyed, and surviving a lack of memory.
 *
 * Clients choose names and ids, so they are hashed with SipHash under a key of this process: no client can choose names
 * that all fall into one bucket. A table without memory for another entry refuses it instead of ending the process:
 * table_added() follows each HASH_ADD. Owns the key.
 */
#ifndef GPUB_TABLES_H
#define GPUB_TABLES_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, hash) ((hash) = table_hash((key), (length)))
#include <uthash.h>

/* Draws the key, once; before the first entry of any table. Any thread. */
void tables_init(void);

unsigned table_hash(const void *key, size_t length);

/* Whether the HASH_ADD before added the entry, with that handle. */
#define table_added_by(handle, entry) ((entry)->handle.tbl != NULL)
#define table_added(entry)            table_added_by(hh, entry)

/*
 * Gives an entry of a table another key, which the statement change stores. It cannot fail: anchor, a second entry with any key, keeps
 * the table while the entry is out of it, and the table does not grow.
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
