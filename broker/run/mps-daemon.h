/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps-daemon.h - an MPS daemon of this job's own, as broker-run sees it: prepared before the broker opens anything,
 * started when the devices are known, ended with the job.
 *
 * Owns the keeper process (mps-keeper.h), which owns the daemon. mps-plan.h decides whether there is a daemon.
 */
#ifndef GPUB_RUN_MPS_DAEMON_H
#define GPUB_RUN_MPS_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>

#include "mps-keeper.h"

/*
 * Called with the outcome of mps_daemon_start(). error 0: the daemon serves, and text is empty; negative errno: text
 * says what failed and why.
 */
typedef void mps_daemon_done(void *context, int error, const char *text);

struct mps_daemon {
	pid_t            keeper;   /* pid of the keeper; 0: there is no keeper, and gate and answer are not valid */
	bool             ended;    /* the keeper was reaped */
	int              gate;     /* pipe that takes the order to the keeper; -1: closed */
	int              answer;   /* pipe from the keeper */
	bool             serves;   /* the keeper has answered that the daemon serves */
	struct event    *answered; /* event: answer can be read; NULL before mps_daemon_start() */
	mps_daemon_done *done;     /* called with the keeper's answer */
	void            *context;  /* first argument of done() */
};

/*
 * Forks the keeper. Call it with the signals of broker-run blocked, and before this process opens what the keeper must
 * not inherit (the lock that shows that the broker lives, a device). Returns 0 or negative errno with the error
 * message.
 */
int mps_daemon_prepare(struct mps_daemon *daemon);

/*
 * Sends the order to start the daemon to the keeper. Returns 0: the event loop calls done() once; or negative errno:
 * done() is not called.
 */
int mps_daemon_start(struct mps_daemon *daemon, struct event_base *base, const struct mps_order *order,
		     mps_daemon_done *done, void *context);

/* In another process that broker-run has forked: closes the pipes. */
void mps_daemon_forget(const struct mps_daemon *daemon);

/* Notes the end of a process that the caller has reaped. Does nothing if the process is not the keeper. */
void mps_daemon_ended(struct mps_daemon *daemon, pid_t pid);

/*
 * Called after SIGCHLD, before mps_daemon_stop(). If a daemon that served has ended, closes the pipes and returns true,
 * once. Otherwise returns false.
 */
bool mps_daemon_lost(struct mps_daemon *daemon);

/* Asks the keeper to end the daemon at once, and to end itself. CUDA calls of the daemon's clients then fail. */
void mps_daemon_stop(struct mps_daemon *daemon);

/*
 * Called after mps_daemon_stop(): waits until keeper, daemon and servers have ended. The event base must still exist.
 */
void mps_daemon_wait(struct mps_daemon *daemon);

#endif
