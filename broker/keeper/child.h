/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - a child process whose end the loop is told of.
 *
 * Owns a pidfd and its event. The process is reaped by its pid, so the program must leave it to this: waitpid(-1) would
 * take its status away. Never ends a process.
 */
#ifndef GPUB_KEEPER_CHILD_H
#define GPUB_KEEPER_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include <event2/event.h>

/* All zeroes: there is no process. */
struct child {
	pid_t         pid;    /* 0: there is none, or it has been reaped */
	int           pidfd;  /* valid if event is not NULL */
	struct event *event;  /* pidfd can be read: the process has ended */
	struct event *later;  /* timer: the process, which has ended, is asked for again */
	void (*ended)(void *context, int status);
	void         *context;
};

/*
 * Forks with all signals blocked, so that no handler of this process runs in the child. The child keeps them blocked.
 * before: what was blocked, which the parent restores; NULL: not stored. Returns as fork(2).
 */
pid_t child_fork(sigset_t *before);

/*
 * Calls ended() through the loop, once, when the process has ended and been reaped: with its status of wait(2), or with
 * that of a SIGKILL if somebody else has reaped it. Returns 0, or a negative errno with the error message set.
 */
int child_watch(struct child *child, struct event_base *base, pid_t pid, void (*ended)(void *context, int status),
		void *context);

/*
 * Returns how a process ends whose main thread has begun to exit: a status of wait(2), which says that a signal ends
 * the process; 0: no signal does, or /proc does not tell.
 */
int child_ending(pid_t pid);

/* Closes the pidfd. The process is neither ended nor reaped. Does nothing if there is no process. */
void child_forget(struct child *child);

/* Ends the process by SIGKILL, waits for that, and reaps it, without a call of ended(). */
void child_finish(struct child *child);

#endif
