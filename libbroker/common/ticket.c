/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.c - see ticket.h */
#include "ticket.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>

#include "error.h"

#define PREFIX "gpub1."
#define BASE64 sodium_base64_VARIANT_URLSAFE_NO_PADDING

_Static_assert(sizeof PREFIX + sodium_base64_ENCODED_LEN(sizeof(struct ticket), BASE64) <= TICKET_TEXT_MAX,
	       "the text fits");
_Static_assert(TICKET_KEY_SIZE == crypto_generichash_KEYBYTES, "key size");

static void stamp_compute(const struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE],
			  uint8_t stamp[TICKET_STAMP_SIZE])
{
	crypto_generichash(stamp, TICKET_STAMP_SIZE, (const uint8_t *)ticket, offsetof(struct ticket, stamp), key,
			   TICKET_KEY_SIZE);
}

void ticket_stamp(struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE])
{
	stamp_compute(ticket, key, ticket->stamp);
}

bool ticket_is_genuine(const struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE])
{
	uint8_t stamp[TICKET_STAMP_SIZE];
	bool same;

	stamp_compute(ticket, key, stamp);
	same = !sodium_memcmp(stamp, ticket->stamp, sizeof stamp);
	sodium_memzero(stamp, sizeof stamp);
	return same;
}

void ticket_encode(const struct ticket *ticket, char text[TICKET_TEXT_MAX])
{
	memcpy(text, PREFIX, sizeof PREFIX);
	sodium_bin2base64(text + sizeof PREFIX - 1, TICKET_TEXT_MAX - (sizeof PREFIX - 1), (const uint8_t *)ticket,
			  sizeof *ticket, BASE64);
}

/* Checks the characters before libsodium does, because libsodium 1.0.18 decodes bytes >= 128 as '-' or '_'. */
static bool is_base64(const char *text)
{
	return !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")];
}

int ticket_decode(const char *text, struct ticket *ticket)
{
	size_t prefix = sizeof PREFIX - 1, length = strnlen(text, TICKET_TEXT_MAX), size;
	struct ticket decoded;

	if (length == TICKET_TEXT_MAX || length < prefix || memcmp(text, PREFIX, prefix) || !is_base64(text + prefix) ||
	    sodium_base642bin((uint8_t *)&decoded, sizeof decoded, text + prefix, length - prefix, NULL, &size,
			      NULL, BASE64) ||
	    size != sizeof decoded)
		return error_set(-EKEYREJECTED, "this is no ticket: one begins with " PREFIX " and is copied whole, "
						"as gpub_ticket_issue() or broker-ctl ticket gave it");
	*ticket = decoded;
	sodium_memzero(&decoded, sizeof decoded);
	return 0;
}
