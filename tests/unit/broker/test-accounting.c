/* SPDX-License-Identifier: Apache-2.0 */
/* test-accounting.c - quotas: the limit, one past it, the refund, and that users do not pay for each other. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/users/accounting.h"
#include "common/error.h"

static struct accounting accounting;

static int setup(void **state)
{
	(void)state;
	accounting_init(&accounting);
	accounting.own = 65535; /* whoever runs this: none of those below */
	return 0;
}

/* A user that is charged with nothing has no account. */
static int teardown(void **state)
{
	int left = accounting.accounts != NULL;

	(void)state;
	accounting_deinit(&accounting);
	return left;
}

static int take(struct charge *charge, uid_t uid, enum resource resource, uint64_t amount)
{
	memset(charge, 0, sizeof *charge);
	return charge_take(charge, &accounting, uid, resource, amount);
}

static void test_limit_and_one_past_it(void **state)
{
	struct charge most, one, empty = { 0 };

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_BYTES] = 100;
	assert_int_equal(take(&most, 7, RESOURCE_BYTES, 101), -EDQUOT);
	assert_memory_equal(&most, &empty, sizeof most);
	assert_int_equal(take(&most, 7, RESOURCE_BYTES, 99), 0);
	assert_int_equal(take(&one, 7, RESOURCE_BYTES, 2), -EDQUOT);
	assert_int_equal(take(&one, 7, RESOURCE_BYTES, 1), 0);
	assert_true(accounting_used(&accounting, 7, RESOURCE_BYTES) == 100);
	charge_release(&one, &accounting);
	assert_int_equal(take(&one, 7, RESOURCE_BYTES, 1), 0);
	charge_release(&one, &accounting);
	charge_release(&most, &accounting);
	assert_true(accounting_used(&accounting, 7, RESOURCE_BYTES) == 0);
}

static void test_refusal_names_quota_limit_and_use(void **state)
{
	struct charge orphaned, more;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_BUFFERS] = 3;
	assert_int_equal(take(&orphaned, 1234, RESOURCE_BUFFERS, 2), 0);
	assert_int_equal(take(&more, 1234, RESOURCE_BUFFERS, 2), -EDQUOT);
	assert_string_equal(error_text(), "user 1234 may hold 3 buffers, holds 2 and asks for 2 more: return some, or "
					  "have its quota raised (brokerd.conf(5))");
	charge_release(&orphaned, &accounting);
	accounting.quotas.fallback.limit[RESOURCE_BUFFERS] = 1;
	assert_int_equal(take(&more, 1234, RESOURCE_BUFFERS, 2), -EDQUOT);
	assert_non_null(strstr(error_text(), "may hold 1 buffer, holds 0 "));
	accounting.quotas.fallback.limit[RESOURCE_BYTES] = 40 << 20;
	assert_int_equal(take(&more, 1234, RESOURCE_BYTES, 41 << 20), -EDQUOT);
	assert_non_null(strstr(error_text(), "may hold 40 MiB of device memory, holds 0 B and asks for 41 MiB more"));
}

static void test_users_and_resources_are_apart(void **state)
{
	struct charge first, second, other;

	(void)state;
	for (int i = 0; i < RESOURCES; i++)
		accounting.quotas.fallback.limit[i] = 1;
	assert_int_equal(take(&first, 1, RESOURCE_GRANTS, 1), 0);
	assert_int_equal(take(&second, 2, RESOURCE_GRANTS, 1), 0);
	assert_int_equal(take(&other, 1, RESOURCE_SESSIONS, 1), 0);
	assert_true(accounting_used(&accounting, 1, RESOURCE_GRANTS) == 1);
	assert_true(accounting_used(&accounting, 1, RESOURCE_BYTES) == 0);
	assert_true(accounting_used(&accounting, 3, RESOURCE_GRANTS) == 0);
	charge_release(&first, &accounting);
	assert_true(accounting_used(&accounting, 2, RESOURCE_GRANTS) == 1);
	charge_release(&second, &accounting);
	charge_release(&other, &accounting);
}

static void test_released_once(void **state)
{
	struct charge one, two, empty = { 0 };

	(void)state;
	assert_int_equal(take(&one, 1, RESOURCE_BYTES, 10), 0);
	assert_int_equal(take(&two, 1, RESOURCE_BYTES, 5), 0);
	charge_release(&one, &accounting);
	assert_memory_equal(&one, &empty, sizeof one);
	charge_release(&one, &accounting);
	assert_true(accounting_used(&accounting, 1, RESOURCE_BYTES) == 5);
	charge_release(&empty, &accounting);
	charge_release(&two, &accounting);
}

/* Sums that do not fit 64 bits are refused, with a quota or without. */
static void test_no_overflow(void **state)
{
	struct charge big, more;

	(void)state;
	assert_int_equal(take(&big, 1, RESOURCE_BYTES, UINT64_MAX - 1), 0);
	assert_int_equal(take(&more, 1, RESOURCE_BYTES, 2), -EDQUOT);
	assert_true(accounting_used(&accounting, 1, RESOURCE_BYTES) == UINT64_MAX - 1);
	accounting.quotas.fallback.limit[RESOURCE_BYTES] = 5;
	assert_int_equal(take(&more, 1, RESOURCE_BYTES, 1), -EDQUOT);
	charge_release(&big, &accounting);
	assert_int_equal(take(&more, 1, RESOURCE_BYTES, UINT64_MAX), -EDQUOT);
}

/* ---- quotas by user ---- */

static void test_a_named_user_has_its_own_quota(void **state)
{
	struct user_quota named[2] = { { .uid = 7 }, { .uid = 9 } };
	struct quotas quotas = { .users = named, .count = 2 };
	struct charge charge, more;

	(void)state;
	quota_init(&quotas.fallback);
	quota_init(&named[0].quota);
	quota_init(&named[1].quota);
	quotas.fallback.limit[RESOURCE_BYTES] = 1;
	named[0].quota.limit[RESOURCE_BYTES] = 7;
	named[1].quota.limit[RESOURCE_BYTES] = 9;
	accounting_set_quotas(&accounting, &quotas);
	assert_ptr_equal(accounting_quota(&accounting, 9), &named[1].quota);
	assert_int_equal(accounting_quota(&accounting, 8)->limit[RESOURCE_BYTES], 1);
	assert_int_equal(take(&more, 8, RESOURCE_BYTES, 2), -EDQUOT);
	assert_int_equal(take(&more, 7, RESOURCE_BYTES, 8), -EDQUOT);
	assert_int_equal(take(&charge, 9, RESOURCE_BYTES, 9), 0);
	assert_int_equal(take(&more, 9, RESOURCE_BYTES, 1), -EDQUOT);
	charge_release(&charge, &accounting);
}

/* A user that holds more than the new quota keeps it, and gets no more until it is below. */
static void test_a_smaller_quota_takes_nothing_away(void **state)
{
	struct quotas quotas = { 0 };
	struct charge first, second, more;

	(void)state;
	assert_int_equal(take(&first, 7, RESOURCE_BUFFERS, 6), 0);
	assert_int_equal(take(&second, 7, RESOURCE_BUFFERS, 4), 0);
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_BUFFERS] = 5;
	accounting_set_quotas(&accounting, &quotas);
	assert_true(accounting_used(&accounting, 7, RESOURCE_BUFFERS) == 10);
	assert_int_equal(take(&more, 7, RESOURCE_BUFFERS, 1), -EDQUOT);
	charge_release(&first, &accounting);
	assert_int_equal(take(&more, 7, RESOURCE_BUFFERS, 2), -EDQUOT);
	assert_int_equal(take(&more, 7, RESOURCE_BUFFERS, 1), 0);
	charge_release(&second, &accounting);
	charge_release(&more, &accounting);
}

/* ---- shares ---- */

#define CAPACITY 120
#define TAKERS   5

/* Takes one at a time until it is refused; returns how many that were. */
static unsigned take_all(struct charge *charges, uid_t uid, enum resource resource)
{
	unsigned count = 0;

	while (!take(&charges[count], uid, resource, 1))
		count++;
	return count;
}

static void release_all(struct charge *charges, unsigned count)
{
	while (count--)
		charge_release(&charges[count], &accounting);
}

static void test_one_user_alone_gets_half_and_the_next_what_its_share_is(void **state)
{
	static struct charge charges[2][CAPACITY];
	unsigned first, second;

	(void)state;
	accounting_set_capacity(&accounting, RESOURCE_BUFFERS, CAPACITY);
	first = take_all(charges[0], 1001, RESOURCE_BUFFERS);
	assert_int_equal(first, CAPACITY / 2);
	assert_string_equal(error_text(), "user 1001's share is 60 buffers now, of 120 for all users; it holds 60 and "
					  "asks for 1 more: return some, wait for others to, or have the administrator "
					  "raise board.buffers in brokerd.conf(5)");
	second = take_all(charges[1], 1002, RESOURCE_BUFFERS);
	assert_int_equal(second, CAPACITY / 4);
	/* another resource is another matter, also where it has a capacity */
	accounting_set_capacity(&accounting, RESOURCE_MAPPINGS, 2);
	release_all(charges[1], take_all(charges[1] + second, 1002, RESOURCE_MAPPINGS) + second);
	release_all(charges[0], first);
	assert_true(accounting.capacity[RESOURCE_BUFFERS].used == 0 &&
		    accounting.capacity[RESOURCE_MAPPINGS].used == 0);
}

/* They give back and take anew, as programs do: then each has the same, and a newcomer finds as much as that. */
static void test_users_who_want_all_converge_to_the_same_and_a_newcomer_finds_room(void **state)
{
	static struct charge charges[TAKERS + 1][CAPACITY];
	unsigned orphaned[TAKERS + 1] = { 0 };

	(void)state;
	accounting_set_capacity(&accounting, RESOURCE_BUFFERS, CAPACITY);
	for (unsigned round = 0; round < 40 * CAPACITY; round++) {
		unsigned who = round % TAKERS;

		if (orphaned[who])
			charge_release(&charges[who][--orphaned[who]], &accounting);
		orphaned[who] += take_all(charges[who] + orphaned[who], 1000 + who, RESOURCE_BUFFERS);
	}
	for (unsigned who = 0; who < TAKERS; who++)
		assert_in_range(orphaned[who], CAPACITY / (TAKERS + 1) - 1, CAPACITY / (TAKERS + 1) + 1);
	orphaned[TAKERS] = take_all(charges[TAKERS], 1000 + TAKERS, RESOURCE_BUFFERS);
	assert_in_range(orphaned[TAKERS], CAPACITY / (TAKERS + 1) / 2 - 1, CAPACITY);
	for (unsigned who = 0; who <= TAKERS; who++)
		release_all(charges[who], orphaned[who]);
}

static void test_more_than_one_at_a_time_is_bounded_as_well(void **state)
{
	struct charge charge, more;

	(void)state;
	accounting_set_capacity(&accounting, RESOURCE_DESCRIPTORS, 100);
	assert_int_equal(take(&charge, 1001, RESOURCE_DESCRIPTORS, 51), -EDQUOT);
	assert_int_equal(take(&charge, 1001, RESOURCE_DESCRIPTORS, UINT64_MAX), -EDQUOT);
	assert_int_equal(take(&charge, 1001, RESOURCE_DESCRIPTORS, 50), 0);
	assert_int_equal(take(&more, 1001, RESOURCE_DESCRIPTORS, 0), 0);
	charge_release(&more, &accounting);
	/* a user that held more before there was a capacity keeps it; nobody gets more than the capacity */
	accounting_set_capacity(&accounting, RESOURCE_DESCRIPTORS, 20);
	assert_int_equal(take(&more, 1002, RESOURCE_DESCRIPTORS, 1), -EDQUOT);
	charge_release(&charge, &accounting);
}

static void test_the_last_place_is_somebodys(void **state)
{
	struct charge charge, more;

	(void)state;
	accounting_set_capacity(&accounting, RESOURCE_BUFFERS, 1);
	assert_int_equal(take(&charge, 1001, RESOURCE_BUFFERS, 1), 0);
	assert_int_equal(take(&more, 1002, RESOURCE_BUFFERS, 1), -EDQUOT);
	charge_release(&charge, &accounting);
}

/* They administer: no share bounds them, but their quota and what there is do. */
static void test_root_and_the_brokers_own_user_may_take_what_is_free(void **state)
{
	struct charge others, charge, more;

	(void)state;
	accounting.own = 1234;
	accounting_set_capacity(&accounting, RESOURCE_BUFFERS, 10);
	assert_int_equal(take(&others, 1001, RESOURCE_BUFFERS, 5), 0);
	assert_int_equal(take(&charge, 0, RESOURCE_BUFFERS, 4), 0);
	assert_int_equal(take(&more, 1234, RESOURCE_BUFFERS, 2), -EDQUOT);
	assert_int_equal(take(&more, 1234, RESOURCE_BUFFERS, 1), 0);
	charge_release(&more, &accounting);
	charge_release(&charge, &accounting);
	accounting.quotas.fallback.limit[RESOURCE_BUFFERS] = 3;
	assert_int_equal(take(&charge, 0, RESOURCE_BUFFERS, 4), -EDQUOT);
	charge_release(&others, &accounting);
}

/* Nothing is bounded but what nobody needs much of. */
static void test_quotas_to_begin_with(void **state)
{
	const struct quota *quota = accounting_quota(&accounting, 7);
	struct charge charge, more;

	(void)state;
	for (int i = 0; i < RESOURCES; i++)
		assert_true((quota->limit[i] == QUOTA_NONE) == (i != RESOURCE_GREETINGS && i != RESOURCE_TICKETS &&
								  i != RESOURCE_WAITS));
	assert_true(quota->requests == QUOTA_NONE);
	assert_int_equal(take(&charge, 7, RESOURCE_GREETINGS, 1024), 0);
	assert_int_equal(take(&more, 7, RESOURCE_GREETINGS, 1), -EDQUOT);
	assert_int_equal(take(&more, 8, RESOURCE_GREETINGS, 1), 0);
	charge_release(&charge, &accounting);
	charge_release(&more, &accounting);
}

/* They are configured and shown by these. */
static void test_each_resource_has_its_own_name(void **state)
{
	(void)state;
	assert_string_equal(resource_key(RESOURCE_BYTES), "bytes");
	assert_string_equal(resource_key(RESOURCE_TICKETS), "tickets");
	for (int i = 0; i < RESOURCES; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(resource_key((enum resource)i), resource_key((enum resource)j));
}

static void note_user(void *context, uid_t uid, const uint64_t used[RESOURCES])
{
	uint64_t *bytes = context;

	assert_true(uid < 3);
	assert_int_equal(bytes[uid], 0);
	bytes[uid] = used[RESOURCE_BYTES];
}

static void test_each_user_with_a_charge_is_listed_once(void **state)
{
	uint64_t bytes[3] = { 0 };
	struct charge charges[4];

	(void)state;
	assert_int_equal(take(&charges[0], 1, RESOURCE_BYTES, 10), 0);
	assert_int_equal(take(&charges[1], 2, RESOURCE_BYTES, 20), 0);
	assert_int_equal(take(&charges[2], 1, RESOURCE_BYTES, 1), 0);
	assert_int_equal(take(&charges[3], 0, RESOURCE_BYTES, 5), 0);
	charge_release(&charges[3], &accounting);
	accounting_each(&accounting, note_user, bytes);
	assert_true(bytes[0] == 0 && bytes[1] == 11 && bytes[2] == 20);
	for (int i = 0; i < 3; i++)
		charge_release(&charges[i], &accounting);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_limit_and_one_past_it),
		ON(test_refusal_names_quota_limit_and_use),
		ON(test_users_and_resources_are_apart),
		ON(test_released_once),
		ON(test_no_overflow),
		ON(test_a_named_user_has_its_own_quota),
		ON(test_a_smaller_quota_takes_nothing_away),
		ON(test_one_user_alone_gets_half_and_the_next_what_its_share_is),
		ON(test_users_who_want_all_converge_to_the_same_and_a_newcomer_finds_room),
		ON(test_more_than_one_at_a_time_is_bounded_as_well),
		ON(test_the_last_place_is_somebodys),
		ON(test_root_and_the_brokers_own_user_may_take_what_is_free),
		ON(test_quotas_to_begin_with),
		ON(test_each_resource_has_its_own_name),
		ON(test_each_user_with_a_charge_is_listed_once),
	};

	return cmocka_run_group_tests_name("accounting", tests, NULL, NULL);
}
