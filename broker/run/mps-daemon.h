/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps-daemon.h - an MPS daemon of this job's own, as broker-run sees it: prepared before anything else, started when the
 * devices are known, ended with the job.
 *
 * Owns the keeper (mps-keeper.h), which owns the daemon. Decides nothing: mps-plan.h does.
 */
#ifndef GPUB_RUN_MPS_DAEMON_H
#define GPUB_RUN_MPS_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>

#include "mps-keeper.h"

/* error: 0, or negative errno with what failed, why, and how to fix it. */
typedef void mps_daemon_done(void *context, int error, const char *text);

struct mps_daemon {
	pid_t            keeper;       /* 0: there is none */
	bool             ended;        /* the keeper is reaped */
	int              gate, answer; /* to the keeper (-1: closed), and from it; valid while there is one */
	bool             serves;
	struct event    *answered;
	mps_daemon_done *done;
	void            *context;
};

/*
 * Forks the keeper: with the signals blocked, and before this process opens what the keeper must not inherit (the lock that says
 * that the broker lives, a device). Returns 0 or negative errno with the error message.
 */
int mps_daemon_prepare(struct mps_daemon *daemon);

/* Starts the daemon; done() follows from the event loop. Returns 0, or negative errno with the error message and no call of done(). */
int mps_daemon_start(struct mps_daemon *daemon, struct event_base *base, const struct mps_order *order, mps_daemon_done *done,
		     void *context);

/* The caller has reaped that process, which may be the keeper. */
void mps_daemon_ended(struct mps_daemon *daemon, pid_t pid);

/* After SIGCHLD. True: a daemon that served has ended, and nobody asked for that. */
bool mps_daemon_lost(struct mps_daemon *daemon);

/* Asks for the end of keeper and daemon, whose clients fail. */
void mps_daemon_stop(struct mps_daemon *daemon);

/* After mps_daemon_stop(): waits until the daemon and its servers have ended. While the event base lives. */
void mps_daemon_wait(struct mps_daemon *daemon);

#endif
