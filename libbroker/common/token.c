/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - see token.h */
#include "token.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>

#include "error.h"

#define PREFIX "gpub1."
#define BASE64 sodium_base64_VARIANT_URLSAFE_NO_PADDING

_Static_assert(sizeof PREFIX + sodium_base64_ENCODED_LEN(sizeof(struct token), BASE64) <= TOKEN_TEXT_MAX,
	       "the text fits");
_Static_assert(TOKEN_KEY_SIZE == crypto_generichash_KEYBYTES, "key size");

static void stamp_compute(const struct token *token, const uint8_t key[TOKEN_KEY_SIZE],
			  uint8_t stamp[TOKEN_STAMP_SIZE])
{
	crypto_generichash(stamp, TOKEN_STAMP_SIZE, (const uint8_t *)token, offsetof(struct token, stamp), key,
			   TOKEN_KEY_SIZE);
}

void token_stamp(struct token *token, const uint8_t key[TOKEN_KEY_SIZE])
{
	stamp_compute(token, key, token->stamp);
}

bool token_is_genuine(const struct token *token, const uint8_t key[TOKEN_KEY_SIZE])
{
	uint8_t stamp[TOKEN_STAMP_SIZE];
	bool same;

	stamp_compute(token, key, stamp);
	same = !sodium_memcmp(stamp, token->stamp, sizeof stamp);
	sodium_memzero(stamp, sizeof stamp);
	return same;
}

void token_encode(const struct token *token, char text[TOKEN_TEXT_MAX])
{
	memcpy(text, PREFIX, sizeof PREFIX);
	sodium_bin2base64(text + sizeof PREFIX - 1, TOKEN_TEXT_MAX - (sizeof PREFIX - 1), (const uint8_t *)token,
			  sizeof *token, BASE64);
}

/* libsodium 1.0.18 takes bytes from 128 up for '-' or '_'. */
static bool is_base64(const char *text)
{
	return !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")];
}

int token_decode(const char *text, struct token *token)
{
	size_t prefix = sizeof PREFIX - 1, length = strnlen(text, TOKEN_TEXT_MAX), size;
	struct token decoded;

	if (length == TOKEN_TEXT_MAX || length < prefix || memcmp(text, PREFIX, prefix) || !is_base64(text + prefix) ||
	    sodium_base642bin((uint8_t *)&decoded, sizeof decoded, text + prefix, length - prefix, NULL, &size,
			      NULL, BASE64) ||
	    size != sizeof decoded)
		return error_set(-EKEYREJECTED, "this is no ticket: one begins with " PREFIX " and is copied whole, "
						"as gpub_ticket_issue() or broker-ctl ticket gave it");
	*token = decoded;
	sodium_memzero(&decoded, sizeof decoded);
	return 0;
}
