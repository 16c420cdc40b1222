/* SPDX-License-Identifier: Apache-2.0 */
/* test-safetensors.c - headers of .safetensors files: which are right for so many bytes behind them, which are refused and why. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/ctl/safetensors.h"
#include "common/error.h"

/* ---- prefix and padding ---- */

static void test_prefixes(void **state)
{
	uint8_t prefix[SAFETENSORS_PREFIX];
	size_t size = 0;

	(void)state;
	safetensors_prefix_make(0x12345, prefix);
	assert_memory_equal(prefix, "\x45\x23\1\0\0\0\0\0", sizeof prefix);
	assert_int_equal(safetensors_prefix_read(prefix, 0x12345 + 8, &size), 0);
	assert_true(size == 0x12345);
	size = 7;
	assert_int_equal(safetensors_prefix_read(prefix, 0x12345 + 7, &size), -EINVAL);
	assert_non_null(strstr(error_text(), "cut off"));
	assert_int_equal(safetensors_prefix_read(prefix, 0, &size), -EINVAL);
	safetensors_prefix_make(SAFETENSORS_HEADER_MAX + 1, prefix);
	assert_int_equal(safetensors_prefix_read(prefix, UINT64_MAX, &size), -EINVAL);
	memset(prefix, 0xff, sizeof prefix);
	assert_int_equal(safetensors_prefix_read(prefix, UINT64_MAX, &size), -EINVAL);
	assert_true(size == 7);
}

static void test_padding(void **state)
{
	(void)state;
	for (size_t size = 0; size < 1000; size++) {
		size_t padded = safetensors_padded(size);

		assert_true((SAFETENSORS_PREFIX + padded) % SAFETENSORS_ALIGNMENT == 0);
		assert_true(padded >= size && padded < size + SAFETENSORS_ALIGNMENT);
	}
}

/* ---- headers ---- */

static int check(const char *header, uint64_t bytes)
{
	size_t size = strlen(header);
	char *exact = malloc(size + 1); /* a read past its end is found by valgrind and ASan */
	int error;

	assert_non_null(exact);
	memcpy(exact, header, size);
	error = safetensors_check(exact, size, bytes);
	free(exact);
	return error;
}

static void good(const char *header, uint64_t bytes)
{
	if (check(header, bytes))
		fail_msg("%s: %s", header, error_text());
}

static void refused(const char *header, uint64_t bytes, const char *why)
{
	assert_int_equal(check(header, bytes), -EINVAL);
	if (!strstr(error_text(), why))
		fail_msg("%s: %s", header, error_text());
}

#define TENSOR(name, type, shape, begin, end) "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void test_right_ones(void **state)
{
	(void)state;
	good("{}", 0);
	good("{}   ", 0);
	good("{\"__metadata__\":{\"format\":\"pt\"}}", 0);
	good("{" TENSOR("a", "F32", "[2,3]", 0, 24) "}", 24);
	good("{" TENSOR("scalar", "F64", "[]", 0, 8) "}", 8);
	good("{" TENSOR("empty", "F64", "[0,5]", 0, 0) "}", 0);
	good("{" TENSOR("b", "I64", "[1]", 24, 32) "," TENSOR("a", "F32", "[2,3]", 0, 24) "," TENSOR("e", "U8", "[0]", 24, 24) "}", 32);
	good("{" TENSOR("half", "F4", "[6]", 0, 3) "," TENSOR("six", "F6_E2M3", "[4]", 3, 6) "}", 6);
	good("{" TENSOR("a", "BOOL", "[1]", 0, 1) "," TENSOR("b", "BF16", "[1]", 1, 3) "}", 3);
	good("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", 1);
}

static void test_places(void **state)
{
	(void)state;
	refused("{" TENSOR("a", "U8", "[4]", 0, 4) "}", 3, "3 bytes are there");
	refused("{" TENSOR("a", "U8", "[4]", 0, 4) "}", 5, "nothing behind");
	refused("{}", 1, "nothing behind");
	refused("{" TENSOR("a", "U8", "[4]", 1, 5) "}", 5, "neither gaps nor overlaps");
	refused("{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 5, 9) "}", 9, "neither gaps nor overlaps");
	refused("{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 3, 7) "}", 7, "neither gaps nor overlaps");
	refused("{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 0, 4) "}", 4, "neither gaps nor overlaps");
	refused("{" TENSOR("a", "U8", "[4]", 4, 0) "}", 4, "is at 4 to 0");
	refused("{" TENSOR("a", "U8", "[4]", -1, 3) "}", 4, "two numbers");
	refused("{" TENSOR("a", "U8", "[4]", 0, 4.0) "}", 4, "two numbers");
	refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]}}", 4, "two numbers");
	refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "two numbers");
}

static void test_types_and_shapes(void **state)
{
	(void)state;
	refused("{" TENSOR("a", "U8", "[3]", 0, 4) "}", 4, "3 elements");
	refused("{" TENSOR("a", "F4", "[5]", 0, 2) "}", 2, "5 elements");
	refused("{" TENSOR("a", "F4", "[5]", 0, 3) "}", 3, "5 elements");
	refused("{" TENSOR("a", "F99", "[1]", 0, 4) "}", 4, "'F99', is unknown");
	refused("{" TENSOR("a", "U8", "[-4]", 0, 4) "}", 4, "no number");
	refused("{" TENSOR("a", "U8", "[4.0]", 0, 4) "}", 4, "no number");
	refused("{" TENSOR("a", "U8", "4", 0, 4) "}", 4, "has no shape");
	refused("{" TENSOR("a", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "2^64");
	refused("{" TENSOR("a", "F64", "[4611686018427387904]", 0, 0) "}", 0, "do not fill");
	refused("{" TENSOR("a", "U8", "[99999999999999999999]", 0, 0) "}", 0, "JSON");
	refused("{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "'none', is unknown");
	refused("{\"a\":4}", 4, "'none', is unknown");
	refused("{\"__metadata__\":{\"a\":1}}", 0, "no string");
	refused("{\"__metadata__\":[]}", 0, "no object");
}

static void test_no_headers(void **state)
{
	static const char whole[] = "{" TENSOR("a", "F32", "[2,3]", 0, 24) "}";
	char part[sizeof whole];

	(void)state;
	for (size_t size = 1; size < sizeof whole - 1; size++) {
		memcpy(part, whole, size);
		part[size] = 0;
		refused(part, 24, "no JSON");
	}
	refused("", 0, "no JSON object");
	refused("[]", 0, "no JSON object");
	refused(" {}", 0, "no JSON object");
	refused("{} x", 0, "no JSON");
	refused("{" TENSOR("a", "U8", "[1]", 0, 1) "," TENSOR("a", "U8", "[1]", 0, 1) "}", 1, "duplicate");
	refused("{\"a\xff\":1}", 0, "no JSON");
	assert_int_equal(safetensors_check("{}\0", 3, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prefixes), cmocka_unit_test(test_padding),          cmocka_unit_test(test_right_ones),
		cmocka_unit_test(test_places),   cmocka_unit_test(test_types_and_shapes), cmocka_unit_test(test_no_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
