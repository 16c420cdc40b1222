/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-ticket.c - a ticket's text and stamp: the same ticket out as in, and nothing else but that is genuine.
 *
 * Flips every single bit of text, ticket and key: none may pass as genuine.
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
#include "common/ticket.h"
#include "gpubroker.h"

static struct ticket ticket;
static uint8_t key[TICKET_KEY_SIZE];
static char text[TICKET_TEXT_MAX];

static int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	randombytes_buf(&ticket, sizeof ticket);
	randombytes_buf(key, sizeof key);
	ticket_stamp(&ticket, key);
	memset(text, '?', sizeof text);
	ticket_encode(&ticket, text);
	return 0;
}

static void flip(void *bytes, size_t bit)
{
	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* No ticket, or none that the key stamped; one that is refused is not written. */
static void expect_refused(const char *forged)
{
	struct ticket decoded, before;

	memset(&decoded, 0x5a, sizeof decoded);
	before = decoded;
	if (ticket_decode(forged, &decoded)) {
		assert_memory_equal(&decoded, &before, sizeof decoded);
		assert_non_null(strstr(error_text(), "no ticket"));
	} else {
		assert_false(ticket_is_genuine(&decoded, key));
	}
}

static void test_the_same_comes_out_as_went_in(void **state)
{
	struct ticket decoded;

	(void)state;
	assert_int_equal(ticket_decode(text, &decoded), 0);
	assert_memory_equal(&decoded, &ticket, sizeof ticket);
	assert_true(ticket_is_genuine(&decoded, key));
	assert_true(strlen(text) < GPUB_TICKET_MAX);
	assert_int_equal(GPUB_TICKET_MAX, TICKET_TEXT_MAX);
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

static void invariant_8_each_bit_of_the_ticket_counts(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < sizeof ticket * 8; bit++) {
		flip(&ticket, bit);
		assert_false(ticket_is_genuine(&ticket, key));
		flip(&ticket, bit);
	}
	assert_true(ticket_is_genuine(&ticket, key));
}

static void invariant_8_each_bit_of_the_key_counts(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < sizeof key * 8; bit++) {
		flip(key, bit);
		assert_false(ticket_is_genuine(&ticket, key));
		flip(key, bit);
	}
}

static void test_cut_off_anywhere_it_is_no_ticket(void **state)
{
	struct ticket decoded;
	char part[TICKET_TEXT_MAX];

	(void)state;
	for (size_t length = 0; length < strlen(text); length++) {
		memcpy(part, text, length);
		part[length] = 0;
		assert_int_equal(ticket_decode(part, &decoded), -EKEYREJECTED);
	}
}

static void test_what_is_added_makes_it_no_ticket(void **state)
{
	static const char *const added[] = { "=", "A", "AAAA", "\n", " ", ".", "\x80" };
	struct ticket decoded;
	char longer[TICKET_TEXT_MAX + 16];

	(void)state;
	for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
		snprintf(longer, sizeof longer, "%s%s", text, added[i]);
		assert_int_equal(ticket_decode(longer, &decoded), -EKEYREJECTED);
		snprintf(longer, sizeof longer, "%s%s", added[i], text);
		assert_int_equal(ticket_decode(longer, &decoded), -EKEYREJECTED);
	}
	assert_int_equal(ticket_decode("", &decoded), -EKEYREJECTED);
	assert_int_equal(ticket_decode("GPUB1.", &decoded), -EKEYREJECTED);
}

/* What it is given may be anything, also without an end. */
static void test_no_byte_past_the_longest_text_is_read(void **state)
{
	struct ticket decoded;
	char *endless = malloc(TICKET_TEXT_MAX);

	(void)state;
	assert_non_null(endless);
	memset(endless, 'A', TICKET_TEXT_MAX);
	memcpy(endless, "gpub1.", 6);
	assert_int_equal(ticket_decode(endless, &decoded), -EKEYREJECTED);
	free(endless);
}

/* The stamp that a ticket had before says nothing of the one it gets. */
static void test_the_stamp_follows_the_terms(void **state)
{
	struct ticket other = ticket;

	(void)state;
	memset(other.stamp, 0, sizeof other.stamp);
	ticket_stamp(&other, key);
	assert_memory_equal(&other, &ticket, sizeof ticket);
	other.rights ^= 1;
	ticket_stamp(&other, key);
	assert_true(ticket_is_genuine(&other, key));
	assert_memory_not_equal(other.stamp, ticket.stamp, sizeof other.stamp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same_comes_out_as_went_in),
		cmocka_unit_test(test_the_text_is_plain),
		cmocka_unit_test(invariant_8_each_bit_of_the_text_counts),
		cmocka_unit_test(invariant_8_each_bit_of_the_ticket_counts),
		cmocka_unit_test(invariant_8_each_bit_of_the_key_counts),
		cmocka_unit_test(test_cut_off_anywhere_it_is_no_ticket),
		cmocka_unit_test(test_what_is_added_makes_it_no_ticket),
		cmocka_unit_test(test_no_byte_past_the_longest_text_is_read),
		cmocka_unit_test(test_the_stamp_follows_the_terms),
	};

	return cmocka_run_group_tests_name("ticket", tests, setup, NULL);
}
