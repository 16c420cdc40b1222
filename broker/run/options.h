/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - what broker-run was told: command line and spec file.
 *
 * One table (option-table.h) holds every option with its argument, default and sentence. Owns nothing after
 * run_options_parse() but the list of buffers.
 */
#ifndef GPUB_RUN_OPTIONS_H
#define GPUB_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/core/broker.h"
#include "common/name.h"
#include "device/select.h"
#include "declared.h"

struct run_options {
	unsigned                workers;
	char                    device[DEVICE_CHOICE_SIZE];
	char                    instance[INSTANCE_SIZE];
	unsigned                buffer_places, ticket_places; /* in the board */
	uint64_t                pool;
	unsigned                poll_us;
	bool                    quiet, kill_on_failure;
	unsigned                connections; /* CUDA_DEVICE_MAX_CONNECTIONS of the workers; 0: left alone */
	bool                    connections_given;
	struct declared_buffers buffers;
	char                  **command; /* NULL-terminated */
};

#define RUN_WORKERS_MAX     1024
#define RUN_CONNECTIONS     16 /* where neither the command line nor the environment says; facts.md has what more costs */
#define RUN_CONNECTIONS_MAX 32

/* 0; 1: --help or --version was printed, exit 0; -EINVAL: the sentence is set, exit 2. */
int run_options_parse(struct run_options *options, int argc, char **argv);
void run_options_free(struct run_options *options);

#endif
