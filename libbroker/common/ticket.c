/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.c - see ticket.h */
#include "ticket.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "error.h"

_Static_assert(TICKET_NONCE_SIZE == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES, "nonce size");
_Static_assert(TICKET_TAG_SIZE == crypto_aead_xchacha20poly1305_ietf_ABYTES, "tag size");
_Static_assert(WIRE_KEY_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key size");

void ticket_seal(struct ticket *ticket, const struct ticket_terms *terms, const struct device_handle *handle,
		 const uint8_t key[WIRE_KEY_SIZE])
{
	memset(ticket, 0, sizeof *ticket);
	randombytes_buf(ticket->nonce, sizeof ticket->nonce);
	crypto_aead_xchacha20poly1305_ietf_encrypt(ticket->box, NULL, handle->bytes, sizeof handle->bytes,
						   (const uint8_t *)terms, sizeof *terms, NULL, ticket->nonce,
						   key);
}

int ticket_open(struct device_handle *handle, const struct ticket_terms *terms, const struct ticket *ticket,
		const uint8_t key[WIRE_KEY_SIZE])
{
	struct device_handle opened;

	if (crypto_aead_xchacha20poly1305_ietf_decrypt(opened.bytes, NULL, NULL, ticket->box,
						       sizeof ticket->box, (const uint8_t *)terms,
						       sizeof *terms, ticket->nonce, key))
		return error_set(-EKEYREJECTED, "the ticket does not open: it is forged, stale or another "
						"session's");
	*handle = opened;
	sodium_memzero(&opened, sizeof opened);
	return 0;
}
