/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-watchdog.c - loops that hang, and processes that look so and do not (keeper/watchdog.h). There are 20 ms between
 * looks, and 15 looks in a row in one pass are a loop that hangs.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "keeper-harness.h"

#define LOOKS 15u

static unsigned looks;

static void on_look(void *context)
{
	(void)context;
	looks++;
}

/* Starts a keeper whose looks are counted. */
static void start(int (*broker)(void *context, struct keeper_end *end))
{
	looks = 0;
	look_ms = 20;
	looks_most = LOOKS;
	harness_start(broker);
	keeper.watchdog.looked = on_look;
	assert_true(SOON(shared->ready >= 1));
}

/* On a busy machine a broker may have been ended before its first mark. */
static void expect_no_hang(void)
{
	unsigned until = looks + 2 * LOOKS, began = shared->began, hung = keeper.counts.hung;

	assert_true(SOON(looks >= until));
	assert_int_equal(shared->began, began);
	assert_int_equal(keeper.counts.hung, hung);
}

/* Whether this broker is the first one that asks. */
static bool is_first(void)
{
	return !atomic_exchange(&shared->word[0], 1);
}

/* The first broker begins a pass, and stays in it; others wait. */
static _Noreturn int hanging(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (is_first())
		watchdog_begin_pass(end->marks);
	harness_serve();
}

static void expect_end_by_watchdog(void)
{
	assert_true(SOON(shared->ready >= 2));
	assert_true(keeper.counts.hung >= 1);
	assert_int_equal(shared->last, POLICY_WATCHDOG);
}

static void test_a_loop_that_hangs_is_ended(void **state)
{
	(void)state;
	start(hanging);
	expect_end_by_watchdog();
}

/* SIGABRT does not end it. */
static _Noreturn int deaf_and_hanging(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	signal(SIGABRT, SIG_IGN);
	if (is_first())
		watchdog_begin_pass(end->marks);
	harness_serve();
}

static void test_one_that_survives_the_abort_is_killed(void **state)
{
	(void)state;
	start(deaf_and_hanging);
	expect_end_by_watchdog();
}

/* It has not marked anything: its start hangs. */
static _Noreturn int hanging_at_its_start(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (is_first())
		atomic_store(&end->marks->sleeping, false);
	harness_serve();
}

static void test_a_start_that_hangs_is_ended(void **state)
{
	(void)state;
	start(hanging_at_its_start);
	expect_end_by_watchdog();
}

static _Noreturn int idle(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	watchdog_begin_pass(end->marks);
	watchdog_end_pass(end->marks);
	harness_serve();
}

static void test_a_loop_that_waits_does_not_hang(void **state)
{
	(void)state;
	start(idle);
	expect_no_hang();
}

static _Noreturn int busy(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	CHECK(!line_ready(&line));
	shared->ready = end->number;
	for (;;)
		watchdog_begin_pass(end->marks);
}

static void test_a_loop_that_is_always_busy_does_not_hang(void **state)
{
	(void)state;
	start(busy);
	expect_no_hang();
}

/* The test marks the pass that the process would be in. */
static void test_a_stopped_process_does_not_hang(void **state)
{
	(void)state;
	start(idle);
	kill(shared->pid, SIGSTOP);
	watchdog_begin_pass(keeper.watchdog.marks);
	expect_no_hang();
	kill(shared->pid, SIGCONT);
	expect_end_by_watchdog();
}

static void test_a_traced_process_does_not_hang(void **state)
{
	(void)state;
	start(idle);
	if (ptrace(PTRACE_SEIZE, shared->pid, NULL, NULL)) {
		print_message("# skipped: this process must not trace another one\n");
		return;
	}
	watchdog_begin_pass(keeper.watchdog.marks);
	expect_no_hang();
	assert_true(watchdog_excuses(shared->pid));
}

static void test_nothing_excuses_a_process_that_runs(void **state)
{
	(void)state;
	assert_false(watchdog_excuses(getpid()));
	assert_false(watchdog_excuses(0)); /* there is no such process */
}

/* ---- control groups ---- */

static char root[] = "/tmp/test-watchdog-XXXXXX";

/* Makes a file below the root, with its folders. */
static void write_group(const char *path, const char *text)
{
	char command[300];

	snprintf(command, sizeof command, "mkdir -p $(dirname '%s%s') && printf '%s' >'%s%s'", root, path, text, root,
		 path);
	assert_int_equal(system(command), 0);
}

static void test_frozen_groups(void **state)
{
	char command[100];

	(void)state;
	assert_non_null(mkdtemp(root));
	write_group("/a/cgroup.events", "populated 1\\nfrozen 1\\n");
	write_group("/b/cgroup.events", "populated 1\\nfrozen 0\\n");
	write_group("/unified/c/cgroup.events", "populated 1\\nfrozen 1\\n");
	write_group("/freezer/d/freezer.state", "FROZEN\\n");
	write_group("/freezer/e/freezer.state", "THAWED\\n");
	write_group("/freezer/f/freezer.state", "FREEZING\\n");
	assert_true(watchdog_frozen("0::/a\n", root));
	assert_false(watchdog_frozen("0::/b\n", root));
	assert_true(watchdog_frozen("0::/c\n", root));
	assert_false(watchdog_frozen("0::/nowhere\n", root));
	assert_true(watchdog_frozen("8:pids:/\n7:freezer:/d\n0::/b\n", root));
	assert_false(watchdog_frozen("8:pids:/\n7:freezer:/e\n0::/b\n", root));
	assert_true(watchdog_frozen("7:freezer:/f", root));
	assert_true(watchdog_frozen("7:freezer:/e\n0::/a", root));
	assert_false(watchdog_frozen("7:pids:/d\nno group\n:\n\n", root));
	assert_false(watchdog_frozen("", root));
	snprintf(command, sizeof command, "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_loop_that_hangs_is_ended),
		ON(test_one_that_survives_the_abort_is_killed),
		ON(test_a_start_that_hangs_is_ended),
		ON(test_a_loop_that_waits_does_not_hang),
		ON(test_a_loop_that_is_always_busy_does_not_hang),
		ON(test_a_stopped_process_does_not_hang),
		ON(test_a_traced_process_does_not_hang),
		ON(test_nothing_excuses_a_process_that_runs),
		ON(test_frozen_groups),
	};

	return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
