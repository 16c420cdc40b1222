/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - reads broker-run's command line and its spec files.
 *
 * One table (option-table.h) holds every option with its argument, default and description. Owns the list of declared
 * buffers until the caller frees it.
 */
#ifndef GPUB_RUN_OPTIONS_H
#define GPUB_RUN_OPTIONS_H

#include <stdbool.h>

#include "broker/core/broker.h"
#include "declared.h"
#include "job.h"
#include "mps-plan.h"
#include "placement.h"

#define RUN_WORKERS_MAX           1024
/* default of --connections without MPS if the environment sets no value; facts.md has the cost of more */
#define RUN_CONNECTIONS           16
#define RUN_CONNECTIONS_MAX       32
/* value of --connections inherit: CUDA_DEVICE_MAX_CONNECTIONS stays as the environment has it */
#define RUN_CONNECTIONS_INHERITED (-1)

struct run_options {
	unsigned                workers;
	struct broker_config    broker;
	bool                    quiet, no_hints, kill_on_failure;
	int                     connections; /* the workers' CUDA_DEVICE_MAX_CONNECTIONS; 0: the option is not given */
	struct mps_options      mps;
	bool                    join;        /* --join is given; `workers` is then job.size */
	struct join_job         job;         /* if `join` is set: the place of this process in its job */
	unsigned                map;         /* a value of enum map_mode */
	unsigned                bind;        /* a value of enum bind_mode */
	struct declared_buffers buffers;     /* declared_free() frees the list; the list is empty after a failure */
	char                  **command;     /* the worker's command and arguments in argv; NULL-terminated */
};

/* Returns true if hints are to be printed: lines that only advise. */
static inline bool run_hints(const struct run_options *options)
{
	return !options->quiet && !options->no_hints;
}

/*
 * Reads the command line into *options. Returns 0; 1 if --help or --version was printed; or negative errno with the
 * error message.
 */
int run_options_parse(struct run_options *options, int argc, char **argv);

#endif
