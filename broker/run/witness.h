/* SPDX-License-Identifier: Apache-2.0 */
/*
 * witness.h - tells whether a signal that broker-run received was sent to its workers as well.
 *
 * The kernel does not say whether a signal was sent to one process or to a process group. Open MPI, a shell's job
 * control and timeout(1) send to the group, systemd to each process of a unit, Slurm by default only to the processes
 * that it started. So a child process, the witness, stays in broker-run's process group with all signals blocked. A
 * signal that the witness has got as well was sent to everybody. Owns that process, which ends with broker-run. Sends
 * no signal itself.
 */
#ifndef GPUB_RUN_WITNESS_H
#define GPUB_RUN_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>

struct witness {
	pid_t         pid;              /* 0: there is no witness */
	int           question, answer; /* pipes to it and from it; valid while pid is not 0 */
	struct event *answered, *timer;
	bool          asked;            /* the timer limits the wait for an answer; else it runs until the question */
	unsigned      held[_NSIG];      /* by number: how often that signal came since the last answer */
	void        (*decided)(void *context, int number, bool everybody); /* everybody: the workers have the signal */
	void         *context;
};

/*
 * Forks the witness; argv is the program's, and blank in the witness. Call it before the first thread starts. 0 or
 * negative errno.
 */
int witness_fork(struct witness *witness, char **argv);

/* decided() is called from that loop. 0 or -ENOMEM, with the error message. */
int witness_begin(struct witness *witness, struct event_base *base);

/* broker-run received that signal: decided() follows soon, once for each time that the signal came. */
void witness_ask(struct witness *witness, int number);

/* The caller has reaped that process. False: it is not the witness. */
bool witness_ended(struct witness *witness, pid_t pid);

/* Ends the process. What was asked is not decided any more. */
void witness_end(struct witness *witness);

#endif
