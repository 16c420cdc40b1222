/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-keeper-ends.c - brokers that crash, exit, send nonsense or are asked to end, and the owner beside them
 * (keeper/keeper.h). The owner waits for its setup all the time, since nobody sends it one.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/packet.h"
#include "common/thread.h"
#include "keeper-harness.h"

#define CRASHES 17 /* the pause behind the last is of 6.4 s */
#define OWNER_KEY 9 /* of the broker's end of the owner's socket */

static void expect_no_failure(void)
{
	assert_int_equal(shared->failed, 0);
}

static void put(uint64_t key)
{
	int fd = harness_file(key, 1);

	CHECK(!line_put(&line, key, fd));
	close(fd);
}

/* ---- crashes ---- */

/* The first one serves, and crashes when it is told to. The others crash, until one is told to serve. */
static int crashing(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	CHECK(end->number == 1 || end->last == POLICY_CRASHED);
	CHECK(!end->cold == (end->number <= 4));
	CHECK(kept_count(end->kept) == (end->number > 1 && !end->cold));
	put(5);
	CHECK(!line_flush_wait(&line));
	if (shared->word[0] == end->number) {
		CHECK(!line_ready(&line) && !line_flush_wait(&line));
		shared->ready = end->number;
		while (!shared->word[1])
			sched_yield();
	}
	raise(SIGSEGV);
	return 0;
}

static void test_failures_lead_to_a_cold_start_and_then_to_the_end(void **state)
{
	(void)state;
	shared->word[0] = 1;
	shared->word[1] = 1;
	harness_start(crashing);
	assert_true(SOON(ended >= 0));
	expect_no_failure();
	assert_int_equal(ended, 1);
	assert_int_equal(shared->began, 7);
	assert_int_equal(keeper.number, 7);
	assert_int_equal(keeper.counts.cold_starts, 3);
	assert_int_equal(kept_count(&keeper.kept), 0);
	assert_true(SOON(!keeper.dying));
}

/* After that, deaths are as before: what the cold one left is kept. */
static int crashing_until_cold(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	CHECK(kept_count(end->kept) == (end->number != 1 && end->number != 5));
	put(5);
	if (end->number >= 5)
		harness_serve();
	if (end->number == 1)
		CHECK(!line_ready(&line));
	CHECK(!line_flush_wait(&line));
	raise(SIGABRT);
	return 0;
}

static void test_a_cold_start_that_succeeds(void **state)
{
	(void)state;
	harness_start(crashing_until_cold);
	assert_true(SOON(shared->ready == 5));
	assert_true(shared->cold);
	kill(shared->pid, SIGSEGV);
	assert_true(SOON(shared->ready == 6));
	expect_no_failure();
	assert_false(shared->cold);
	assert_int_equal(ended, -1);
}

/* ---- exits ---- */

static int exiting(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	put(1);
	CHECK(!line_ready(&line) && !line_flush_wait(&line));
	line_close(&line);
	_exit(7);
}

static void test_an_exit_ends_the_program_with_its_status(void **state)
{
	(void)state;
	harness_start(exiting);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 7);
	assert_int_equal(keeper.number, 1);
	assert_int_equal(kept_count(&keeper.kept), 0);
}

static int returning(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	event_base_free(broker_base);
	return 4;
}

static void test_a_return_is_an_exit(void **state)
{
	(void)state;
	harness_start(returning);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 4);
}

static _Noreturn int serving(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	harness_serve();
}

static void test_a_signal_that_is_no_fault_ends_the_program(void **state)
{
	(void)state;
	harness_start(serving);
	assert_true(SOON(shared->ready == 1));
	kill(shared->pid, SIGHUP);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 128 + SIGHUP);
	assert_int_equal(shared->began, 1);
}

/* Only the thread of its loop ends. */
static void *stay(void *context)
{
	while (!shared->word[3])
		pause();
	return context;
}

static int losing_its_loop(void *context, struct keeper_end *end)
{
	pthread_t thread;

	harness_begin(end);
	if (end->number > 1)
		harness_serve();
	CHECK(!thread_start(&thread, stay, context));
	pthread_exit(NULL);
}

static void test_a_process_without_its_loop_is_ended(void **state)
{
	(void)state;
	harness_start(losing_its_loop);
	assert_true(SOON(shared->ready == 2));
	assert_int_equal(shared->last, POLICY_KILLED);
	assert_true(SOON(!keeper.dying));
}

static void on_term(int number)
{
	(void)number;
	_exit(3);
}

static _Noreturn int ending_in_order(void *context, struct keeper_end *end)
{
	(void)context;
	signal(SIGTERM, on_term);
	harness_begin(end);
	harness_serve();
}

static void test_a_broker_that_is_asked_to_end(void **state)
{
	(void)state;
	harness_start(ending_in_order);
	assert_true(SOON(shared->ready == 1));
	keeper_stop(&keeper);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 3);
}

static void crash(int number)
{
	(void)number;
	abort();
}

static _Noreturn int crashing_at_the_end(void *context, struct keeper_end *end)
{
	(void)context;
	signal(SIGTERM, crash);
	harness_begin(end);
	harness_serve();
}

static void test_a_broker_that_crashes_at_its_end_has_no_successor(void **state)
{
	(void)state;
	harness_start(crashing_at_the_end);
	assert_true(SOON(shared->ready == 1));
	keeper_stop(&keeper);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 128 + SIGABRT);
	assert_int_equal(shared->began, 1);
}

static void be_killed(int number)
{
	(void)number;
	kill(getpid(), SIGKILL);
}

/* The first is killed at its end. SIGTERM is blocked at the begin, as in the programs. */
static _Noreturn int killed_at_the_end(void *context, struct keeper_end *end)
{
	sigset_t term;

	(void)context;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	signal(SIGTERM, end->number == 1 ? be_killed : on_term);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	harness_begin(end);
	harness_serve();
}

static void test_a_broker_that_is_killed_at_its_end_has_a_successor_that_ends(void **state)
{
	sigset_t term, before;

	(void)state;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &before);
	harness_start(killed_at_the_end);
	assert_true(SOON(shared->ready == 1));
	keeper_stop(&keeper);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 3);
	assert_int_equal(keeper.number, 2);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* So many brokers serve and crash at once that the next one waits. The one after the pause ends when it is asked. */
static _Noreturn int crashing_soon(void *context, struct keeper_end *end)
{
	sigset_t term;

	(void)context;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	signal(SIGTERM, on_term);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	harness_begin(end);
	if (end->number > CRASHES)
		harness_serve();
	CHECK(!line_ready(&line) && !line_flush_wait(&line));
	abort();
}

static void test_a_stop_in_the_pause_starts_a_broker_that_ends(void **state)
{
	sigset_t term, before;

	(void)state;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &before);
	harness_start(crashing_soon);
	assert_true(SOON(!keeper.broker && keeper.policy.quick == CRASHES));
	keeper_stop(&keeper);
	assert_non_null(keeper.broker);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 3);
	assert_int_equal(keeper.number, CRASHES + 1);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- nonsense ---- */

static _Noreturn int talking_nonsense(void *context, struct keeper_end *end)
{
	static const struct line_request alive = { .kind = LINE_ALIVE }, none = { .kind = LINE_KINDS };

	(void)context;
	harness_begin(end);
	CHECK(kept_count(end->kept) == (end->number > 1) * 2);
	if (end->number > 2) {
		CHECK(end->last == POLICY_CRASHED);
		harness_serve();
	}
	put(1);
	CHECK(!packet_send(line.sock, end->number == 1 ? &none : &alive, sizeof none, -1, 0));
	put(2);
	shared->word[0] = 1;
	for (;;)
		pause();
}

static void test_nonsense_is_a_crash_and_other_requests_count(void **state)
{
	(void)state;
	harness_start(talking_nonsense);
	harness_wait_without_loop(0);
	assert_true(SOON(shared->ready == 3));
	expect_no_failure();
	assert_int_equal(keeper.counts.packets, 2);
	assert_true(SOON(!keeper.policy.failures)); /* the keeper has read READY */
}

/* ---- the owner ---- */

static int pair[2];

/* Asks for an owner whose socket is kept. */
static void begin_owner(void)
{
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK(!line_put(&line, OWNER_KEY, pair[0]));
	CHECK(!line_begin(&line, pair[1]));
	close(pair[1]);
}

/* Waits until the owner has ended. Returns how. */
static int owner_status(const struct keeper_end *end)
{
	int status = -2, error;

	if (end->owner.number && !end->owner.pid)
		return end->owner.status;
	while ((error = line_owner_ended(&line, &status)) == -EAGAIN)
		sched_yield();
	CHECK(!error);
	return status;
}

static _Noreturn int with_owner(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (end->number == 1) {
		CHECK(!end->owner.number && !end->owner.pid);
		begin_owner();
	} else {
		CHECK(end->owner.number == 1);
		shared->word[0] = (uint64_t)end->owner.pid;
	}
	if (end->number == 2) {
		CHECK(kept_count(end->kept) == 1);
		CHECK(shared->word[1] || !kill(end->owner.pid, 0)); /* with word[1] it may have been reaped */
	}
	if (shared->word[2]) { /* ends the owner in order */
		kept_clear(end->kept);
		CHECK(!line_drop(&line, OWNER_KEY));
	}
	if (shared->word[1] || shared->word[2]) {
		shared->word[3] = (uint64_t)owner_status(end) + 1;
		shared->word[1] = shared->word[2] = 0;
	}
	harness_serve();
}

static void start_with_owner(void)
{
	harness_start(with_owner);
	assert_true(SOON(shared->ready == 1 && owners_run(&keeper.owners)));
}

/* Kills the last broker, and waits until the next one serves. */
static void kill_and_wait(void)
{
	unsigned next = shared->began + 1;

	kill(shared->pid, SIGKILL);
	assert_true(SOON(shared->ready == next));
	expect_no_failure();
}

static void test_the_owner_outlives_brokers_and_ends_in_order(void **state)
{
	pid_t owner;

	(void)state;
	start_with_owner();
	owner = keeper.owners.child.pid;
	kill_and_wait();
	assert_int_equal(shared->word[0], owner);
	shared->word[2] = 1;
	kill_and_wait();
	assert_int_equal(shared->word[3], 0 + 1);
	assert_false(owners_run(&keeper.owners));
	kill_and_wait(); /* and this one is told the same */
	assert_int_equal(shared->word[0], 0);
}

/* Both are dead before the keeper looks. */
static void test_an_owner_that_dies_while_there_is_no_broker(void **state)
{
	(void)state;
	start_with_owner();
	shared->word[1] = 1;
	kill(shared->pid, SIGKILL);
	kill(keeper.owners.child.pid, SIGKILL);
	assert_true(SOON(shared->ready == 2));
	expect_no_failure();
	assert_int_equal(shared->word[3], SIGKILL + 1);
}

/* The broker is dead, and unread: its BEGIN is carried out, and the next one finds the owner. */
static _Noreturn int dying_after_begin(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (end->number == 1) {
		begin_owner();
		CHECK(!line_flush_wait(&line));
		raise(SIGKILL);
	}
	CHECK(end->owner.pid && end->owner.number == 1 && kept_count(end->kept) == 1);
	CHECK(!line_kill(&line));
	shared->word[3] = (uint64_t)owner_status(end) + 1;
	CHECK(!line_kill(&line)); /* does nothing */
	begin_owner();
	harness_serve();
}

static void test_an_owner_begins_while_there_is_no_broker(void **state)
{
	(void)state;
	harness_start(dying_after_begin);
	assert_true(SOON(shared->ready == 2 && owners_run(&keeper.owners)));
	expect_no_failure();
	assert_int_equal(shared->word[3], SIGKILL + 1);
	assert_int_equal(keeper.owners.number, 2);
}

/* Whether the process maps the memory that keeper and broker share. */
static bool maps_shared(pid_t pid)
{
	char command[100];

	snprintf(command, sizeof command, "grep -q '^%lx-' /proc/%d/maps", (unsigned long)keeper.shared, (int)pid);
	return !system(command);
}

/* The owner has no descriptor of keeper or broker, and none of their memory. */
static void test_an_owner_has_its_socket_alone(void **state)
{
	char command[100];

	(void)state;
	start_with_owner();
	snprintf(command, sizeof command, "test $(ls /proc/%d/fd | wc -l) = 4", (int)keeper.owners.child.pid);
	assert_true(SOON(!system(command)));
	assert_true(maps_shared(getpid()) && maps_shared(shared->pid));
	assert_false(maps_shared(keeper.owners.child.pid));
}

/* Broker and owner end with the keeper. */
static void test_both_end_with_their_keeper(void **state)
{
	pid_t middle;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	middle = fork();
	if (!middle) {
		event_reinit(base);
		harness_start(with_owner);
		(void)SOON(shared->ready == 1 && owners_run(&keeper.owners));
		shared->word[3] = (uint64_t)keeper.owners.child.pid;
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	assert_true(shared->pid > 0 && shared->word[3]);
	assert_int_equal(waitpid(shared->pid, NULL, 0), shared->pid);
	assert_int_equal(waitpid((pid_t)shared->word[3], NULL, 0), (pid_t)shared->word[3]);
	while (waitpid(-1, NULL, 0) > 0) /* an owner that exits may have left a process of LeakSanitizer's */
		continue;
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static _Noreturn int beginning_two_owners(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	if (end->number == 1) {
		begin_owner();
		CHECK(!line_begin(&line, pair[0]));
		CHECK(!line_flush_wait(&line));
		for (;;)
			pause();
	}
	CHECK(end->last == POLICY_CRASHED && end->owner.pid && end->owner.number == 1);
	harness_serve();
}

static void test_a_second_owner_is_nonsense(void **state)
{
	(void)state;
	harness_start(beginning_two_owners);
	assert_true(SOON(shared->ready == 2));
	expect_no_failure();
	assert_int_equal(keeper.counts.packets, 1);
}

/* The next broker of a cold start begins when the owner has ended. */
static int crashing_with_owner(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	CHECK(end->number == 1 || (end->owner.number == 1 && !end->owner.pid == end->cold));
	if (end->number == 1) {
		begin_owner();
		CHECK(!line_ready(&line));
	}
	CHECK(!line_flush_wait(&line));
	if (end->cold) {
		CHECK(end->owner.status == SIGKILL && !kept_count(end->kept));
		harness_serve();
	}
	raise(SIGBUS);
	return 0;
}

static void test_a_cold_start_ends_the_owner(void **state)
{
	(void)state;
	harness_start(crashing_with_owner);
	assert_true(SOON(shared->ready == 5));
	expect_no_failure();
	assert_false(owners_run(&keeper.owners));
}

/* The broker exits while its owner runs, which ends when what is kept is closed. */
static int exiting_with_owner(void *context, struct keeper_end *end)
{
	(void)context;
	harness_begin(end);
	begin_owner();
	CHECK(!line_flush_wait(&line));
	_exit(0);
}

static void test_the_owner_ends_before_the_program(void **state)
{
	(void)state;
	harness_start(exiting_with_owner);
	assert_true(SOON(ended >= 0));
	assert_int_equal(ended, 0);
	assert_int_equal(keeper.owners.number, 1);
	assert_int_equal(keeper.owners.status, 0);
	assert_false(owners_run(&keeper.owners));
}

#define ON(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_failures_lead_to_a_cold_start_and_then_to_the_end),
		ON(test_a_cold_start_that_succeeds),
		ON(test_an_exit_ends_the_program_with_its_status),
		ON(test_a_return_is_an_exit),
		ON(test_a_process_without_its_loop_is_ended),
		ON(test_a_signal_that_is_no_fault_ends_the_program),
		ON(test_a_broker_that_is_asked_to_end),
		ON(test_a_broker_that_crashes_at_its_end_has_no_successor),
		ON(test_a_broker_that_is_killed_at_its_end_has_a_successor_that_ends),
		ON(test_a_stop_in_the_pause_starts_a_broker_that_ends),
		ON(test_nonsense_is_a_crash_and_other_requests_count),
		ON(test_the_owner_outlives_brokers_and_ends_in_order),
		ON(test_an_owner_that_dies_while_there_is_no_broker),
		ON(test_an_owner_begins_while_there_is_no_broker),
		ON(test_an_owner_has_its_socket_alone),
		ON(test_both_end_with_their_keeper),
		ON(test_a_second_owner_is_nonsense),
		ON(test_a_cold_start_ends_the_owner),
		ON(test_the_owner_ends_before_the_program),
	};

	return cmocka_run_group_tests_name("keeper's ends", tests, NULL, NULL);
}
