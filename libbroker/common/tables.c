/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - see tables.h */
#include "tables.h"

#include <pthread.h>
#include <sodium.h>

static uint8_t hash_key[crypto_shorthash_KEYBYTES];

static void key_draw(void)
{
	randombytes_buf(hash_key, sizeof hash_key);
}

void tables_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, key_draw);
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
