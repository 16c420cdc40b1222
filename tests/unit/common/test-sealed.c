/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-sealed.c - a sealed handle opens for one session, one mapping and exactly its terms, and hides the handle.
 *
 * Flips every single bit of the sealed handle, the terms and the key: none may open.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "common/sealed.h"
#include "gpubroker.h"

static struct seal_terms terms;
static struct device_handle handle;
static uint8_t key[WIRE_KEY_SIZE];
static struct sealed_handle box;

static int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	randombytes_buf(&terms, sizeof terms);
	randombytes_buf(&handle, sizeof handle);
	randombytes_buf(key, sizeof key);
	handle_seal(&box, &terms, &handle, key);
	return 0;
}

static void flip(void *bytes, size_t bit)
{
	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* It must not open, and must leave the caller's handle alone. */
static void expect_refused(void)
{
	struct device_handle opened, before;

	memset(&opened, 0x5a, sizeof opened);
	before = opened;
	assert_int_equal(handle_unseal(&opened, &terms, &box, key), -EKEYREJECTED);
	assert_memory_equal(&opened, &before, sizeof opened);
}

static void expect_each_flip_refused(void *bytes, size_t size)
{
	for (size_t bit = 0; bit < size * 8; bit++) {
		flip(bytes, bit);
		expect_refused();
		flip(bytes, bit);
	}
}

static void test_opens_for_its_session(void **state)
{
	struct device_handle opened = { { 0 } };

	(void)state;
	assert_int_equal(handle_unseal(&opened, &terms, &box, key), 0);
	assert_memory_equal(&opened, &handle, sizeof handle);
}

static void invariant_4_each_bit_of_the_sealed_handle_counts(void **state)
{
	(void)state;
	expect_each_flip_refused(box.nonce, sizeof box.nonce);
	expect_each_flip_refused(box.box, sizeof box.box);
}

static void invariant_4_each_bit_of_the_terms_counts(void **state)
{
	(void)state;
	expect_each_flip_refused(&terms, sizeof terms);
}

static void invariant_4_each_bit_of_the_key_counts(void **state)
{
	(void)state;
	expect_each_flip_refused(key, sizeof key);
}

/* Named ones too, so that a term that leaves the structure is missed here. */
static void invariant_8_an_old_generation_or_another_broker_is_refused(void **state)
{
	struct seal_terms right = terms;

	(void)state;
	terms.serial++;
	expect_refused();
	terms = right;
	terms.mapping++;
	expect_refused();
	terms = right;
	terms.session++;
	expect_refused();
	terms = right;
	terms.instance[0]++;
	expect_refused();
	terms = right;
	terms.rights ^= GPUB_WRITE;
	expect_refused();
	terms = right;
	terms.size++;
	expect_refused();
	terms = right;
	terms.offset++;
	expect_refused();
	terms = right;
	terms.version++;
	expect_refused();
	terms = right;
	terms.device_uuid[15]++;
	expect_refused();
	terms = right;
}

static bool contains(const void *text, size_t size, const void *part, size_t length)
{
	for (size_t i = 0; i + length <= size; i++)
		if (!memcmp((const char *)text + i, part, length))
			return true;
	return false;
}

/* No 8 bytes of it, wherever they begin; also where the key and the handle are the weakest there are. */
static void expect_hidden(const struct device_handle *secret, const uint8_t *under)
{
	struct sealed_handle sealed;

	handle_seal(&sealed, &terms, secret, under);
	for (size_t i = 0; i + 8 <= sizeof secret->bytes; i++)
		assert_false(contains(&sealed, offsetof(struct sealed_handle, reserved), secret->bytes + i, 8));
}

static void invariant_4_what_is_sealed_hides_the_handle(void **state)
{
	static const uint8_t zero_key[WIRE_KEY_SIZE];
	static const struct device_handle zero_handle;

	(void)state;
	expect_hidden(&handle, key);
	expect_hidden(&handle, zero_key);
	expect_hidden(&zero_handle, zero_key);
	assert_false(contains(&box, sizeof box, key, 8));
}

static void test_two_seals_differ(void **state)
{
	struct sealed_handle other;
	struct device_handle opened;

	(void)state;
	handle_seal(&other, &terms, &handle, key);
	assert_memory_not_equal(other.nonce, box.nonce, sizeof other.nonce);
	assert_memory_not_equal(other.box, box.box, sizeof other.box);
	assert_int_equal(handle_unseal(&opened, &terms, &other, key), 0);
	/* the nonce of one does not open the other */
	memcpy(other.nonce, box.nonce, sizeof other.nonce);
	assert_int_equal(handle_unseal(&opened, &terms, &other, key), -EKEYREJECTED);
}

/* What stood in that place of the board before must not show through. */
static void test_seal_fills_the_whole_place(void **state)
{
	struct sealed_handle other;

	(void)state;
	memset(&other, 0xff, sizeof other);
	handle_seal(&other, &terms, &handle, key);
	for (size_t i = 0; i < sizeof other.reserved; i++)
		assert_int_equal(other.reserved[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opens_for_its_session),
		cmocka_unit_test(invariant_4_each_bit_of_the_sealed_handle_counts),
		cmocka_unit_test(invariant_4_each_bit_of_the_terms_counts),
		cmocka_unit_test(invariant_4_each_bit_of_the_key_counts),
		cmocka_unit_test(invariant_8_an_old_generation_or_another_broker_is_refused),
		cmocka_unit_test(invariant_4_what_is_sealed_hides_the_handle),
		cmocka_unit_test(test_two_seals_differ),
		cmocka_unit_test(test_seal_fills_the_whole_place),
	};

	return cmocka_run_group_tests_name("sealed", tests, setup, NULL);
}
