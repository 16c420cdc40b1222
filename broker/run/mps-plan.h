/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps-plan.h - whether broker-run's workers run under MPS, and what they find in their environment about it.
 *
 * Decides by the options, the number of devices and workers, and whether there is a daemon already; docs/design.md, "MPS", has
 * the reasons. Owns nothing and starts nothing: workers-mps.h does.
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
	unsigned mode;                /* enum mps_mode */
	unsigned threads;             /* percent of a device's multiprocessors for each worker; 0: not given */
	uint64_t memory[DEVICE_MAX];  /* bytes that each worker may allocate and map there; 0: not given */
	uint64_t memory_each;         /* the same for every device without a number of its own */
};

extern const char *const mps_modes[]; /* for WORD() */
taker take_mps_memory;                /* into a struct mps_options: "SIZE" or "DEVICE=SIZE" */

enum mps_plan {
	MPS_WITHOUT, /* the workers share a GPU by time slices */
	MPS_PRESENT, /* they run under the daemon that is there */
	MPS_OWN      /* a daemon for this job is to be started */
};

/*
 * present: programs that start here run under MPS anyway (mps_is_here()). Returns 0 with *plan, or negative errno with the
 * error message where MPS was asked for and cannot be.
 */
int mps_plan_make(const struct mps_options *options, bool present, const struct board_header *board, unsigned workers,
		     enum mps_plan *plan);

/* So many clients of a server were seen to work on a device; more than it takes would not start at all. */
#define MPS_CLIENTS_MAX 48

/* Whether those are too many for servers on so many devices. */
bool mps_plan_too_many(unsigned workers, unsigned devices);

/* The order for a daemon of the job's own in the job's directory. */
void mps_order_make(struct mps_order *order, const char *directory, const struct board_header *board);

/* Before the workers are released. order: with MPS_OWN only. Returns 0 or negative errno with the error message. */
int mps_plan_tell(struct children *children, const struct mps_options *options, enum mps_plan plan, const struct mps_order *order,
		     unsigned devices);

#endif
