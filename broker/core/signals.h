/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h - what each signal means to broker-run and brokerd: one table for both programs.
 *
 * A terminal, a shell and a job manager send signals to every process of a job, and most signals end a process that
 * does not expect them. So both programs block all signals but SIGNAL_UNTOUCHED, and read them from a signalfd. Owns
 * nothing.
 */
#ifndef GPUB_SIGNALS_H
#define GPUB_SIGNALS_H

#include <signal.h>

enum signal_use {
	/*
	 * broker-run passes what a process sent on to the workers that have not got it; brokerd upgrades itself at
	 * SIGUSR2, and ignores the others
	 */
	SIGNAL_FOR_WORKERS,
	/* broker-run passes the signal on, and quits at once if its workers have ended; brokerd stops */
	SIGNAL_STOP,
	SIGNAL_HANG_UP,     /* broker-run treats the signal as SIGNAL_STOP; brokerd reads its configuration again */
	SIGNAL_CHILD,       /* a child process has ended */
	SIGNAL_UNTOUCHED    /* the signal is not blocked, and has its usual effect on the process */
};

/* Returns the use of a signal. number: from 1 to SIGRTMAX. */
enum signal_use signal_use(int number);

/* Sets *signals to all signals that the programs block and read: every one but SIGNAL_UNTOUCHED. */
void signals_used(sigset_t *signals);

/*
 * For a process that is to become a worker, which is a child of broker-run or a broker-run that joins: sets the signal
 * mask, and also blocks all SIGNAL_FOR_WORKERS. Until the process has executed the worker's command, which may handle
 * them, these signals would end the process.
 */
void signals_hold_back(const sigset_t *mask);

/* Called before the worker's exec: discards pending SIGNAL_FOR_WORKERS signals, and sets the signal mask. */
void signals_let_in(const sigset_t *mask);

#endif
