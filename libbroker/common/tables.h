/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - uthash as broker and library use it: keyed, and surviving a lack of memory.
 *
 * Names and ids are chosen by clients, so they are hashed with SipHash under a key of this process: nobody can
 * choose names that all fall into one bucket. A table without memory for one more entry refuses it instead of
 * ending the process: each HASH_ADD is followed by table_added(). Owns the key.
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

/* Whether the entry, with that handle, was taken by the HASH_ADD before. */
#define table_added_by(handle, entry) ((entry)->handle.tbl != NULL)
#define table_added(entry)            table_added_by(hh, entry)

#endif
