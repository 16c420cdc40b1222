/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - see tables.h */
#include "tables.h"

#include <sodium.h>

static uint8_t hash_key[crypto_shorthash_KEYBYTES];

void tables_init(void)
{
	randombytes_buf(hash_key, sizeof hash_key);
}

unsigned table_hash(const void *key, size_t length)
{
	union {
		uint8_t  bytes[crypto_shorthash_BYTES];
		unsigned value;
	} hash;

	crypto_shorthash(hash.bytes, key, length, hash_key);
	return hash.value;
}
