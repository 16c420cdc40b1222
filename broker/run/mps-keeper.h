/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps-keeper.h - a process that starts an MPS daemon for one job, and ends it with the job.
 *
 * The daemon's parent, so that it can wait for the daemon and for its servers, and so that a death of broker-run, SIGKILL
 * included, is noticed by somebody. Owns the daemon and the files in its directory. Never touches a device.
 */
#ifndef GPUB_RUN_MPS_KEEPER_H
#define GPUB_RUN_MPS_KEEPER_H

#include <sys/types.h>

#include "broker/status/leftovers.h"
#include "gpubroker.h"

#define MPS_UUIDS_MAX (64 * sizeof "GPU-00000000-0000-0000-0000-000000000000")

/* What the keeper reads from its gate, in one piece. */
struct mps_order {
	char directory[LEFTOVERS_PATH_SIZE + sizeof "/mps"]; /* to be made, for the daemon's sockets and logs */
	char visible[MPS_UUIDS_MAX];                         /* the daemon's CUDA_VISIBLE_DEVICES; "": not set */
};

#define MPS_ANSWER_MAX 256

/*
 * The keeper's life, in a forked child of broker-run (parent). Starts the daemon when an order comes
 * through the gate, and writes one answer: an empty string when the daemon serves, else an error message. Without an order
 * (end of file) it exits.
 * SIGTERM ends the daemon and its servers at once, and kills one that does not end by itself. If broker-run dies, they end when the last client of MPS has ended. The
 * keeper exits after them.
 */
_Noreturn void mps_keeper_main(pid_t parent, int gate, int answer);

#endif
