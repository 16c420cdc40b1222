/* SPDX-License-Identifier: Apache-2.0 */
/* test-access.c - who may create buffers: those on the list, root and the broker's own user, or everybody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/users/access.h"

static bool may(const struct access_list *creators, uid_t uid, gid_t gid, gid_t other)
{
	const struct identity identity = { .uid = uid, .gid = gid, .groups = &other, .group_count = 1 };

	return access_may_create(creators, &identity);
}

static const uid_t users[] = { 4001, 4003 };
static const gid_t groups[] = { 5001, 5003 };

static void test_without_restriction_everybody_may(void **state)
{
	/* also with lists that name others: they count only where the access is restricted */
	const struct access_list open = { .users = users, .user_count = 2 };

	(void)state;
	assert_true(may(&open, 4001, 1, 2));
	assert_true(may(&open, 4002, 1, 2));
}

static void test_users_on_the_list_may(void **state)
{
	const struct access_list list = { .restricted = true, .users = users, .user_count = 2 };

	(void)state;
	assert_true(may(&list, 4001, 1, 2));
	assert_true(may(&list, 4003, 1, 2));
	assert_false(may(&list, 4002, 1, 2));
	/* a group that has a user's number is not that user */
	assert_false(may(&list, 4002, 4001, 4003));
}

static void test_groups_on_the_list_may(void **state)
{
	const struct access_list list = { .restricted = true, .groups = groups, .group_count = 2 };

	(void)state;
	assert_true(may(&list, 4001, 5001, 2));
	assert_true(may(&list, 4001, 1, 5003));
	assert_false(may(&list, 4001, 1, 5002));
	assert_false(may(&list, 5001, 1, 2));
}

static void test_an_empty_list_leaves_root_and_the_brokers_own_user(void **state)
{
	const struct access_list nobody = { .restricted = true };

	(void)state;
	assert_true(may(&nobody, 0, 1, 2));
	assert_true(may(&nobody, geteuid(), 1, 2));
	assert_false(may(&nobody, geteuid() + 1, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_restriction_everybody_may),
		cmocka_unit_test(test_users_on_the_list_may),
		cmocka_unit_test(test_groups_on_the_list_may),
		cmocka_unit_test(test_an_empty_list_leaves_root_and_the_brokers_own_user),
	};

	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
