/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-death.c - sessions of clients in processes of their own: what is kept until a process died.
 * session-harness.h is the world.
 */
#include "session-harness.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- clients in processes of their own ---- */

/* "a" is there, made by this process, and unlinked again: what the child holds of it decides on the free. */
static void expect_kept(struct peer *owner)
{
	expect_done(owner, WIRE_UNLINK, "a");
	run_passes();
	assert_int_equal(broker.registry->mapping_count, 1);
	assert_int_equal(broker.counters.allocations_freed, 0);
}

static void expect_freed_by_death(void)
{
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_int_equal(broker.counters.sessions_died, 1);
	assert_int_equal(broker.counters.mappings_closed, 0);
}

/* Runs a child that acquires "a" and then does something that is not death. */
static void expect_kept_until_death(child_main *run, bool is_cut)
{
	struct peer owner = join();
	struct child child;

	expect_done(&owner, WIRE_CREATE, "a");
	child = child_start(run, -1);
	EXPECT_SOON(told(&child));
	if (is_cut)
		EXPECT_SOON(broker.counters.sessions_cut == 1);
	else
		run_passes();
	expect_kept(&owner);
	child_kill(&child);
	expect_freed_by_death();
	child_forget(&child);
	part(&owner);
}

static void hang_up_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	close(peer.sock);
	tell();
	linger();
}

static void invariant_9_a_hang_up_alone_frees_nothing(void **state)
{
	(void)state;
	expect_kept_until_death(hang_up_and_live, false);
}

static void half_close_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	shutdown(peer.sock, SHUT_WR);
	tell();
	linger();
}

static void invariant_9_a_half_closed_session_keeps_its_mappings(void **state)
{
	(void)state;
	expect_kept_until_death(half_close_and_live, true);
}

static void babble_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	send(peer.sock, "garbage", 7, 0);
	tell();
	linger();
}

static void invariant_9_a_session_cut_off_keeps_its_mappings(void **state)
{
	(void)state;
	expect_kept_until_death(babble_and_live, true);
}

/* A CLOSED from a process that is not the session's: the holder may still have its mapping. */
static void let_another_say_closed(int sock)
{
	struct peer peer = join();
	struct wire_grant grant = acquire(&peer, "a");
	pid_t pid = fork();

	(void)sock;
	if (!pid) {
		send_closed(peer.sock, grant.mapping);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	tell();
	linger();
}

static void invariant_2_another_process_cannot_close(void **state)
{
	(void)state;
	expect_kept_until_death(let_another_say_closed, true);
}

/* Its child keeps the socket, and with it all that it shares: the GPU's descriptors too, with a real one. */
static void fork_a_keeper(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	if (!fork()) {
		linger();
		_exit(0);
	}
	tell();
	pause();
}

static void invariant_9_a_death_alone_frees_nothing(void **state)
{
	struct peer owner = join();
	struct child child;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	child = child_start(fork_a_keeper, -1);
	EXPECT_SOON(told(&child));
	child_kill(&child);
	expect_kept(&owner);
	child_forget(&child); /* and so the keeper ends */
	expect_freed_by_death();
	part(&owner);
}

static void greet_for_another(int sock)
{
	struct wire_message message = receive_message(sock);

	message = hello_to(&message);
	say(sock, &message);
}

static void test_greeting_of_another_process_is_turned_away(void **state)
{
	int sock = dial();
	struct child child = child_start(greet_for_another, sock);

	(void)state;
	EXPECT_SOON(broker.counters.sessions_refused == 1);
	assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
	child_forget(&child);
	expect_turned_away(sock);
}

/* It is process 1 there, and the broker sees it by another number. */
static bool greets(void)
{
	int sock = dial();
	struct wire_message message = receive_message(sock), hello = hello_to(&message);

	hello.hello.pid = (uint32_t)getpid();
	say(sock, &hello);
	return receive_message(sock).type == WIRE_WELCOME;
}

/* 77: this system lets nobody have a namespace. */
_Noreturn static void connect_from_another_namespace(void)
{
	int status = 77 << 8;
	pid_t inner;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	is_child = true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
		_exit(77);
	inner = fork();
	if (!inner)
		_exit(!greets());
	if (inner > 0)
		waitpid(inner, &status, 0);
	_exit(WEXITSTATUS(status));
}

static void test_another_pid_namespace_is_served(void **state)
{
	struct peer peer = join();
	pid_t pid = fork();
	int status = 0;

	(void)state;
	if (!pid)
		connect_from_another_namespace();
	EXPECT_SOON(waitpid(pid, &status, WNOHANG) == pid);
	expect_served(&peer);
	part(&peer);
	/* not cmocka's skip(), whose "not ok # SKIP" counts as a failure */
	if (WEXITSTATUS(status) == 77) {
		print_message("# this system gives no namespaces: not tried\n");
		return;
	}
	assert_int_equal(status, 0);
	assert_int_equal(broker.counters.sessions_refused, 0);
}

/* Does everything that a client does, over and over, until it is killed in the middle. */
static void work_until_killed(int sock)
{
	char name[32];

	(void)sock;
	tell();
	for (int i = 0;; i++) {
		struct peer peer = join();
		struct wire_grant grant;

		snprintf(name, sizeof name, "w/%d/%d", (int)getpid(), i % 4);
		ask(&peer, WIRE_CREATE, name);
		grant = acquire(&peer, name);
		if (i % 2)
			send_closed(peer.sock, grant.mapping);
		if (i % 3)
			ask(&peer, WIRE_UNLINK, name);
		if (i % 2)
			part(&peer);
	}
}

static void invariant_10_accounting_balances_after_any_kill(void **state)
{
	unsigned seed = 3;

	(void)state;
	for (int round = 0; round < 40; round++) {
		struct child child = child_start(work_until_killed, -1);

		EXPECT_SOON(told(&child));
		for (int turns = rand_r(&seed) % 30; turns; turns--)
			run_pass();
		child_kill(&child);
		child_forget(&child);
		EXPECT_SOON(!broker.sessions->by_id);
		assert_int_equal(broker.registry->mapping_count, 0);
		assert_int_equal(broker.registry->handles.free, broker.registry->handles.count);
		assert_true(broker.counters.mappings_opened ==
			    broker.counters.mappings_closed + broker.counters.mappings_died);
	}
	assert_true(broker.counters.mappings_died > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_9_a_hang_up_alone_frees_nothing),
		ON(invariant_9_a_half_closed_session_keeps_its_mappings),
		ON(invariant_9_a_session_cut_off_keeps_its_mappings),
		ON(invariant_2_another_process_cannot_close),
		ON(invariant_9_a_death_alone_frees_nothing),
		ON(test_greeting_of_another_process_is_turned_away),
		ON(test_another_pid_namespace_is_served),
		ON(invariant_10_accounting_balances_after_any_kill),
	};

	return cmocka_run_group_tests_name("sessions and processes", tests, harness_group_setup,
					   harness_group_teardown);
}
