/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers-mps.h - runs broker-run's workers under MPS, from before the fork to the end of the job: carries out what
 * mps-plan.h decides, starts a daemon of the job's own (mps-daemon.h) if so decided, and logs what users should know.
 *
 * Owns the daemon. Touches no device; the broker itself never runs under MPS.
 */
#ifndef GPUB_RUN_WORKERS_MPS_H
#define GPUB_RUN_WORKERS_MPS_H

#include "mps-daemon.h"
#include "options.h"

struct workers_mps {
	const struct run_options  *options;
	const struct board_header *board;
	/* result of mps_is_here(): programs that are started here run under an MPS daemon already */
	bool                       present;
	bool                       answers; /* the present daemon lives; false: there is none, or it has ended */
	enum mps_plan              plan;    /* valid from workers_mps_begin() on */
	struct mps_order           order;   /* the order for the job's own daemon; valid if plan is MPS_OWN */
	struct mps_daemon          daemon;  /* the job's own daemon; daemon.keeper is 0 if no daemon was prepared */
	mps_daemon_done           *ready;   /* called once the plan is carried out, or has failed */
	void                      *context; /* first argument of ready() */
};

/*
 * Forks the keeper of a daemon that may be needed. Call it before this process opens anything that the keeper must not
 * inherit, and before the broker hides from MPS. options must outlive mps. Returns 0 or negative errno with the error
 * message; workers_mps_end() follows in either case.
 */
int workers_mps_prepare(struct workers_mps *mps, const struct run_options *options);

/*
 * Decides whether the workers run under MPS, and starts an MPS daemon of the job if they need one. Call it when the
 * devices are known. directory: the job's private directory. Returns 0: ready() is called once with the outcome, in
 * this call or later from the event loop. Returns negative errno with the error message: ready() is not called.
 */
int workers_mps_begin(struct workers_mps *mps, struct event_base *base, const struct board_header *board,
		      const char *directory, mps_daemon_done *ready, void *context);

/* Returns true if the workers will run under MPS. Valid from ready() on. */
bool workers_mps_under(const struct workers_mps *mps);

/*
 * Called after ready(): sets the workers' environment variables for MPS. Returns 0 or negative errno with the error
 * message.
 */
int workers_mps_tell(const struct workers_mps *mps, struct children *children);

/* Notes the end of a process that the caller has reaped. Does nothing if the process is not the daemon's keeper. */
void workers_mps_ended(struct workers_mps *mps, pid_t pid);

/*
 * Called when a child of this process has ended. Logs the end of the job's own MPS daemon, if workers_mps_stop() did
 * not cause it. others_run: the job's first worker has failed, and others run, perhaps as children of other processes
 * (--join); logs what the failure may mean for them, because they have the same MPS server.
 */
void workers_mps_child(struct workers_mps *mps, const struct children *children, bool others_run);

/* Asks the job's own MPS daemon to end. */
void workers_mps_stop(struct workers_mps *mps);

/* Ends the job's own MPS daemon and waits for its end. Called before the event base is freed. */
void workers_mps_end(struct workers_mps *mps);

#endif
