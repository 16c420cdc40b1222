/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joiner.h - broker-run --join in every process of a job but the first of its machine: asks the first one's broker-run (joined.h) for
 * what a worker finds in its environment, and becomes the worker.
 *
 * Never is a broker, forks nothing, and leaves no process between the launcher and the worker.
 */
#ifndef GPUB_RUN_JOINER_H
#define GPUB_RUN_JOINER_H

#include "job.h"

/*
 * Returns only on failure, with the error message: negative errno. -ETIMEDOUT: the first one's broker-run did not start;
 * -ECONNRESET: it died. Or 126 or 127, the exit status of a command that cannot be run or was not found.
 */
int joiner_run(const struct join_job *job, char **command);

#endif
