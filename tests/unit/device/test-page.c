/* SPDX-License-Identifier: Apache-2.0 */
/* test-page.c - memory for the device is mapped at an address where nothing else is registered, or refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/page.h"
#include "common/error.h"
#include "device/device.h"

#define SIZE 65536

static void *offered[64];
static unsigned offers, refusals; /* how many registrations are refused */
static int refusal;

static int fake_register(void *page, size_t size, bool writable)
{
	assert_int_equal(size, SIZE);
	assert_true(writable);
	assert_true(offers < sizeof offered / sizeof *offered);
	for (unsigned i = 0; i < offers; i++)
		assert_ptr_not_equal(page, offered[i]); /* as long as those stay mapped */
	offered[offers++] = page;
	return offers <= refusals ? error_set(refusal, "refused") : 0;
}

static const struct device fake = { .kind = DEVICE_HOST, .page_register = fake_register };

/* mincore(2) says ENOMEM of what is not mapped. */
static bool is_mapped(void *page)
{
	unsigned char resident[SIZE / 4096];

	return !mincore(page, SIZE, resident);
}

static int map(unsigned refused, int error, void **page)
{
	offers = 0;
	refusals = refused;
	refusal = error;
	return page_map(fake.page_register, SIZE, -1, true, page);
}

static void test_a_stale_registration_is_avoided(void **state)
{
	void *page = NULL;

	(void)state;
	assert_int_equal(map(3, -EEXIST, &page), 0);
	assert_int_equal(offers, 4);
	assert_ptr_equal(page, offered[3]);
	assert_true(is_mapped(page));
	for (int i = 0; i < 3; i++)
		assert_false(is_mapped(offered[i]));
	munmap(page, SIZE);
}

static void test_tries_are_bounded(void **state)
{
	void *page = NULL;

	(void)state;
	assert_int_equal(map(64, -EEXIST, &page), -EEXIST);
	assert_null(page);
	assert_true(offers > 8);
	for (unsigned i = 0; i < offers; i++)
		assert_false(is_mapped(offered[i]));
}

static void test_other_errors_are_final(void **state)
{
	void *page = NULL;

	(void)state;
	assert_int_equal(map(64, -EIO, &page), -EIO);
	assert_null(page);
	assert_int_equal(offers, 1);
	assert_false(is_mapped(offered[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_stale_registration_is_avoided),
		cmocka_unit_test(test_tries_are_bounded),
		cmocka_unit_test(test_other_errors_are_final),
	};

	return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
