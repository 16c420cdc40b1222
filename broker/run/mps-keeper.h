/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps-keeper.h - the keeper: a child process of broker-run that starts an MPS daemon for one job, and ends the daemon
 * with the job.
 *
 * The keeper is the daemon's parent so that it can wait for the daemon and the daemon's servers, and end them also when
 * broker-run is killed. Owns the daemon and the files in the daemon's directory. Never touches a device.
 */
#ifndef GPUB_RUN_MPS_KEEPER_H
#define GPUB_RUN_MPS_KEEPER_H

#include <sys/types.h>

#include "broker/status/leftovers.h"
#include "gpubroker.h"

#define MPS_UUIDS_MAX (64 * sizeof "GPU-00000000-0000-0000-0000-000000000000")

/* The order to start a daemon. The keeper reads it from the pipe gate in one read(2). */
struct mps_order {
	/* path of the directory for the daemon's sockets and logs, which the keeper makes */
	char directory[LEFTOVERS_PATH_SIZE + sizeof "/mps"];
	/* value of CUDA_VISIBLE_DEVICES for the daemon; "": not set */
	char visible[MPS_UUIDS_MAX];
};

#define MPS_ANSWER_MAX 256 /* largest size of the keeper's answer in bytes, its NUL included */

/*
 * Main function of the keeper, in a forked child of broker-run, whose pid is parent. gate and answer are the keeper's
 * ends of two pipes. Reads an order from gate, starts the daemon, and writes one answer: an empty string when the
 * daemon serves, else an error message. Exits if gate is closed without an order.
 * On SIGTERM the keeper sends SIGTERM to the daemon, which ends its servers, and SIGKILL if the daemon has not ended
 * END_SECONDS later. If broker-run dies without that, the keeper tells the daemon to quit when its last client has
 * ended. The keeper exits after the daemon and the servers, and at the latest END_SECONDS after the SIGKILL.
 */
_Noreturn void mps_keeper_main(pid_t parent, int gate, int answer);

#endif
