/* SPDX-License-Identifier: Apache-2.0 */
/* test-keeper-upgrade.c - a keeper whose program gives way to another one, or goes back to the one before. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/thread.h"
#include "keeper-harness.h"

static unsigned upgrades, backs, readies; /* how often each hook was called */
static unsigned kept_then, number_then;   /* what was kept, and the number of brokers, at the last call of a hook */
static struct handover packed;

static void on_upgrade(void *context)
{
	(void)context;
	upgrades++;
	kept_then = kept_count(&keeper.kept);
	handover_free(&packed);
	keeper_pack(&keeper, &packed);
}

static void on_back(void *context)
{
	(void)context;
	backs++;
	kept_then = kept_count(&keeper.kept);
	number_then = keeper.number;
}

static void on_ready(void *context)
{
	(void)context;
	readies++;
}

static void on_ended(void *context, int status)
{
	(void)context;
	ended = status;
}

static void begin(int (*broker)(void *context, struct keeper_end *end), const struct handover *from)
{
	const struct keeper_program program = { .name = "test-broker",
						.broker = broker,
						.ended = on_ended,
						.upgrade = on_upgrade,
						.back = on_back,
						.ready = on_ready,
						.from = from };

	upgrades = backs = readies = 0;
	assert_int_equal(keeper_init(&keeper, base, &program), 0);
}

static void put(uint64_t key)
{
	int fd = harness_file(key, 1);

	CHECK(!line_put(&line, key, fd) && !line_flush_wait(&line));
	close(fd);
}

/* Serves with a descriptor of its own. */
static int serving(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	put(end->number);
	harness_serve();
}

static void test_the_program_is_asked_when_the_broker_is_over(void **state)
{
	(void)state;
	begin(serving, NULL);
	assert_int_equal(keeper_upgrade(&keeper), -EAGAIN); /* not READY yet */
	assert_true(SOON(readies == 1));
	assert_int_equal(keeper_upgrade(&keeper), 0);
	assert_int_equal(upgrades, 0);
	assert_true(SOON(upgrades == 1));
	assert_int_equal(kept_then, 1);
	assert_true(SOON(readies == 2)); /* the program has not executed another one: the next broker serves */
	assert_int_equal(shared->began, 2);
	assert_int_equal(shared->last, POLICY_KILLED);
	kill(shared->pid, SIGKILL); /* a death as any other */
	assert_true(SOON(readies == 3));
	assert_int_equal(upgrades, 1);
	assert_int_equal(backs, 0);
}

static void test_a_program_that_ends_is_not_upgraded(void **state)
{
	(void)state;
	begin(serving, NULL);
	assert_true(SOON(readies == 1));
	assert_int_equal(keeper_upgrade(&keeper), 0);
	keeper_stop(&keeper);
	assert_true(SOON(shared->ready == 2 || ended >= 0));
	assert_int_equal(keeper_upgrade(&keeper), -ESHUTDOWN);
	assert_int_equal(upgrades, 0);
}

static void test_what_is_packed_is_what_the_keeper_has(void **state)
{
	(void)state;
	begin(serving, NULL);
	assert_true(SOON(readies == 1));
	keeper.counts.cold_starts = 5;
	assert_int_equal(keeper_upgrade(&keeper), 0);
	assert_true(SOON(upgrades == 1));
	assert_true(harness_is(handover_fd(&packed, HANDOVER_KEPT), 1, 1));
	assert_int_equal(handover_value(&packed, HANDOVER_KEPT), 1);
	assert_int_equal(handover_value(&packed, HANDOVER_BROKERS), 1);
	assert_int_equal(handover_value(&packed, HANDOVER_COLD_STARTS), 5);
	assert_int_equal(handover_value(&packed, HANDOVER_HOW), POLICY_UPGRADED);
	assert_int_equal(handover_value(&packed, HANDOVER_OWNER), 0);
	assert_true(handover_value(&packed, HANDOVER_DEATH) > 0);
	assert_non_null(handover_find(&packed, HANDOVER_OWNERS));
	assert_non_null(handover_find(&packed, HANDOVER_OWNER_STATUS));
	handover_free(&packed);
}

/* ---- the program that goes on ---- */

static int going_on(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (end->number == 8) {
		CHECK(end->last == POLICY_UPGRADED && end->counts.cold_starts == 2 && end->death_ns == 77);
		CHECK(end->owner.number == 3 && end->owner.status == 9 && !end->cold);
		CHECK(kept_count(end->kept) == 2 && harness_is(kept_find(end->kept, 40), 40, 1) &&
		      harness_is(kept_find(end->kept, 41), 41, 1));
	}
	harness_serve();
}

static void add_numbers(struct handover *from, pid_t owner)
{
	handover_add(from, HANDOVER_OWNER, (uint64_t)owner, -1);
	handover_add(from, HANDOVER_OWNERS, 3, -1);
	handover_add(from, HANDOVER_OWNER_STATUS, 9, -1);
	handover_add(from, HANDOVER_BROKERS, 7, -1);
	handover_add(from, HANDOVER_COLD_STARTS, 2, -1);
	handover_add(from, HANDOVER_DEATH, 77, -1);
	handover_add(from, HANDOVER_HOW, POLICY_UPGRADED, -1);
	handover_add(from, HANDOVER_KEPT, 40, harness_file(40, 1));
	handover_add(from, HANDOVER_KEPT, 41, harness_file(41, 1));
}

static void test_a_keeper_goes_on_where_the_one_before_was(void **state)
{
	struct handover from = { 0 };

	(void)state;
	add_numbers(&from, 0);
	begin(going_on, &from);
	handover_free(&from);
	assert_true(SOON(readies == 1));
	assert_int_equal(shared->began, 8);
	kill(shared->pid, SIGKILL);
	assert_true(SOON(readies == 2));
}

static void test_an_owner_of_the_program_before_is_watched(void **state)
{
	struct handover from = { 0 };
	pid_t owner = fork();

	(void)state;
	if (!owner)
		for (;;)
			pause();
	add_numbers(&from, owner);
	begin(going_on, &from);
	handover_free(&from);
	assert_true(SOON(readies == 1));
	assert_true(owners_run(&keeper.owners));
	kill(owner, SIGKILL);
	assert_true(SOON(!owners_run(&keeper.owners)));
	assert_int_equal(keeper.owners.status, SIGKILL);
}

static void test_what_a_later_release_says_is_no_index(void **state)
{
	struct handover from = { 0 };

	(void)state;
	handover_add(&from, HANDOVER_HOW, 4711, -1);
	begin(going_on, &from);
	handover_free(&from);
	assert_true(SOON(readies == 1));
	assert_int_equal(shared->last, POLICY_CRASHED);
}

/* ---- the way back ---- */

static int crashing(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	abort();
}

/* In place of a cold start, and with all that is kept. If there is no way back the cold start follows. */
static void test_brokers_that_do_not_come_up_lead_back(void **state)
{
	struct handover from = { 0 };

	(void)state;
	add_numbers(&from, 0);
	begin(crashing, &from);
	handover_free(&from);
	assert_true(SOON(backs == 1));
	assert_int_equal(number_then, 7 + POLICY_FAILURES);
	assert_int_equal(kept_then, 2);
	assert_true(SOON(ended >= 0));
	assert_int_equal(readies, 0);
}

static int crashing_later(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (end->number > 1)
		abort();
	harness_serve();
}

/* A program that has served has no way back. */
static void test_a_program_that_has_served_never_leads_back(void **state)
{
	(void)state;
	begin(crashing_later, NULL);
	assert_true(SOON(readies == 1));
	kill(shared->pid, SIGKILL);
	assert_true(SOON(ended >= 0));
	assert_int_equal(backs, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_the_program_is_asked_when_the_broker_is_over),
		TEST(test_a_program_that_ends_is_not_upgraded),
		TEST(test_what_is_packed_is_what_the_keeper_has),
		TEST(test_a_keeper_goes_on_where_the_one_before_was),
		TEST(test_an_owner_of_the_program_before_is_watched),
		TEST(test_what_a_later_release_says_is_no_index),
		TEST(test_brokers_that_do_not_come_up_lead_back),
		TEST(test_a_program_that_has_served_never_leads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
