/* SPDX-License-Identifier: Apache-2.0 */
/* test-layout.c - which layouts there are, what their texts are, how many bytes they have, and which fits which. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/layout.h"

static void expect_text(const char *text, const char *whole, uint64_t bytes)
{
	gpub_layout layout = { 0 };
	char out[GPUB_LAYOUT_TEXT_MAX];

	assert_int_equal(layout_parse(text, &layout), 0);
	assert_string_equal(layout_text(&layout, out), whole);
	assert_true(layout_bytes(&layout) == bytes);
	assert_int_equal(layout_check(&layout), 0);
}

static void expect_refused(const char *text, const char *why)
{
	gpub_layout layout = { .lanes = 7 };

	assert_int_equal(layout_parse(text, &layout), -EINVAL);
	assert_non_null(strstr(error_text(), why));
	assert_int_equal(layout.lanes, 7);
}

static void test_texts(void **state)
{
	(void)state;
	expect_text("f32[1024,1024]", "float32[1024,1024]", 4u << 20);
	expect_text("float32[1024,1024]", "float32[1024,1024]", 4u << 20);
	expect_text("f64[]", "float64[]", 8);
	expect_text("b8[3]", "bool[3]", 3);
	expect_text("i64[0,5]", "int64[0,5]", 0);
	expect_text("bf16[2,3,4,5,6,7,8,9]", "bfloat16[2,3,4,5,6,7,8,9]", 725760);
	expect_text("c128[2]", "complex128[2]", 32);
	expect_text("f32x4[100]", "float32x4[100]", 1600);
	expect_text("f4e2m1[3]", "float4_e2m1fn[3]", 2);
	expect_text("float8_e4m3fn[7]", "float8_e4m3fn[7]", 7);
	expect_text("u8[4611686018427387903]", "uint8[4611686018427387903]", (1ull << 62) - 1);
}

static void test_refused(void **state)
{
	static const char *const no_type[] = { "",	  "[3]",      "f31[3]",	   "float[3]",
					       "f32x[3]", "f32x0[3]", "f32x-1[3]", "f32x99999999[3]",
					       "F32[3]",  " f32[3]",  "f32 [3]",   "f321[3]" };
	static const char *const no_shape[] = { "f32",
						"f32[",
						"f32[,]",
						"f32[1,]",
						"f32[1",
						"f32[1]]",
						"f32[1] ",
						"f32[-1]",
						"f32[1.5]",
						"f32[ 1]",
						"f32[99999999999999999999]",
						"f32[1,2,3,4,5,6,7,8,9]",
						"f32x4" };

	(void)state;
	expect_refused(NULL, "no element type");
	for (size_t i = 0; i < sizeof no_type / sizeof *no_type; i++)
		expect_refused(no_type[i], "no element type");
	for (size_t i = 0; i < sizeof no_shape / sizeof *no_shape; i++)
		expect_refused(no_shape[i], "has no shape");
	expect_refused("f32x2000[3]", "2000");
	expect_refused("f32[4611686018427387904]", "2^62");
	expect_refused("u8[4611686018427387904]", "2^62");
	expect_refused("f32[4294967296,4294967296]", "2^62");
	expect_refused("f32[0,4294967296,4294967296]", "2^62");
}

static void expect_resized(const char *text, uint64_t bytes, const char *resized)
{
	gpub_layout layout = { 0 };
	char out[GPUB_LAYOUT_TEXT_MAX];

	assert_int_equal(layout_parse(text, &layout), 0);
	layout_resize(&layout, bytes);
	assert_string_equal(layout_text(&layout, out), resized);
}

/* A row of three elements of 4 bits is one byte and a half. */
static void test_resizes(void **state)
{
	(void)state;
	expect_resized("f32[4,3]", 48, "float32[4,3]");
	expect_resized("f32[4,3]", 71, "float32[5,3]");
	expect_resized("f32[4,3]", 11, "float32[0,3]");
	expect_resized("f32[0]", 4, "float32[1]");
	expect_resized("f32[]", 100, "float32[]");
	expect_resized("f32[4,0]", 100, "float32[4,0]");
	expect_resized("f4e2m1[4,3]", 6, "float4_e2m1fn[4,3]");
	expect_resized("f4e2m1[4,3]", 5, "float4_e2m1fn[3,3]");
	expect_resized("f4e2m1[4,3]", 1, "float4_e2m1fn[0,3]");
	expect_resized("f4e2m1[4,3]", 27, "float4_e2m1fn[18,3]");
	expect_resized("f4e2m1[1]", 7, "float4_e2m1fn[14]");
	expect_resized("u8[1]", (1ull << 61) - 1, "uint8[2305843009213693951]");
}

/* What another process wrote. */
static void test_nonsense(void **state)
{
	const gpub_layout good = { .code = GPUB_FLOAT, .bits = 32, .lanes = 1, .ndim = 1, .shape = { 5 } };
	gpub_layout bad[7] = { good, good, good, good, good, good, good };
	char text[GPUB_LAYOUT_TEXT_MAX];

	(void)state;
	bad[0].code = 200;
	bad[1].bits = 31;
	bad[2].lanes = 0;
	bad[3].lanes = 60000;
	bad[4].ndim = 9;
	bad[5].ndim = UINT32_MAX;
	bad[6].shape[7] = 1;
	assert_int_equal(layout_check(&good), 0);
	assert_int_equal(layout_check(&(gpub_layout){ 0 }), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(layout_check(&bad[i]), -EINVAL);
		assert_true(strlen(layout_text(&bad[i], text)) < sizeof text);
	}
	memset(&bad[0], 0xff, sizeof bad[0]);
	assert_int_equal(layout_check(&bad[0]), -EINVAL);
	assert_true(strlen(layout_text(&bad[0], text)) < sizeof text);
}

/* The longest one has room. */
static void test_the_longest_text(void **state)
{
	gpub_layout layout = { .code = 14, .bits = 8, .lanes = UINT16_MAX, .ndim = GPUB_DIMS_MAX };
	char text[GPUB_LAYOUT_TEXT_MAX];

	(void)state;
	for (int i = 0; i < GPUB_DIMS_MAX; i++)
		layout.shape[i] = UINT64_MAX - 1;
	layout_text(&layout, text);
	assert_int_equal(text[strlen(text) - 1], ']');
}

/* Whatever was parsed is written and parsed to the same. */
static void test_every_text_is_read_back(void **state)
{
	static const char *const types[] = { "bool",	    "int8",	      "int16",	      "int32",
					     "int64",	    "uint8",	      "uint16",	      "uint32",
					     "uint64",	    "float16",	      "float32",      "float64",
					     "bfloat16",    "complex64",      "complex128",   "float8_e4m3fn",
					     "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn" };

	(void)state;
	srandom(1);
	for (int i = 0; i < 2000; i++) {
		char text[GPUB_LAYOUT_TEXT_MAX], out[GPUB_LAYOUT_TEXT_MAX];
		int at = snprintf(text, sizeof text, "%s%s[", types[(size_t)random() % (sizeof types / sizeof *types)],
				  random() % 4 ? "" : "x16");
		unsigned ndim = (unsigned)random() % (GPUB_DIMS_MAX + 1);
		gpub_layout layout;

		for (unsigned d = 0; d < ndim; d++)
			at += snprintf(text + at, sizeof text - (size_t)at, "%s%ld", d ? "," : "", random() % 50);
		strcpy(text + at, "]");
		assert_int_equal(layout_parse(text, &layout), 0);
		assert_string_equal(layout_text(&layout, out), text);
	}
}

static void expect_fit(const char *has_text, const char *expected_text, bool fits)
{
	gpub_layout has = { 0 }, expected = { 0 };

	assert_int_equal(layout_parse(has_text, &has), 0);
	assert_int_equal(layout_parse(expected_text, &expected), 0);
	assert_int_equal(layout_expect("u", &has, &expected), fits ? 0 : -EMEDIUMTYPE);
}

static void test_what_fits(void **state)
{
	gpub_layout has = { 0 }, expected = { 0 };

	(void)state;
	expect_fit("f32[5]", "f32[5]", true);
	expect_fit("f32[5]", "f32[6]", false);
	expect_fit("f32[5]", "f32[5,1]", false);
	expect_fit("f32[5]", "i32[5]", false);
	expect_fit("f32[5]", "f64[5]", false);
	expect_fit("f32x4[5]", "f32[5]", false);
	assert_int_equal(layout_parse("f64[512]", &has), 0);
	assert_int_equal(layout_expect("u", &has, &expected), 0);
	assert_int_equal(layout_parse("f32[1024]", &expected), 0);
	assert_int_equal(layout_expect("u", &has, &expected), -EMEDIUMTYPE);
	assert_string_equal(error_text(), "'u' is float64[512], float32[1024] was expected");
	expected = has;
	expected.shape[0] = GPUB_ANY_EXTENT;
	assert_int_equal(layout_expect("u", &has, &expected), 0);
	assert_int_equal(layout_expect("u", &(gpub_layout){ 0 }, &expected), -EMEDIUMTYPE);
	assert_string_equal(error_text(), "'u' is bytes, float64[*] was expected");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_resizes),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_the_longest_text),
		cmocka_unit_test(test_every_text_is_read_back),
		cmocka_unit_test(test_what_fits),
	};

	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
