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
#define RUN_CONNECTIONS           16 /* the default where the environment has none; facts.md has what more costs */
#define RUN_CONNECTIONS_MAX       32
#define RUN_CONNECTIONS_INHERITED (-1)

struct run_options {
	unsigned                workers;
	struct broker_config    broker;
	bool                    quiet, no_hints, kill_on_failure;
	int                     connections; /* CUDA_DEVICE_MAX_CONNECTIONS of the workers; 0: not given */
	struct mps_options      mps;
	bool                    join; /* job says which process of how many this is; workers is how many */
	struct join_job         job;
	unsigned                map, bind; /* enum map_mode, enum bind_mode */
	struct declared_buffers buffers;     /* declared_free() frees it; it is empty after a failure */
	char                  **command;     /* NULL-terminated */
};

/* Whether lines are printed that only advise. */
static inline bool run_hints(const struct run_options *options)
{
	return !options->quiet && !options->no_hints;
}

/* 0; 1: --help or --version was printed; negative errno with the error message. */
int run_options_parse(struct run_options *options, int argc, char **argv);

#endif
