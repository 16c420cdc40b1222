/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - see signals.h */
#include "signals.h"

#include <time.h>

/* The use of each signal. A signal without a row, such as SIGUSR1 or a real-time signal, is SIGNAL_FOR_WORKERS. */
static const enum signal_use uses[] = {
	[SIGINT] = SIGNAL_STOP,
	[SIGTERM] = SIGNAL_STOP,
	[SIGQUIT] = SIGNAL_STOP,
	[SIGHUP] = SIGNAL_HANG_UP,
	[SIGCHLD] = SIGNAL_CHILD,
	/* signals of faults of the program; a process that sends one wants a core dump */
	[SIGILL] = SIGNAL_UNTOUCHED,
	[SIGTRAP] = SIGNAL_UNTOUCHED,
	[SIGABRT] = SIGNAL_UNTOUCHED,
	[SIGBUS] = SIGNAL_UNTOUCHED,
	[SIGFPE] = SIGNAL_UNTOUCHED,
	[SIGSEGV] = SIGNAL_UNTOUCHED,
	[SIGSYS] = SIGNAL_UNTOUCHED,
	/* signals by which job control stops and continues the broker as it does any program */
	[SIGSTOP] = SIGNAL_UNTOUCHED,
	[SIGTSTP] = SIGNAL_UNTOUCHED,
	[SIGTTIN] = SIGNAL_UNTOUCHED,
	[SIGTTOU] = SIGNAL_UNTOUCHED,
	[SIGCONT] = SIGNAL_UNTOUCHED,
	/*
	 * signals that end no process (SIGURG, SIGWINCH), cannot be blocked (SIGKILL), or are ignored (control_block())
	 */
	[SIGURG] = SIGNAL_UNTOUCHED,
	[SIGWINCH] = SIGNAL_UNTOUCHED,
	[SIGKILL] = SIGNAL_UNTOUCHED,
	[SIGPIPE] = SIGNAL_UNTOUCHED,
};

enum signal_use signal_use(int number)
{
	return number < (int)(sizeof uses / sizeof *uses) ? uses[number] : SIGNAL_FOR_WORKERS;
}

/* Sets *signals to all SIGNAL_FOR_WORKERS. sigaddset() does not add the two signals that glibc uses itself. */
static void signals_for_workers(sigset_t *signals)
{
	sigemptyset(signals);
	for (int number = 1; number <= SIGRTMAX; number++)
		if (signal_use(number) == SIGNAL_FOR_WORKERS)
			sigaddset(signals, number);
}

void signals_used(sigset_t *signals)
{
	sigfillset(signals);
	for (int number = 1; number <= SIGRTMAX; number++)
		if (signal_use(number) == SIGNAL_UNTOUCHED)
			sigdelset(signals, number);
}

void signals_hold_back(const sigset_t *mask)
{
	sigset_t held;

	signals_for_workers(&held);
	sigorset(&held, &held, mask);
	sigprocmask(SIG_SETMASK, &held, NULL);
}

void signals_let_in(const sigset_t *mask)
{
	const struct timespec no_time = { 0 };
	sigset_t held;

	signals_for_workers(&held);
	while (sigtimedwait(&held, NULL, &no_time) > 0)
		continue;
	sigprocmask(SIG_SETMASK, mask, NULL);
}
