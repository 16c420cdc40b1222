/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-keeper.c - brokers that die, and what the next one finds (keeper/keeper.h). test-keeper-ends.c has the ends that
 * are no death by SIGKILL.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "keeper-harness.h"

#define KILLS 100
#define KEPT  500u

static void expect_no_failure(void)
{
	assert_int_equal(shared->failed, 0);
}

/* Kills the last broker, and waits until the next one serves. */
static void kill_and_wait(void)
{
	unsigned next = shared->began + 1;

	kill(shared->pid, SIGKILL);
	assert_true(SOON(shared->ready >= next));
}

/* ---- descriptors in flight ---- */

/* Whether what is kept is `have` with the first `done` of the changes that were being sent. */
static bool is_kept_after(const struct kept *kept, unsigned done)
{
	uint64_t have[KEYS];
	unsigned count = 0;

	for (unsigned key = 0; key < KEYS; key++)
		have[key] = shared->have[key];
	for (unsigned i = 0; i < done; i++)
		have[shared->op[i].key] = shared->op[i].version;
	for (unsigned key = 0; key < KEYS; key++) {
		if (have[key] ? !harness_is(kept_find(kept, key), key, have[key]) : kept_find(kept, key) >= 0)
			return false;
		count += have[key] != 0;
	}
	return count == kept_count(kept);
}

/* The changes that were sent become what is had. */
static void changes_done(unsigned done)
{
	for (unsigned i = 0; i < done; i++)
		shared->have[shared->op[i].key] = shared->op[i].version;
	shared->ops = 0;
}

/* Finds what the last broker had sent: all that it had waited for, and the first ones of the others. */
static void take_over(const struct keeper_end *end)
{
	unsigned done = 0;

	while (done < shared->ops && !is_kept_after(end->kept, done))
		done++;
	CHECK(is_kept_after(end->kept, done));
	shared->word[1] += done < shared->ops;
	changes_done(done);
}

static void change(unsigned key, uint64_t version)
{
	int fd = version ? harness_file(key, version) : -1;

	CHECK(version ? !line_put(&line, key, fd) : !line_drop(&line, key));
	if (version)
		close(fd);
}

/* Sends a few changes at once. A key that is used twice is replaced, or dropped again. */
static void send_changes(void)
{
	unsigned count = 1 + (unsigned)rand() % 16;
	uint64_t version = shared->word[0] + 1;

	for (unsigned i = 0; i < count; i++) {
		shared->op[i].key = (unsigned)rand() % KEYS;
		shared->op[i].version = rand() % 4 ? version : 0;
	}
	shared->ops = count;
	for (unsigned i = 0; i < count; i++)
		change(shared->op[i].key, shared->op[i].version);
	CHECK(!line_flush_wait(&line));
	changes_done(count);
	shared->word[0] = version;
}

static _Noreturn int changing(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	take_over(end);
	kept_clear(end->kept); /* the keeper's are its own */
	srand(end->number);
	for (unsigned key = 0; end->number == 1 && key < KEPT; key++) {
		change(key, 1);
		CHECK(!line_flush_wait(&line));
		shared->have[key] = 1;
	}
	CHECK(!line_ready(&line));
	shared->ready = end->number;
	for (;;)
		send_changes();
}

static void test_each_next_broker_finds_what_was_sent_before(void **state)
{
	(void)state;
	srand(1);
	harness_start(changing);
	assert_true(SOON(shared->ready == 1));
	for (unsigned i = 0; i < KILLS; i++) {
		uint64_t until = shared->word[0] + (unsigned)rand() % 20;

		assert_true(SOON(shared->word[0] >= until));
		kill_and_wait();
		expect_no_failure();
	}
	assert_int_equal(keeper.number, KILLS + 1);
	assert_int_equal(keeper.counts.lost, 0);
	assert_int_equal(shared->last, POLICY_KILLED);
	assert_true(SOON(!keeper.dying));
	print_message("# %u of %u kills came between changes that were sent together\n", (unsigned)shared->word[1],
		      KILLS);
}

/* ---- a line that nobody reads ---- */

/* Fills its line, and dies with it. */
static int filling(void *context, struct keeper_end *end)
{
	unsigned count = 0;

	(void)context;
	harness_begin(end);
	if (end->number > 1) {
		CHECK(kept_count(end->kept) == shared->word[0]);
		for (uint64_t key = 0; key < shared->word[0]; key++)
			CHECK(harness_is(kept_find(end->kept, key), key, 1));
		harness_serve();
	}
	while (!line.queue)
		change(count++, 1);
	shared->word[0] = count - 1; /* the last one is in this process alone */
	raise(SIGKILL);
	return 0;
}

static void test_a_full_line_is_read_before_the_next_one_begins(void **state)
{
	(void)state;
	harness_start(filling);
	harness_wait_without_loop(0);
	assert_true(SOON(shared->ready == 2));
	expect_no_failure();
	assert_true(shared->word[0] > 50);
	assert_int_equal(kept_count(&keeper.kept), shared->word[0]);
}

/* ---- deaths at the begin ---- */

static _Noreturn int serving(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	harness_serve();
}

/* Most of them die before they have the mutex. */
static void test_brokers_that_are_killed_at_once(void **state)
{
	(void)state;
	harness_start(serving);
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = keeper.watchdog.pid;

		kill(pid, SIGKILL);
		assert_true(SOON(keeper.watchdog.pid && keeper.watchdog.pid != pid));
	}
	assert_true(SOON(shared->ready == 61));
	expect_no_failure();
	assert_true(SOON(keeper.alive.watching));
	kill_and_wait();
	assert_true(SOON(!keeper.death_ns)); /* the keeper has read READY */
}

/* ---- what else a broker inherits ---- */

static unsigned signals;

static void on_signal(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
	signals++;
}

/* Whether a signal does to this process what it does to a new one. */
static bool is_unhandled(int number)
{
	struct sigaction action;
	sigset_t blocked;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	return !sigaction(number, NULL, &action) && action.sa_handler == SIG_DFL && !sigismember(&blocked, number);
}

static _Noreturn int without_handler(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	CHECK(is_unhandled(SIGUSR1));
	harness_serve();
}

/* The program handles a signal in its loop, before and after brokers were forked; they do not. */
static void test_a_broker_has_no_signal_of_the_loop(void **state)
{
	struct event *event = evsignal_new(base, SIGUSR1, on_signal, NULL);

	(void)state;
	signals = 0;
	assert_int_equal(event_add(event, NULL), 0);
	harness_start(without_handler);
	assert_true(SOON(shared->ready == 1));
	kill_and_wait();
	expect_no_failure();
	raise(SIGUSR1);
	assert_true(SOON(signals == 1));
	event_free(event);
}

/* Puts more than the keeper has descriptors for, when it may. */
static _Noreturn int putting_too_many(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	CHECK(end->counts.lost == (end->number > 1 ? 6 : 0));
	CHECK(kept_count(end->kept) == (end->number > 1 ? 4 : 0));
	while (!shared->word[0])
		sched_yield();
	for (unsigned key = 0; end->number == 1 && key < 10; key++)
		change(key, 1);
	harness_serve();
}

/* Returns a limit that leaves this process so many descriptors. */
static struct rlimit limit_of(unsigned free, rlim_t most)
{
	int fd = dup(STDERR_FILENO);
	struct rlimit limit = { .rlim_cur = (rlim_t)fd, .rlim_max = most };

	if (free)
		limit = limit_of(free - 1, most);
	close(fd);
	return limit;
}

static void test_descriptors_that_cannot_be_kept_are_counted(void **state)
{
	struct rlimit before, few;

	(void)state;
	harness_start(putting_too_many);
	assert_true(SOON(keeper.alive.watching));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = limit_of(4, before.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	shared->word[0] = 1;
	assert_true(SOON(keeper.counts.lost == 6));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(SOON(shared->ready == 1));
	kill_and_wait();
	expect_no_failure();
}

#define ON(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_each_next_broker_finds_what_was_sent_before),
		ON(test_a_full_line_is_read_before_the_next_one_begins),
		ON(test_brokers_that_are_killed_at_once),
		ON(test_a_broker_has_no_signal_of_the_loop),
		ON(test_descriptors_that_cannot_be_kept_are_counted),
	};

	return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
