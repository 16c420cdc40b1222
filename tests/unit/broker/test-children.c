/* SPDX-License-Identifier: Apache-2.0 */
/* test-children.c - which signals end a worker before its command runs, and what it has of them when it does. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/run/children.h"

static char  command[] = "true";
static char *nothing[] = { command, NULL };

/* One worker that waits for its release, as broker-run forks it. */
static void begin(struct children *children, sigset_t *before)
{
	sigset_t taken;

	sigprocmask(SIG_SETMASK, NULL, before);
	*children = (struct children){ .gate = -1 };
	children_take_signals(children, &taken);
	assert_int_equal(children_fork(children, 1, 1, nothing), 0);
}

static int end(struct children *children, const sigset_t *before)
{
	int status;

	assert_int_equal(waitpid(children->child[0].pid, &status, 0), children->child[0].pid);
	children_free(children);
	sigprocmask(SIG_SETMASK, before, NULL);
	return status;
}

/* The command cannot have a handler yet. So a signal that it is meant to handle would end the worker. */
static void test_a_worker_that_waits_outlives_what_is_for_its_command(void **state)
{
	static const int numbers[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGPWR };
	struct children children;
	sigset_t before;
	int status;

	(void)state;
	begin(&children, &before);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		children_signal(&children, numbers[i], false);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		children_signal(&children, number, false);
	children_release(&children);
	status = end(&children, &before);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_worker_that_waits_ends_when_it_is_told_to(void **state)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct children children;
	sigset_t before;
	int status;

	(void)state;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		signal(numbers[i], SIG_DFL);
		begin(&children, &before);
		children_signal(&children, numbers[i], false);
		status = end(&children, &before);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), numbers[i]);
	}
}

/* The group has it already, and the worker is in this group. */
static void test_a_worker_of_the_group_is_left_out(void **state)
{
	struct children children;
	sigset_t before;
	int status;

	(void)state;
	begin(&children, &before);
	children_signal(&children, SIGTERM, true);
	children_release(&children);
	status = end(&children, &before);
	assert_true(WIFEXITED(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_worker_that_waits_outlives_what_is_for_its_command),
		cmocka_unit_test(test_a_worker_that_waits_ends_when_it_is_told_to),
		cmocka_unit_test(test_a_worker_of_the_group_is_left_out),
	};

	return cmocka_run_group_tests_name("children", tests, NULL, NULL);
}
