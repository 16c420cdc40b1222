/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps-plan.h - decides whether broker-run's workers run under MPS, and sets the workers' environment variables for MPS.
 *
 * Decides by the options, the number of devices and workers, and whether there is an MPS daemon already;
 * docs/running.md, "MPS", has the reasons. Owns nothing and starts nothing: workers-mps.h starts the daemon.
 */
#ifndef GPUB_RUN_MPS_PLAN_H
#define GPUB_RUN_MPS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/values.h"
#include "children.h"
#include "common/board.h"
#include "mps-keeper.h"

enum mps_mode { MPS_NO, MPS_AUTO, MPS_YES };

struct mps_options {
	unsigned mode;                /* a value of enum mps_mode */
	/* percentage of a device's multiprocessors that each worker may use; 0: no limit */
	unsigned threads;
	/* bytes that each worker may allocate and map on each device, by the device's index; 0: as memory_each */
	uint64_t memory[DEVICE_MAX];
	uint64_t memory_each;         /* bytes that each worker may allocate and map on a device; 0: no limit */
};

extern const char *const mps_modes[]; /* names of enum mps_mode, for WORD() */
/* parser of a value; field: a struct mps_options; text: "SIZE" or "DEVICE=SIZE" */
taker take_mps_memory;

enum mps_plan {
	MPS_WITHOUT, /* the workers share a GPU by time slices */
	MPS_PRESENT, /* the workers run under an MPS daemon that ran before */
	MPS_OWN      /* the workers run under an MPS daemon that is started for this job */
};

/*
 * Decides, and sets *plan. present: result of mps_is_here(). Returns 0; -EINVAL: --mps yes with host devices; -ENODEV:
 * the options have a limit for a device that does not exist.
 */
int mps_plan_make(const struct mps_options *options, bool present, const struct board_header *board, unsigned workers,
		     enum mps_plan *plan);

/*
 * Number of MPS clients on one device that were seen to work. A client beyond the server's limit does not start at all.
 */
#define MPS_CLIENTS_MAX 48

/* Returns true if there are more workers than MPS_CLIENTS_MAX for each device. */
bool mps_plan_too_many(unsigned workers, unsigned devices);

/*
 * Fills *order for an MPS daemon of the job's own. directory: the job's private directory, in which that of the daemon
 * is made.
 */
void mps_order_make(struct mps_order *order, const char *directory, const struct board_header *board);

/*
 * Sets the workers' environment variables for MPS, before the workers are released. order: for the plan MPS_OWN: that
 * of the daemon. Returns 0 or negative errno.
 */
int mps_plan_tell(struct children *children, const struct mps_options *options, enum mps_plan plan,
		  const struct mps_order *order, unsigned devices);

#endif
