/* SPDX-License-Identifier: Apache-2.0 */
/* test-master-key.c - the keys that a broker and the next one derive (base/master-key.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/base/master-key.h"

#define SIZE 32

struct derived {
	uint8_t bytes[SIZE];
};

static struct derived derive(const struct master_key *master, enum master_use use, uint64_t number)
{
	struct derived key;

	master_key_derive(master, use, number, key.bytes, SIZE);
	return key;
}

static void test_the_next_broker_has_the_same_keys(void **state)
{
	struct master_key first = { 0 }, next = { 0 }, stranger = { 0 };
	struct derived key, other;
	int fd;

	(void)state;
	assert_int_equal(master_key_init(&first, -1), 0);
	assert_int_equal(master_key_init(&stranger, -1), 0);
	fd = master_key_share(&first);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 1), -1);
	assert_int_equal(master_key_init(&next, fd), 0);
	close(fd);
	key = derive(&first, MASTER_SESSION, 7);
	other = derive(&next, MASTER_SESSION, 7);
	assert_memory_equal(&key, &other, sizeof key);
	other = derive(&next, MASTER_SESSION, 8);
	assert_memory_not_equal(&key, &other, sizeof key);
	other = derive(&next, MASTER_TICKETS, 7);
	assert_memory_not_equal(&key, &other, sizeof key);
	other = derive(&stranger, MASTER_SESSION, 7);
	assert_memory_not_equal(&key, &other, sizeof key);
	master_key_deinit(&first);
	master_key_deinit(&next);
	master_key_deinit(&stranger);
	master_key_deinit(&stranger); /* once more does nothing */
}

static void test_what_is_no_key_is_refused(void **state)
{
	struct master_key master = { 0 };
	int fd = memfd_create("short", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(fd, "short", 5), 5);
	assert_int_equal(master_key_init(&master, fd), -EBADMSG);
	assert_null(master.secret);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_next_broker_has_the_same_keys),
					    cmocka_unit_test(test_what_is_no_key_is_refused) };

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests_name("master key", tests, NULL, NULL);
}
