/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-token.c - a delegable ticket's text and stamp: the same token out as in, and nothing else but that is genuine.
 *
 * Flips every single bit of text, token and key: none may pass as genuine.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "common/error.h"
#include "common/token.h"
#include "gpubroker.h"

static struct token token;
static uint8_t key[TOKEN_KEY_SIZE];
static char text[TOKEN_TEXT_MAX];

static int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	randombytes_buf(&token, sizeof token);
	randombytes_buf(key, sizeof key);
	token_stamp(&token, key);
	memset(text, '?', sizeof text);
	token_encode(&token, text);
	return 0;
}

static void flip(void *bytes, size_t bit)
{
	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* No token, or none that the key stamped; one that is refused is not written. */
static void expect_refused(const char *forged)
{
	struct token decoded, before;

	memset(&decoded, 0x5a, sizeof decoded);
	before = decoded;
	if (token_decode(forged, &decoded)) {
		assert_memory_equal(&decoded, &before, sizeof decoded);
		assert_non_null(strstr(error_text(), "no ticket"));
	} else {
		assert_false(token_is_genuine(&decoded, key));
	}
}

static void test_the_same_comes_out_as_went_in(void **state)
{
	struct token decoded;

	(void)state;
	assert_int_equal(token_decode(text, &decoded), 0);
	assert_memory_equal(&decoded, &token, sizeof token);
	assert_true(token_is_genuine(&decoded, key));
	assert_true(strlen(text) < GPUB_TICKET_MAX);
	assert_int_equal(GPUB_TICKET_MAX, TOKEN_TEXT_MAX);
}

/* It goes through shells, files, URLs and JSON as it is. */
static void test_the_text_is_plain(void **state)
{
	(void)state;
	assert_memory_equal(text, "gpub1.", 6);
	assert_int_equal(strspn(text + 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
			 strlen(text) - 6);
}

static void invariant_8_each_bit_of_the_text_counts(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < strlen(text) * 8; bit++) {
		flip(text, bit);
		expect_refused(text);
		flip(text, bit);
	}
}

static void invariant_8_each_bit_of_the_token_counts(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < sizeof token * 8; bit++) {
		flip(&token, bit);
		assert_false(token_is_genuine(&token, key));
		flip(&token, bit);
	}
	assert_true(token_is_genuine(&token, key));
}

static void invariant_8_each_bit_of_the_key_counts(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < sizeof key * 8; bit++) {
		flip(key, bit);
		assert_false(token_is_genuine(&token, key));
		flip(key, bit);
	}
}

static void test_cut_off_anywhere_it_is_no_ticket(void **state)
{
	struct token decoded;
	char part[TOKEN_TEXT_MAX];

	(void)state;
	for (size_t length = 0; length < strlen(text); length++) {
		memcpy(part, text, length);
		part[length] = 0;
		assert_int_equal(token_decode(part, &decoded), -EKEYREJECTED);
	}
}

static void test_what_is_added_makes_it_no_ticket(void **state)
{
	static const char *const added[] = { "=", "A", "AAAA", "\n", " ", ".", "\x80" };
	struct token decoded;
	char longer[TOKEN_TEXT_MAX + 16];

	(void)state;
	for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
		snprintf(longer, sizeof longer, "%s%s", text, added[i]);
		assert_int_equal(token_decode(longer, &decoded), -EKEYREJECTED);
		snprintf(longer, sizeof longer, "%s%s", added[i], text);
		assert_int_equal(token_decode(longer, &decoded), -EKEYREJECTED);
	}
	assert_int_equal(token_decode("", &decoded), -EKEYREJECTED);
	assert_int_equal(token_decode("GPUB1.", &decoded), -EKEYREJECTED);
}

/* What it is given may be anything, also without an end. */
static void test_no_byte_past_the_longest_text_is_read(void **state)
{
	struct token decoded;
	char *endless = malloc(TOKEN_TEXT_MAX);

	(void)state;
	assert_non_null(endless);
	memset(endless, 'A', TOKEN_TEXT_MAX);
	memcpy(endless, "gpub1.", 6);
	assert_int_equal(token_decode(endless, &decoded), -EKEYREJECTED);
	free(endless);
}

/* The stamp that a token had before says nothing of the one it gets. */
static void test_the_stamp_follows_the_terms(void **state)
{
	struct token other = token;

	(void)state;
	memset(other.stamp, 0, sizeof other.stamp);
	token_stamp(&other, key);
	assert_memory_equal(&other, &token, sizeof token);
	other.rights ^= 1;
	token_stamp(&other, key);
	assert_true(token_is_genuine(&other, key));
	assert_memory_not_equal(other.stamp, token.stamp, sizeof other.stamp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same_comes_out_as_went_in),
		cmocka_unit_test(test_the_text_is_plain),
		cmocka_unit_test(invariant_8_each_bit_of_the_text_counts),
		cmocka_unit_test(invariant_8_each_bit_of_the_token_counts),
		cmocka_unit_test(invariant_8_each_bit_of_the_key_counts),
		cmocka_unit_test(test_cut_off_anywhere_it_is_no_ticket),
		cmocka_unit_test(test_what_is_added_makes_it_no_ticket),
		cmocka_unit_test(test_no_byte_past_the_longest_text_is_read),
		cmocka_unit_test(test_the_stamp_follows_the_terms),
	};

	return cmocka_run_group_tests_name("token", tests, setup, NULL);
}
