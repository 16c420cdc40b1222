/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joiner.h - broker-run --join in every process of a job but the first of its machine (local rank 0): asks the
 * broker-run of rank 0 (joined.h) for the worker's environment variables, and becomes the worker by exec(2).
 *
 * Never is a broker, forks nothing, and leaves no process between the launcher and the worker.
 */
#ifndef GPUB_RUN_JOINER_H
#define GPUB_RUN_JOINER_H

#include "job.h"

/*
 * Runs command as the worker. Returns only on failure, with the error message: negative errno, or as exit status 126 if
 * the command cannot be run, 127 if it was not found. -ETIMEDOUT: no broker-run of rank 0 listened within job->patience
 * seconds; -ECONNRESET: the broker-run of rank 0 ended before its answer, or answered nonsense. Waits for the answer
 * without limit.
 */
int joiner_run(const struct join_job *job, char **command);

#endif
