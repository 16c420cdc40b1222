/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h - what each signal means to broker-run and brokerd: one table for both programs.
 *
 * A terminal, a shell and a job manager send signals to every process of a job, and most signals end a process that
 * does not expect them. So both programs block all signals of the table, and read them from a signalfd. Owns nothing.
 */
#ifndef GPUB_SIGNALS_H
#define GPUB_SIGNALS_H

#include <signal.h>

enum signal_use {
	SIGNAL_FOR_WORKERS, /* broker-run passes it on to the workers; brokerd ignores it */
	SIGNAL_STOP,        /* the same, and when its workers have ended broker-run waits no longer; brokerd stops */
	SIGNAL_HANG_UP,     /* to broker-run the same as SIGNAL_STOP; brokerd reads its configuration again */
	SIGNAL_CHILD,       /* a child process has ended */
	SIGNAL_UNTOUCHED    /* not blocked: it has the effect that it has in any program */
};

/* What that signal means. number: from 1 to SIGRTMAX. */
enum signal_use signal_use(int number);

/* Fills in all signals but those that are SIGNAL_UNTOUCHED. */
void signals_used(sigset_t *signals);

/*
 * For a process that is about to become a worker: sets the mask, and also blocks what is for workers alone. The
 * command that handles such a signal does not run yet, and without it the signal would end the process.
 */
void signals_hold_back(const sigset_t *mask);

/* Before the worker's exec: forgets the signals that signals_hold_back() kept from the process, and sets the mask. */
void signals_let_in(const sigset_t *mask);

#endif
