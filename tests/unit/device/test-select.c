/* SPDX-License-Identifier: Apache-2.0 */
/* test-select.c - which device a user may ask for, byte by byte, and which one that is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/select.h"
#include "host-harness.h"

static int group_begin(void **state)
{
	(void)state;
	return scenarios_begin("");
}

static int group_end(void **state)
{
	(void)state;
	return scenarios_end();
}

static void scenario_select(void)
{
	const struct device *chosen = NULL;
	static const char *const bad[] = { "",	      "hos",	 "host:",     "host:0", "host:65",
					   "host:1x", "host:-1", "host:0001", NULL };

	for (int i = 0; bad[i]; i++) {
		CHECK(device_check(bad[i]) == -EINVAL);
		CHECK(device_select(bad[i], false, &chosen) == -EINVAL && !chosen);
	}
	CHECK(device_check(NULL) == -EINVAL && !device_check("auto") && !device_check("host:64"));
	CHECK(!device_select("host:2", true, &chosen) && chosen == &device_host && chosen->count() == 2);
}

static void test_select(void **state)
{
	(void)state;
	expect_clean(scenario_select);
}

/* The number comes from a broker's board, and may be any. */
static void test_find(void **state)
{
	(void)state;
	assert_ptr_equal(device_find(DEVICE_HOST), &device_host);
	assert_ptr_equal(device_find(DEVICE_CUDA), device_cuda);
	assert_null(device_find(0));
	assert_null(device_find(DEVICE_KINDS));
	assert_null(device_find(UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_select),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests_name("device selection", tests, group_begin, group_end);
}
