/* SPDX-License-Identifier: Apache-2.0 */
/* witness.c - see witness.h */
#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

#define DELAY_MS  50   /* a sender that signals one process after the other is done by then */
#define ANSWER_MS 1000 /* a witness that is silent for so long is stopped, or not there */

/* ---- the process ---- */

/* Bit N - 1: signal N came since the last call. */
static uint64_t signals_taken(const sigset_t *all)
{
	const struct timespec no_time = { 0 };
	uint64_t taken = 0;
	int number;

	while ((number = sigtimedwait(all, NULL, &no_time)) > 0)
		taken |= UINT64_C(1) << (number - 1);
	return taken;
}

/* pkill(1) and killall(1) find processes by name and arguments: a signal that is sent so must not reach the witness. */
static void change_name(char **argv)
{
	prctl(PR_SET_NAME, "signal-witness");
	for (char **argument = argv; *argument; argument++)
		memset(*argument, 0, strlen(*argument));
}

/* Keeps none of the program's descriptors open but these two, which become 0 and 1. */
static void keep_only(int question, int answer)
{
	if (dup2(question, STDIN_FILENO) < 0 || dup2(answer, STDOUT_FILENO) < 0 ||
	    close_range(STDOUT_FILENO + 1, UINT_MAX, 0))
		_exit(1);
}

static _Noreturn void witness_main(int question, int answer, char **argv)
{
	sigset_t all;
	uint64_t taken;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	keep_only(question, answer);
	change_name(argv);
	while (read(STDIN_FILENO, &byte, 1) == 1) {
		taken = signals_taken(&all);
		if (write(STDOUT_FILENO, &taken, sizeof taken) != sizeof taken)
			break;
	}
	_exit(0);
}

int witness_fork(struct witness *witness, char **argv)
{
	int question[2], answer[2], error;

	if (pipe2(question, O_CLOEXEC))
		return error_set(-errno, "the witness of signals has no pipe: %m");
	if (pipe2(answer, O_CLOEXEC)) {
		error = error_set(-errno, "the witness of signals has no pipe: %m");
		goto close_question;
	}
	witness->pid = fork();
	if (!witness->pid) {
		close(question[1]);
		witness_main(question[0], answer[1], argv);
	}
	error = witness->pid < 0 ? error_set(-errno, "the witness of signals cannot be forked: %m") : 0;
	close(question[0]);
	close(answer[1]);
	if (!error) {
		witness->question = question[1];
		witness->answer = answer[0];
		return 0;
	}
	witness->pid = 0;
	close(answer[0]);
	close(question[1]);
	return error;
close_question:
	close(question[0]);
	close(question[1]);
	return error;
}

/* ---- questions ---- */

static void timer_set(struct witness *witness, unsigned ms, bool asked)
{
	const struct timeval time = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	witness->asked = asked;
	evtimer_add(witness->timer, &time);
}

static void decide(struct witness *witness, uint64_t taken)
{
	unsigned held[_NSIG];

	evtimer_del(witness->timer);
	memcpy(held, witness->held, sizeof held);
	memset(witness->held, 0, sizeof witness->held);
	for (int number = 1; number < _NSIG; number++)
		while (held[number]--)
			witness->decided(witness->context, number, taken >> (number - 1) & 1);
}

/* Signals that broker-run receives from now on are taken as sent to it alone. */
static void forget(struct witness *witness)
{
	if (witness->answered)
		event_free(witness->answered);
	witness->answered = NULL;
	close(witness->question);
	close(witness->answer);
	witness->pid = 0;
}

static void lose(struct witness *witness)
{
	pid_t pid = witness->pid;

	if (!pid)
		return;
	forget(witness);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

bool witness_ended(struct witness *witness, pid_t pid)
{
	if (pid != witness->pid)
		return false;
	forget(witness);
	if (witness->asked && evtimer_pending(witness->timer, NULL))
		decide(witness, 0);
	return true;
}

static void on_answer(evutil_socket_t fd, short what, void *argument)
{
	struct witness *witness = argument;
	uint64_t taken = 0;

	(void)what;
	if (read(fd, &taken, sizeof taken) != sizeof taken)
		lose(witness);
	decide(witness, taken);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
	struct witness *witness = argument;

	(void)fd;
	(void)what;
	if (witness->asked || (witness->pid && write(witness->question, "", 1) != 1))
		lose(witness);
	if (witness->pid)
		timer_set(witness, ANSWER_MS, true);
	else
		decide(witness, 0);
}

int witness_begin(struct witness *witness, struct event_base *base)
{
	witness->timer = evtimer_new(base, on_timer, witness);
	witness->answered = event_new(base, witness->answer, EV_READ | EV_PERSIST, on_answer, witness);
	if (!witness->timer || !witness->answered || event_add(witness->answered, NULL))
		return error_set(-ENOMEM, "out of memory");
	return 0;
}

void witness_ask(struct witness *witness, int number)
{
	witness->held[number]++;
	if (!evtimer_pending(witness->timer, NULL))
		timer_set(witness, DELAY_MS, false);
}

void witness_end(struct witness *witness)
{
	lose(witness);
	if (witness->timer)
		event_free(witness->timer);
	witness->timer = NULL;
}
