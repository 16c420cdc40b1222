/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-devices.c - what the broker does when the owner of the devices ends (core/devices.c): whom it blames, when it
 * starts another one, and when no more.
 *
 * tests/integration/owner.sh and owner-kills.sh look at memory and clients meanwhile.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "broker/core/devices.h"
#include "broker/memory/jobs.h"
#include "owner-thread.h"
#include "session-harness.h"

#define CRASHED 10 /* strikes, of 100 */
#define KILLED  1

static unsigned failures;
static atomic_uint starts; /* number of owners that were about to start their devices */
static int gate[2]; /* an owner whose start is held up reads a byte */

static void note_failure(void *context)
{
	assert_ptr_equal(context, &broker);
	failures++;
}

static int setup(void **state)
{
	int error = harness_setup(state);

	failures = starts = 0;
	owner_thread_crashes = true;
	owner_thread_starts = NULL;
	broker_when_no_owner(&broker, note_failure, &broker);
	return error;
}

static bool serves(void)
{
	return !broker.jobs->lost;
}

static void owner_ends(bool crashes)
{
	owner_thread_crashes = crashes;
	owner_thread_die(&broker.devices->owner);
	EXPECT_SOON(!serves());
	owner_thread_gone(&broker.devices->owner);
}

static void test_an_owner_that_ends_is_replaced(void **state)
{
	(void)state;
	owner_ends(true);
	EXPECT_SOON(serves());
	assert_int_equal(events_of(EVENT_OWNER_DIED), 1);
	assert_int_equal(events_of(EVENT_OWNER_STARTED), 1);
	assert_int_equal(broker.devices->strikes, CRASHED);
	assert_int_equal(failures, 0);
}

/* Its device work may land until then. */
static void test_none_starts_before_the_last_one_is_gone(void **state)
{
	(void)state;
	owner_thread_die(&broker.devices->owner);
	EXPECT_SOON(!serves());
	run_passes();
	assert_false(serves());
	assert_int_equal(events_of(EVENT_OWNER_STARTED), 0);
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
}

static void test_no_other_one_starts_after_a_hundred_strikes(void **state)
{
	(void)state;
	broker.devices->strikes = 100 - CRASHED;
	owner_ends(true);
	EXPECT_SOON(failures);
	run_passes();
	assert_false(serves());
	assert_int_equal(failures, 1);
	assert_true(broker.devices->failed);
}

/* Whoever sends SIGKILL is more patient than a hundred crashes. */
static void test_one_that_is_killed_counts_little_and_not_if_it_has_worked(void **state)
{
	(void)state;
	owner_ends(false);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, KILLED);
	owner_ends(false);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * KILLED);
	broker.devices->strikes = 70;
	broker.jobs->answered++; /* as by an order */
	owner_ends(false);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, KILLED);
}

static void test_a_crash_counts_although_orders_were_answered_but_not_after_a_while(void **state)
{
	(void)state;
	broker.jobs->answered++;
	owner_ends(true);
	EXPECT_SOON(serves());
	broker.jobs->answered++;
	owner_ends(true);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * CRASHED);
	broker.devices->since -= 10;
	owner_ends(true);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, CRASHED);
}

static bool ends_at_once(void)
{
	starts++;
	return false;
}

static void test_one_that_does_not_start_counts_as_a_crash(void **state)
{
	(void)state;
	owner_thread_starts = ends_at_once;
	owner_ends(true);
	EXPECT_SOON(starts);
	EXPECT_SOON(broker.devices->gone);
	owner_thread_starts = NULL;
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * CRASHED);
	assert_int_equal(events_of(EVENT_OWNER_STARTED), 1);
}

static bool starts_late(void)
{
	char byte;

	starts++;
	return read(gate[0], &byte, 1) == 1;
}

/* The broker ends such a one by SIGKILL itself. */
static void test_one_that_is_late_counts_as_a_crash(void **state)
{
	(void)state;
	assert_int_equal(pipe(gate), 0);
	owner_thread_starts = starts_late;
	owner_ends(false);
	EXPECT_SOON(starts);
	assert_non_null(broker.devices->begun);
	event_active(broker.devices->begun, EV_TIMEOUT, 0);
	EXPECT_SOON(broker.devices->gone);
	owner_thread_starts = NULL;
	assert_int_equal(write(gate[1], "x", 1), 1);
	owner_thread_die(&broker.devices->owner);
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, KILLED + CRASHED);
	close(gate[0]);
	close(gate[1]);
}

static bool starts_well(void)
{
	starts++;
	return true;
}

static void test_one_with_other_devices_is_refused(void **state)
{
	char first;

	(void)state;
	first = broker.devices->facts.device[0].uuid[0];
	broker.devices->facts.device[0].uuid[0] = (char)(first ^ 1);
	owner_thread_starts = starts_well;
	owner_ends(true);
	EXPECT_SOON(starts);
	EXPECT_SOON(broker.devices->gone);
	broker.devices->facts.device[0].uuid[0] = first;
	assert_false(serves());
	owner_thread_die(&broker.devices->owner);
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * CRASHED);
}

static void test_a_stop_without_an_owner_is_regular(void **state)
{
	(void)state;
	owner_ends(true);
	broker_end_now();
	assert_false(broker.devices->crashed);
}

static void test_an_owner_that_crashes_in_a_stop_is_told(void **state)
{
	(void)state;
	owner_thread_die(&broker.devices->owner);
	owner_thread_gone(&broker.devices->owner);
	broker_end_now();
	assert_true(broker.devices->crashed);
}

#define WITH_OWNER(name) cmocka_unit_test_setup_teardown(name, setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_OWNER(test_an_owner_that_ends_is_replaced),
		WITH_OWNER(test_none_starts_before_the_last_one_is_gone),
		WITH_OWNER(test_no_other_one_starts_after_a_hundred_strikes),
		WITH_OWNER(test_one_that_is_killed_counts_little_and_not_if_it_has_worked),
		WITH_OWNER(test_a_crash_counts_although_orders_were_answered_but_not_after_a_while),
		WITH_OWNER(test_one_that_does_not_start_counts_as_a_crash),
		WITH_OWNER(test_one_that_is_late_counts_as_a_crash),
		WITH_OWNER(test_one_with_other_devices_is_refused),
		WITH_OWNER(test_a_stop_without_an_owner_is_regular),
		WITH_OWNER(test_an_owner_that_crashes_in_a_stop_is_told),
	};

	return cmocka_run_group_tests_name("devices", tests, harness_group_setup, harness_group_teardown);
}
