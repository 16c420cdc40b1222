/* SPDX-License-Identifier: Apache-2.0 */
/* test-size.c - which sizes people may write, at the edges, and how sizes are printed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/size.h"

static void expect_size(const char *text, uint64_t expected)
{
	uint64_t bytes = 0;

	assert_int_equal(size_parse(text, &bytes), 0);
	assert_true(bytes == expected);
}

static void test_sizes_accepted(void **state)
{
	(void)state;
	expect_size("1", 1);
	expect_size("4096", 4096);
	expect_size("007", 7);
	expect_size("9", 9);
	expect_size("90K", 90u << 10);
	expect_size("64K", 64u << 10);
	expect_size("64k", 64u << 10);
	expect_size("3M", 3u << 20);
	expect_size("3m", 3u << 20);
	expect_size("2G", 2ull << 30);
	expect_size("2g", 2ull << 30);
	expect_size("4611686018427387904", 1ull << 62);
	expect_size("4503599627370496K", 1ull << 62);
	expect_size("4294967296G", 1ull << 62);
	expect_size("4194304T", 1ull << 62);
	expect_size("4E", 1ull << 62);
	expect_size("2P", 2ull << 50);
	expect_size("100B", 100);
	expect_size("64KiB", 64u << 10);
	expect_size("64 KiB", 64u << 10);
	expect_size("100 B", 100);
	expect_size("1 M", 1u << 20);
	expect_size("1.5M", 3u << 19);
	expect_size("1.5 GiB", 3u << 29);
	expect_size("0.5K", 512);
	expect_size("1.2G", 1288490188);
	expect_size("1.999999K", 2047);
	expect_size("3.9E", 4496393867966283776ull); /* the fraction is rounded down to whole MiB */
}

/* Of sizes that are not rounded when they are written, and of others to the written digits. */
static void test_sizes_are_read_as_they_are_written(void **state)
{
	static const uint64_t sizes[] = { 1, 100, 1023, 1024, 1536, 5ull << 20, 3ull << 29, 7ull << 40, 1ull << 62 };
	char text[SIZE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		expect_size(size_format(sizes[i], text), sizes[i]);
		expect_size(size_short(sizes[i], text), sizes[i]);
	}
}

static void test_sizes_refused(void **state)
{
	static const char *const wrong[] = {
		"", "0", "0G", "-1", "+1", " 1", "1 ", "1KB", "1.5", "1.5B", "0x10", "M", "1MM", "1  M", "a",
		"1.M", ".5M", "1..5M", "1.1234567M", "1,5M", "1iB", "1Mib", "1MiBs", "1BiB", "0.0M", "5E", "4.1E",
		"4611686018427387905", "4503599627370497K", "4398046511105M", "4294967297G", "18446744073709551615",
		"18446744073709551616", "99999999999999999999999999G",
	};
	uint64_t bytes = 42;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_int_equal(size_parse(wrong[i], &bytes), -EINVAL);
		assert_non_null(strstr(error_text(), wrong[i]));
	}
	assert_int_equal(size_parse("1\xc3\xa4", &bytes), -EINVAL); /* an error message has ASCII alone */
	assert_non_null(strstr(error_text(), "1??"));
	assert_int_equal(size_parse(NULL, &bytes), -EINVAL);
	assert_int_equal(bytes, 42);
}

static void expect_text(uint64_t bytes, const char *expected)
{
	char text[SIZE_TEXT_MAX];

	assert_string_equal(size_format(bytes, text), expected);
	assert_true(strlen(text) < SIZE_TEXT_MAX);
}

static void test_sizes_formatted(void **state)
{
	(void)state;
	expect_text(0, "0 B");
	expect_text(100, "100 B");
	expect_text(1023, "1023 B");
	expect_text(1024, "1 KiB");
	expect_text(1536, "1.5 KiB");
	expect_text(64u << 20, "64 MiB");
	expect_text(3ull << 29, "1.5 GiB");
	expect_text((1ull << 20) - 1, "1023 KiB");
	expect_text(1ull << 40, "1 TiB");
	expect_text(1ull << 62, "4 EiB");
	expect_text(UINT64_MAX, "16.0 EiB");
}

static void test_short_sizes(void **state)
{
	char text[SIZE_TEXT_MAX];

	(void)state;
	assert_string_equal(size_short(5, text), "5B");
	assert_string_equal(size_short(64u << 10, text), "64K");
	assert_string_equal(size_short(1536u << 10, text), "1.5M");
}

static void test_round_up(void **state)
{
	(void)state;
	assert_true(size_round_up(1, 2u << 20) == 2u << 20);
	assert_true(size_round_up(2u << 20, 2u << 20) == 2u << 20);
	assert_true(size_round_up((2u << 20) + 1, 2u << 20) == 4u << 20);
	assert_true(size_round_up(0, 4096) == 0);
	/* what does not fit is 0, never a small size */
	assert_true(size_round_up(UINT64_MAX, 4096) == 0);
	assert_true(size_round_up(UINT64_MAX - 4095, 4096) == UINT64_MAX - 4095);
	assert_true(size_round_up(UINT64_MAX - 4094, 4096) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_accepted),
		cmocka_unit_test(test_sizes_are_read_as_they_are_written),
		cmocka_unit_test(test_sizes_refused),
		cmocka_unit_test(test_sizes_formatted),
		cmocka_unit_test(test_short_sizes),
		cmocka_unit_test(test_round_up),
	};

	return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
