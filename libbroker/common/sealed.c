/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.c - see sealed.h */
#include "sealed.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "error.h"

_Static_assert(SEAL_NONCE_SIZE == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES, "nonce size");
_Static_assert(SEAL_TAG_SIZE == crypto_aead_xchacha20poly1305_ietf_ABYTES, "tag size");
_Static_assert(WIRE_KEY_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key size");

void handle_seal(struct sealed_handle *sealed, const struct seal_terms *terms, const struct device_handle *handle,
		 const uint8_t key[WIRE_KEY_SIZE])
{
	memset(sealed, 0, sizeof *sealed);
	randombytes_buf(sealed->nonce, sizeof sealed->nonce);
	crypto_aead_xchacha20poly1305_ietf_encrypt(sealed->box, NULL, handle->bytes, sizeof handle->bytes,
						   (const uint8_t *)terms, sizeof *terms, NULL, sealed->nonce,
						   key);
}

int handle_unseal(struct device_handle *handle, const struct seal_terms *terms, const struct sealed_handle *sealed,
		  const uint8_t key[WIRE_KEY_SIZE])
{
	struct device_handle opened;

	if (crypto_aead_xchacha20poly1305_ietf_decrypt(opened.bytes, NULL, NULL, sealed->box,
						       sizeof sealed->box, (const uint8_t *)terms,
						       sizeof *terms, sealed->nonce, key))
		return error_set(-EKEYREJECTED, "the sealed handle does not open: it is forged, stale or another "
						"session's");
	*handle = opened;
	sodium_memzero(&opened, sizeof opened);
	return 0;
}
