/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed.h - the sealed form in which a grant's device handles travel: through the board, those of chunks that an allocation grew by in a message.
 *
 * XChaCha20-Poly1305 under the session's key (libsodium), with a random nonce. The terms of the grant are the
 * associated data, so it opens for one session, one grant and exactly these terms. All clients may read a sealed
 * handle. Owns nothing; keeps no key. sodium_init() must have run.
 */
#ifndef GPUB_SEALED_H
#define GPUB_SEALED_H

#include <stdint.h>

#include "handle.h"
#include "wire.h"

#define SEAL_NONCE_SIZE 24
#define SEAL_TAG_SIZE   16

/* The associated data of a sealed handle. Every byte counts: no padding, unused bytes zero. */
struct seal_terms {
	uint8_t  instance[16];
	uint8_t  device_uuid[16]; /* of the device that the memory is on */
	uint64_t session, grant, serial; /* serial: of the buffer; 0: it is the handle of a chunk, and size and offset are the chunk's */
	uint64_t size, offset, address;
	uint32_t rights, version; /* version: WIRE_VERSION */
	uint32_t exported, reserved; /* the kind of export by its number; 0 */
};

_Static_assert(sizeof(struct seal_terms) == 96, "the terms are hashed as bytes: no padding");

struct sealed_handle {
	uint8_t nonce[SEAL_NONCE_SIZE];
	uint8_t box[DEVICE_HANDLE_SIZE + SEAL_TAG_SIZE];
	uint8_t reserved[24];
};

_Static_assert(sizeof(struct sealed_handle) == WIRE_SEALED_SIZE, "a sealed handle fills two cache lines");

void handle_seal(struct sealed_handle *sealed, const struct seal_terms *terms, const struct device_handle *handle,
		 const uint8_t key[WIRE_KEY_SIZE]);

/* -EKEYREJECTED: it is not this session's, or a bit of it or of the terms differs. *handle untouched then. */
int handle_unseal(struct device_handle *handle, const struct seal_terms *terms, const struct sealed_handle *sealed,
		  const uint8_t key[WIRE_KEY_SIZE]);

#endif
