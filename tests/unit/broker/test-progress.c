/* SPDX-License-Identifier: Apache-2.0 */
/* test-progress.c - what the line of a transfer says, also at its ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/ctl/progress.h"

static void expect(uint64_t done, uint64_t total, uint64_t elapsed_ns, const char *line)
{
	const struct progress progress = { .name = "u", .done = done, .total = total };
	char text[PROGRESS_LINE_MAX];

	assert_string_equal(progress_line(&progress, elapsed_ns, text), line);
}

static void test_lines(void **state)
{
	(void)state;
	expect(256 << 20, 1 << 30, 500000000, "u: 256 MiB of 1 GiB, 25%, 512 MiB/s");
	expect(0, 1 << 30, 0, "u: 0 B of 1 GiB, 0%, 0 B/s");
	expect(1 << 30, 1 << 30, 1000000000, "u: 1 GiB of 1 GiB, 100%, 1 GiB/s");
	expect((1 << 30) - 1, 1 << 30, 1000000000, "u: 1023 MiB of 1 GiB, 99%, 1023 MiB/s");
	expect(0, 0, 1, "u: 0 B of 0 B, 100%, 0 B/s");
}

static void test_a_long_name_is_cut(void **state)
{
	char name[96], text[PROGRESS_LINE_MAX];
	const struct progress progress = { .name = name, .done = UINT64_MAX / 4, .total = UINT64_MAX / 4 };

	(void)state;
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	assert_true(strlen(progress_line(&progress, 1, text)) < 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines), cmocka_unit_test(test_a_long_name_is_cut) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
