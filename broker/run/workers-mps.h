/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers-mps.h - broker-run's workers under MPS, from before the fork to the end of the job: carries out what mps-plan.h decides,
 * with a daemon of the job's own where that is decided (mps-daemon.h), and tells people about it.
 *
 * Owns that daemon. Touches no device; the broker itself is never under MPS.
 */
#ifndef GPUB_RUN_WORKERS_MPS_H
#define GPUB_RUN_WORKERS_MPS_H

#include "mps-daemon.h"
#include "options.h"

struct workers_mps {
	const struct run_options  *options;
	const struct board_header *board;
	bool                       present; /* programs that start here run under MPS: a daemon is there already */
	bool                       answers; /* and it lives */
	enum mps_plan              plan;
	struct mps_order           order;
	struct mps_daemon          daemon;
	mps_daemon_done           *ready;
	void                      *context;
};

/*
 * Before this process opens anything that a daemon's keeper must not have, and before the broker itself hides from MPS. The
 * options must stay. Returns 0 or negative errno with the error message; workers_mps_end() follows in either case.
 */
int workers_mps_prepare(struct workers_mps *mps, const struct run_options *options);

/*
 * When the devices are known. directory: the job's private one. ready() is called once, here or from the event loop, unless this
 * returns negative errno with the error message.
 */
int workers_mps_begin(struct workers_mps *mps, struct event_base *base, const struct board_header *board, const char *directory,
		      mps_daemon_done *ready, void *context);

/* From ready() on: whether the workers will run under MPS, and what puts that into their environment. */
bool workers_mps_under(const struct workers_mps *mps);
bool workers_mps_owns(const struct workers_mps *mps); /* by a daemon of the job's own */
int workers_mps_tell(const struct workers_mps *mps, struct children *children);

/* The caller has reaped that process, which may be the daemon's keeper. */
void workers_mps_ended(struct workers_mps *mps, pid_t pid);

/* A child of this process has ended: says so if it is the daemon, and what the others see if the first worker has failed. */
void workers_mps_child(struct workers_mps *mps, const struct children *children, bool first_failure);

/* Asks for the daemon's end, and waits for it: while the event base lives. */
void workers_mps_stop(struct workers_mps *mps);
void workers_mps_end(struct workers_mps *mps);

#endif
