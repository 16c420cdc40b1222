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

/* milliseconds from a signal to the question; a sender that signals processes one by one is done then */
#define DELAY_MS  50
/* largest wait for an answer in milliseconds; a witness that is silent for longer is stopped or dead */
#define ANSWER_MS 1000

/* ---- the process ---- */

/* Takes all pending signals of this process, and returns them as a set of bits: bit N - 1 is signal N. */
static uint64_t signals_taken(const sigset_t *all)
{
	const struct timespec no_time = { 0 };
	uint64_t taken = 0;
	int number;

	while ((number = sigtimedwait(all, NULL, &no_time)) > 0)
		taken |= UINT64_C(1) << (number - 1);
	return taken;
}

/* Hides the witness from pkill(1) and killall(1), which find processes by their name and arguments. */
static void change_name(char **argv)
{
	prctl(PR_SET_NAME, "signal-witness");
	for (char **argument = argv; *argument; argument++)
		memset(*argument, 0, strlen(*argument));
}

/* Moves the pipe `question` to descriptor 0 and the pipe `answer` to descriptor 1, and closes all other descriptors. */
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

/* Calls decided() for each held signal. taken: the signals that the witness got, too, as signals_taken() returns. */
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

/*
 * Closes the pipes of a witness that has ended or is to be killed. From now on signals are decided as sent to
 * broker-run alone.
 */
static void forget(struct witness *witness)
{
	if (witness->answered)
		event_free(witness->answered);
	witness->answered = NULL;
	close(witness->question);
	close(witness->answer);
	witness->pid = 0;
}

/* Kills and reaps the witness, if there is one. */
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

void witness_forget(const struct witness *witness)
{
	if (!witness->pid)
		return;
	close(witness->question);
	close(witness->answer);
}

void witness_end(struct witness *witness)
{
	lose(witness);
	if (witness->timer)
		event_free(witness->timer);
	witness->timer = NULL;
}
