/* SPDX-License-Identifier: Apache-2.0 */
/* test-policy.c - what follows the ends of brokers (keeper/policy.h), one after the other. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/keeper/policy.h"

#define EXITED(status) ((status) << 8) /* as wait(2) has it */
#define END(number)    (1000 + (number)) /* the program ends with this exit status */

static struct policy policy;

static int setup(void **state)
{
	(void)state;
	memset(&policy, 0, sizeof policy);
	return 0;
}

/* A broker ends. Returns the step, or END(). */
static int after(int status, enum policy_cause cause)
{
	struct policy_decision decision =
		policy_decide(&policy, &(struct policy_end){ .status = status, .cause = cause });

	return decision.step == POLICY_END ? END(decision.status) : (int)decision.step;
}

static int crash(void)
{
	return after(SIGSEGV, POLICY_ITSELF);
}

static void test_an_exit_is_the_programs(void **state)
{
	(void)state;
	assert_int_equal(after(EXITED(0), POLICY_ITSELF), END(0));
	assert_int_equal(after(EXITED(3), POLICY_ITSELF), END(3));
	assert_int_equal(after(EXITED(77), POLICY_HUNG), END(77));
	policy_ready(&policy);
	assert_int_equal(after(EXITED(1), POLICY_ITSELF), END(1));
}

static void test_a_signal_that_is_no_fault_is_the_programs(void **state)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1 };

	(void)state;
	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		policy_ready(&policy);
		assert_int_equal(after(numbers[i], POLICY_ITSELF), END(128 + numbers[i]));
	}
}

/* The bit 0x80 of the status says that there is a core dump. */
static void test_three_failures_are_a_cold_start_and_three_more_the_end(void **state)
{
	static const int numbers[] = { SIGSEGV, SIGBUS | 0x80, SIGILL, SIGFPE, SIGABRT };

	(void)state;
	assert_int_equal(policy.how, POLICY_FIRST);
	assert_int_equal(after(numbers[0], POLICY_ITSELF), POLICY_NEXT);
	assert_int_equal(policy.how, POLICY_CRASHED);
	assert_int_equal(after(numbers[1], POLICY_ITSELF), POLICY_NEXT);
	assert_int_equal(after(numbers[2], POLICY_ITSELF), POLICY_COLD);
	assert_int_equal(after(numbers[3], POLICY_ITSELF), POLICY_COLD);
	assert_int_equal(after(numbers[4], POLICY_ITSELF), POLICY_COLD);
	assert_int_equal(crash(), END(1));
}

static void test_ready_clears_failures_and_the_cold_start(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(crash(), POLICY_NEXT);
		assert_int_equal(crash(), POLICY_NEXT);
		policy_ready(&policy);
		assert_int_equal(crash(), POLICY_NEXT); /* it was READY, so this is no failure */
	}
	assert_int_equal(crash(), POLICY_NEXT);
	assert_int_equal(crash(), POLICY_NEXT);
	assert_int_equal(crash(), POLICY_COLD);
	policy_ready(&policy);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(crash(), POLICY_NEXT);
		policy_ready(&policy);
	}
}

/* Asserts that 100 SIGKILLs lead to the step, and each before the last one to `before`. */
static void expect_after_100_kills(int step, int before)
{
	for (unsigned i = 1; i < POLICY_KILLS; i++)
		assert_int_equal(after(SIGKILL, POLICY_ITSELF), before);
	assert_int_equal(after(SIGKILL, POLICY_ITSELF), step);
}

static void test_100_kills_are_one_failure(void **state)
{
	(void)state;
	expect_after_100_kills(POLICY_NEXT, POLICY_NEXT);
	assert_int_equal(policy.how, POLICY_KILLED);
	expect_after_100_kills(POLICY_NEXT, POLICY_NEXT);
	expect_after_100_kills(POLICY_COLD, POLICY_NEXT);
	expect_after_100_kills(POLICY_COLD, POLICY_COLD);
	assert_int_equal(crash(), POLICY_COLD);
	expect_after_100_kills(END(1), POLICY_COLD);
}

static void test_ready_clears_kills(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10 * POLICY_KILLS; i++) {
		if (i % (POLICY_KILLS - 1) == 0)
			policy_ready(&policy);
		assert_int_equal(after(SIGKILL, POLICY_ITSELF), POLICY_NEXT);
	}
	assert_int_equal(policy.failures, 0);
}

static void test_a_crash_between_kills_clears_them(void **state)
{
	(void)state;
	for (unsigned i = 0; i < POLICY_KILLS - 1; i++)
		assert_int_equal(after(SIGKILL, POLICY_ITSELF), POLICY_NEXT);
	assert_int_equal(crash(), POLICY_NEXT);
	for (unsigned i = 0; i < POLICY_KILLS - 1; i++)
		assert_int_equal(after(SIGKILL, POLICY_ITSELF), POLICY_NEXT);
	assert_int_equal(policy.failures, 1);
	assert_int_equal(after(SIGKILL, POLICY_ITSELF), POLICY_NEXT);
	assert_int_equal(policy.failures, 2);
}

static void test_the_keepers_own_kills_are_failures(void **state)
{
	(void)state;
	assert_int_equal(after(SIGKILL, POLICY_HUNG), POLICY_NEXT);
	assert_int_equal(policy.how, POLICY_WATCHDOG);
	assert_int_equal(after(SIGABRT, POLICY_HUNG), POLICY_NEXT);
	assert_int_equal(policy.how, POLICY_WATCHDOG);
	assert_int_equal(after(SIGKILL, POLICY_PACKET), POLICY_COLD);
	assert_int_equal(policy.how, POLICY_CRASHED);
	assert_int_equal(policy.kills, 0);
}

/* The pause after a broker that was READY has lived for so long. */
static unsigned pause_of(int number, unsigned lived_ms)
{
	policy_ready(&policy);
	return policy_decide(&policy, &(struct policy_end){ .status = number, .lived_ms = lived_ms }).pause_ms;
}

static void test_brokers_that_crash_soon_over_and_over_are_paused_for(void **state)
{
	static const unsigned pauses[] = { 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000 };

	(void)state;
	for (unsigned i = 0; i < POLICY_QUICK; i++)
		assert_int_equal(pause_of(SIGSEGV, 1), 0);
	for (unsigned i = 0; i < sizeof pauses / sizeof *pauses; i++)
		assert_int_equal(pause_of(SIGABRT, POLICY_QUICK_MS - 1), pauses[i]);
	assert_int_equal(pause_of(SIGKILL, 1), 0);
	assert_int_equal(pause_of(SIGSEGV, 1), 10000);
	assert_int_equal(pause_of(SIGSEGV, POLICY_QUICK_MS), 0);
	assert_int_equal(pause_of(SIGSEGV, 1), 0);
}

static void test_a_broker_that_is_stopping_has_a_successor_if_it_is_killed(void **state)
{
	static const int numbers[] = { SIGTERM, SIGABRT, SIGSEGV };
	const struct policy_end killed = { .status = SIGKILL, .stopping = true };
	const struct policy_end hung = { .status = SIGKILL, .cause = POLICY_HUNG, .stopping = true };

	(void)state;
	assert_int_equal(policy_decide(&policy, &killed).step, POLICY_NEXT);
	assert_int_equal(policy_decide(&policy, &hung).step, POLICY_END);
	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		struct policy_decision decision = policy_decide(
			&policy, &(struct policy_end){ .status = numbers[i], .stopping = true });

		assert_int_equal(decision.step, POLICY_END);
		assert_int_equal(decision.status, 128 + numbers[i]);
	}
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_an_exit_is_the_programs),
		ON(test_a_signal_that_is_no_fault_is_the_programs),
		ON(test_three_failures_are_a_cold_start_and_three_more_the_end),
		ON(test_ready_clears_failures_and_the_cold_start),
		ON(test_100_kills_are_one_failure),
		ON(test_ready_clears_kills),
		ON(test_a_crash_between_kills_clears_them),
		ON(test_the_keepers_own_kills_are_failures),
		ON(test_brokers_that_crash_soon_over_and_over_are_paused_for),
		ON(test_a_broker_that_is_stopping_has_a_successor_if_it_is_killed),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
