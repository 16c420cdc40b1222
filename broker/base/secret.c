/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - see secret.h */
#include "secret.h"

#include <errno.h>
#include <sodium.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"

uint8_t *secret_new(size_t size)
{
	uint8_t *secret = sodium_malloc(size);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin;

	if (!secret) {
		error_set(-ENOMEM, "the broker is out of memory");
		return NULL;
	}
	/* the bytes are at the end of pages of their own (libsodium, "Guarded heap allocations") */
	begin = (uintptr_t)secret & ~(page - 1);
	(void)madvise((void *)begin, (uintptr_t)secret + size - begin, MADV_WIPEONFORK);
	randombytes_buf(secret, size);
	return secret;
}
