/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed.h - sealed handles: device handles, encrypted for one session.
 *
 * The handle of a mapping's allocation travels in the board. A chunk that the allocation grew by has no handle there:
 * the descriptor that comes with its MEMORY message opens it. The cipher is XChaCha20-Poly1305 (libsodium) under the
 * session's key, with a random nonce. The terms are the associated data, so a sealed handle opens only for its session,
 * its mapping and exactly these terms. All clients may read all sealed handles. Owns nothing and keeps no key.
 * sodium_init() must have run.
 */
#ifndef GPUB_SEALED_H
#define GPUB_SEALED_H

#include <stdint.h>

#include "handle.h"
#include "wire.h"

#define SEAL_NONCE_SIZE 24
#define SEAL_TAG_SIZE   16

/* The associated data of a sealed handle. All bytes are authenticated, so no padding, and unused bytes are 0. */
struct seal_terms {
	uint8_t  instance[16];    /* board_header.instance_id */
	uint8_t  device_uuid[16]; /* UUID of the device that has the memory */
	uint64_t session, mapping, serial; /* id of the session, id of the mapping, serial of the buffer */
	uint64_t size, offset, address;  /* as in the GRANT for the handle (struct wire_grant) */
	uint32_t rights, version;        /* GPUB_READ, GPUB_WRITE; WIRE_VERSION */
	uint32_t exported, reserved;     /* enum export_kind; must be 0 */
};

_Static_assert(sizeof(struct seal_terms) == 96, "the terms are hashed as bytes: no padding");

struct sealed_handle {
	uint8_t nonce[SEAL_NONCE_SIZE];
	uint8_t box[DEVICE_HANDLE_SIZE + SEAL_TAG_SIZE];
	uint8_t reserved[24];
};

_Static_assert(sizeof(struct sealed_handle) == 128, "a sealed handle fills two cache lines");

/* Encrypts a handle into *sealed, with a new nonce. Cannot fail. */
void handle_seal(struct sealed_handle *sealed, const struct seal_terms *terms, const struct device_handle *handle,
		 const uint8_t key[WIRE_KEY_SIZE]);

/*
 * Decrypts a sealed handle into *handle. -EKEYREJECTED, with *handle unchanged: the handle was sealed with another
 * session's key or for other terms, or was changed.
 */
int handle_unseal(struct device_handle *handle, const struct seal_terms *terms, const struct sealed_handle *sealed,
		  const uint8_t key[WIRE_KEY_SIZE]);

#endif
