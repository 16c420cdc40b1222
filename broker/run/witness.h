/* SPDX-License-Identifier: Apache-2.0 */
/*
 * witness.h - finds out whether a signal that broker-run received was sent to its workers as well.
 *
 * The kernel does not say whether a signal was sent to one process or to a process group. Open MPI, a shell's job
 * control and timeout(1) send to the group, systemd to each process of a unit, Slurm by default only to the processes
 * that it started. So a child process, the witness, stays in broker-run's process group with all signals blocked. A
 * signal that is pending in the witness, too, was sent to the whole group. Owns the witness, which ends with
 * broker-run. Sends no signal but the SIGKILL that ends the witness.
 */
#ifndef GPUB_RUN_WITNESS_H
#define GPUB_RUN_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>

struct witness {
	pid_t         pid;          /* pid of the witness; 0: there is no witness */
	int           question;     /* pipe to the witness; valid while pid is not 0 */
	int           answer;       /* pipe from the witness; valid while pid is not 0 */
	struct event *answered;     /* event: answer can be read */
	struct event *timer;        /* timer that is pending while received signals are not decided yet */
	bool          asked;        /* true: the timer limits the wait for an answer; false: it delays the question */
	unsigned      held[_NSIG];  /* by signal number: how many received signals are not decided yet */
	/* called for each received signal; everybody: true: the workers got the signal, too */
	void        (*decided)(void *context, int number, bool everybody);
	void         *context;      /* first argument of decided() */
};

/*
 * Forks the witness, which overwrites its copy of argv, so that it is not found by the program's arguments. Called
 * before the first thread starts. Returns 0 or negative errno.
 */
int witness_fork(struct witness *witness, char **argv);

/*
 * Adds the witness's events to the event loop, which then calls decided(). Returns 0 or -ENOMEM with the error message.
 */
int witness_begin(struct witness *witness, struct event_base *base);

/* Reports that broker-run received a signal. decided() is called soon after, once for each call of this function. */
void witness_ask(struct witness *witness, int number);

/* Notes the end of a process that the caller has reaped. Returns false if the process is not the witness. */
bool witness_ended(struct witness *witness, pid_t pid);

/* In another process that broker-run has forked: closes the pipes. */
void witness_forget(const struct witness *witness);

/* Ends the witness process. decided() is not called any more. */
void witness_end(struct witness *witness);

#endif
