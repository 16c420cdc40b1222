/* SPDX-License-Identifier: Apache-2.0 */
/* format.c - see format.h */
#include "format.h"

#include <sodium.h>

/* Nothing secret: the checksum shows what was written only in part, and proves nothing about who wrote it. */
static uint64_t checksum_of(const struct status_seal *seal, size_t size)
{
	static const uint8_t key[crypto_shorthash_KEYBYTES] = "gpubroker";
	union {
		uint8_t  bytes[crypto_shorthash_BYTES];
		uint64_t number;
	} hash;

	crypto_shorthash(hash.bytes, (const uint8_t *)&seal->sequence, size - sizeof seal->checksum, key);
	return hash.number ? hash.number : 1;
}

void status_seal(struct status_seal *seal, size_t size, uint64_t sequence)
{
	seal->sequence = sequence;
	seal->checksum = checksum_of(seal, size);
}

bool status_is_whole(const struct status_seal *seal, size_t size)
{
	return seal->checksum == checksum_of(seal, size);
}

size_t status_size(uint32_t type)
{
	static const size_t sizes[] = { [TRACKED_DEVICE] = sizeof(struct status_device),
					[TRACKED_USER] = sizeof(struct status_user),
					[TRACKED_SESSION] = sizeof(struct status_session),
					[TRACKED_BUFFER] = sizeof(struct status_buffer),
					[TRACKED_GRANT] = sizeof(struct status_grant),
					[TRACKED_USE] = sizeof(struct status_use) };

	return type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}
