/* SPDX-License-Identifier: Apache-2.0 */
/* victim.c - see victim.h */
#include "victim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/crash-point.h"

#define PATIENCE_SECONDS 20
#define RELIEFS          100 /* in that time */

bool names_may_go, name_was_lost;
void (*victim_relief)(void);
struct puppet victim;
pid_t victim_child;

static enum fate fate;
static bool busy; /* in the middle of a step */
static bool child_caught;
static sigset_t unblocked;

/* Results of do_fork(), beside 0: the child stopped (its pid is the value), or came to another end than its own. */
enum { CHILD_STOPPED = 1, CHILD_CAUGHT };

/* ---- what became of it ---- */

static void on_child(int signal)
{
	(void)signal; /* it only has to end the poll that await() is in: everywhere else it is blocked */
}

/* Not left to the kernel: a child of the victim's has no parent-death signal. */
static void kill_child_left(void)
{
	if (victim_child)
		kill(victim_child, SIGKILL);
}

void victim_prepare(void)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &unblocked);
	signal(SIGCHLD, on_child);
	atexit(kill_child_left);
}

static enum fate fate_of(const siginfo_t *info)
{
	if (info->si_code == CLD_STOPPED)
		return VICTIM_STOPPED;
	if (info->si_code != CLD_EXITED)
		return info->si_status == SIGKILL ? VICTIM_KILLED : VICTIM_FAILED;
	if (info->si_status == CRASH_EXIT)
		return VICTIM_EXITED;
	return info->si_status ? VICTIM_FAILED : VICTIM_ENDED;
}

static bool is_gone(void)
{
	return fate >= VICTIM_KILLED;
}

enum fate victim_fate(void)
{
	siginfo_t info = { 0 };

	/* the dead are only looked at: a point of the broker may be about to kill that pid */
	if (is_gone() || waitid(P_PID, (id_t)victim.pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) || !info.si_pid)
		return fate;
	fate = fate_of(&info);
	if (fate == VICTIM_STOPPED)
		waitid(P_PID, (id_t)victim.pid, &info, WSTOPPED | WNOHANG);
	if (fate == VICTIM_FAILED)
		printf("# the victim ended with status or signal %d\n", info.si_status);
	if (is_gone())
		close(victim.sock);
	return fate;
}

bool victim_was_caught(void)
{
	return child_caught || fate == VICTIM_STOPPED || fate == VICTIM_KILLED || fate == VICTIM_EXITED;
}

/* ---- steps ---- */

void victim_start(const struct broker_process *broker, const char *crash, const char *fail)
{
	if (crash)
		setenv("GPUB_CRASH", crash, 1);
	if (fail)
		setenv("GPUB_HOST_FAIL", fail, 1);
	puppet_start_unconnected(&victim, broker);
	unsetenv("GPUB_CRASH");
	unsetenv("GPUB_HOST_FAIL");
	fate = VICTIM_LIVES;
	busy = child_caught = name_was_lost = false;
	victim_child = 0;
}

bool name_is_lost(int result, int expected)
{
	/* memory that ended is free again, and its name */
	bool due = result == -ENOENT || result == -ESTALE ||
		   (!result && (expected == -EEXIST || expected == -ENOMEM));

	name_was_lost |= names_may_go && due;
	return names_may_go && due;
}

static _Noreturn void fail_with(const char *what)
{
	victim_kill(true);
	bail_out("the victim %s", what);
}

/* One look after another until done says so, without polling: each child that dies or stops ends a nap. */
static void await(bool (*done)(void), struct pollfd *p)
{
	static const struct timespec pause = { .tv_nsec = PATIENCE_SECONDS * (1000000000L / RELIEFS) };
	static const struct timespec patience = { .tv_sec = PATIENCE_SECONDS };
	int ready = 1, left = victim_relief ? RELIEFS : 0;

	while (!done() && (ready || left)) {
		ready = ppoll(p, 1, left ? &pause : &patience, &unblocked);
		if (!ready && left) {
			left--;
			victim_relief();
		}
		/* a hang-up comes a little before the death that it announces */
		if (ready > 0 && p->revents & (POLLHUP | POLLERR) && !(p->revents & POLLIN))
			p->fd = -1;
	}
	if (!ready && !done())
		fail_with("hangs");
}

static bool received_or_gone(void)
{
	ssize_t got = recv(victim.sock, &victim.last, sizeof victim.last, MSG_DONTWAIT);

	if (got == (ssize_t)sizeof victim.last)
		busy = false;
	return !busy || victim_fate() != VICTIM_LIVES;
}

bool victim_begins(struct order order)
{
	if (victim_fate() != VICTIM_LIVES)
		return false;
	busy = true;
	/* one that was killed has closed its socket before its death can be seen, which is waited for next */
	if (send(victim.sock, &order, sizeof order, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		fail_with("cannot be told what to do");
	return true;
}

static bool result_is(int expected)
{
	if (victim.last.result == expected)
		return true;
	if (name_is_lost(victim.last.result, expected))
		return false;
	printf("# a step of the victim gave %d instead of %d: %s\n", victim.last.result, expected, victim.last.text);
	fail_with("does not get what it asks for");
}

bool victim_finishes(int expected)
{
	struct pollfd p = { .fd = victim.sock, .events = POLLIN };

	if (fate == VICTIM_LIVES)
		await(received_or_gone, &p);
	if (fate != VICTIM_LIVES)
		return false;
	child_caught |= victim.last.result == CHILD_STOPPED || victim.last.result == CHILD_CAUGHT;
	if (victim.last.result == CHILD_STOPPED) {
		victim_child = (pid_t)victim.last.value;
		fate = VICTIM_CHILD_STOPPED;
		return false;
	}
	return victim.last.result == CHILD_CAUGHT || result_is(expected);
}

bool victim_answered(void)
{
	return received_or_gone();
}

bool victim_does(int expected, struct order order)
{
	return victim_begins(order) && victim_finishes(expected);
}

/* ---- its end ---- */

static bool gone(void)
{
	return victim_fate() >= VICTIM_KILLED;
}

static bool gone_or_stopped(void)
{
	return victim_fate() != VICTIM_LIVES;
}

static void await_end(bool (*done)(void))
{
	struct pollfd p = { .fd = -1 };

	await(done, &p);
}

void victim_continue(void)
{
	struct pollfd p = { .fd = victim.sock, .events = POLLIN };

	fate = VICTIM_LIVES;
	if (victim_child)
		kill(victim_child, SIGCONT);
	else
		kill(victim.pid, SIGCONT);
	victim_child = 0;
	if (busy)
		await(received_or_gone, &p);
}

void victim_end(void)
{
	struct order last = { .run = do_disconnect };
	struct pollfd p = { .fd = victim.sock, .events = POLLIN };

	if (busy && fate == VICTIM_LIVES) /* the scenario ended early: a name was lost */
		await(received_or_gone, &p);
	if (!victim_begins(last) || !victim_finishes(0))
		return;
	shutdown(victim.sock, SHUT_RDWR);
	await_end(gone_or_stopped);
}

void victim_kill(bool kill_child)
{
	if (!is_gone()) {
		kill(victim.pid, SIGKILL);
		await_end(gone);
	}
	if (kill_child && victim_child) {
		kill(victim_child, SIGKILL);
		victim_child = 0;
	}
}

void victim_bury(void)
{
	waitpid(victim.pid, NULL, 0);
}

int do_fork(const struct order *order)
{
	pid_t pid = fork();
	int status = 0;

	(void)order;
	if (!pid)
		_exit(0);
	if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid)
		return -ECHILD;
	if (!WIFSTOPPED(status))
		return status ? CHILD_CAUGHT : 0;
	step_value = (uint64_t)pid;
	return CHILD_STOPPED;
}
