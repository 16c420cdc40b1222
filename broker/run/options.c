/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/option-table.h"
#include "broker/base/values.h"
#include "broker/core/broker.h"
#include "broker/registry/registry.h"
#include "common/board.h"
#include "common/error.h"
#include "common/size.h"
#include "declared.h"
#include "device/device.h"
#include "spec.h"

static int take_number(unsigned *field, const char *value, const char *what, unsigned low, unsigned high)
{
	uint64_t number;
	int error = number_parse(value, what, low, high, &number);

	if (!error)
		*field = (unsigned)number;
	return error;
}

static int take_workers(void *field, const char *value)
{
	return take_number(field, value, "count of workers", 1, RUN_WORKERS_MAX);
}

/* NAME=SIZE[@DEVICE] */
static int take_buffer(void *options, const char *value)
{
	struct run_options *taken = options;
	struct declared_buffer buffer = { .mode = 0600 };
	const char *equals = strchr(value, '=');
	char size[32] = "", *at;
	int error;

	if (!equals || strlen(equals + 1) >= sizeof size)
		return error_set(-EINVAL, "'%.60s' declares no buffer: write NAME=SIZE or NAME=SIZE@DEVICE", value);
	if ((size_t)(equals - value) >= sizeof buffer.name)
		return error_set(-ENAMETOOLONG, "a buffer's name is longer than %d bytes: shorten it",
				 NAME_SIZE - 1);
	memcpy(buffer.name, value, (size_t)(equals - value));
	strcpy(size, equals + 1);
	at = strchr(size, '@');
	if (at)
		*at++ = 0;
	error = size_parse(size, &buffer.size);
	if (!error && at)
		error = take_number(&buffer.device, at, "device", 0, DEVICE_MAX - 1);
	return error ? error : declared_add(&taken->buffers, &buffer);
}

static int take_spec(void *options, const char *value)
{
	struct run_options *taken = options;

	return run_spec_read(&taken->buffers, value);
}

static int take_poll(void *field, const char *value)
{
	return take_number(field, value, "number of microseconds", 0, BROKER_POLL_MAX);
}

static int take_buffers(void *field, const char *value)
{
	return take_number(field, value, "count of buffers", 1, BOARD_BUFFERS_MAX);
}

static int take_mappings(void *field, const char *value)
{
	return take_number(field, value, "count of mappings", 1, BOARD_TICKETS_MAX);
}

/* A word says that the environment stays as it is: 0 could be taken for "no connections". */
static int take_connections(void *taken, const char *value)
{
	struct run_options *options = taken;

	options->connections = 0;
	if (strcmp(value, "inherit") &&
	    take_number(&options->connections, value, "count of connections", 1, RUN_CONNECTIONS_MAX))
		return error_set(-EINVAL, "'%.40s' is no count of connections: give a number from 1 to %d, or inherit", value,
				 RUN_CONNECTIONS_MAX);
	options->connections_given = true;
	return 0;
}

#define FIELD(field) .offset = offsetof(struct run_options, field)

static const struct option_row rows[] = {
	{ 'n', "workers", "WORKERS", "how many workers to fork, 1 to 1024 (1)", take_workers, FIELD(workers) },
	{ 'b', "buffer", "NAME=SIZE[@DEVICE]",
	  "a buffer that stands before the workers start; bytes, or with K, M, G; may be repeated", take_buffer,
	  .offset = 0 },
	{ 0, "spec", "FILE", "more such buffers, from a file (see broker-run(1)); may be repeated", take_spec,
	  .offset = 0 },
	{ 0, "device", "KIND", "auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)",
	  take_device, FIELD(device) },
	{ 0, "name", "INSTANCE", "the broker's name for broker-status (run-PID)", take_instance, FIELD(instance) },
	{ 0, "poll", "USEC", "after a request look so long for the next one before sleeping; takes a processor (0)",
	  take_poll, FIELD(poll_us) },
	{ 0, "pool", "SIZE", "freed memory of each device that is kept for later buffers; 0: none (64M)", take_pool,
	  FIELD(pool) },
	{ 0, "buffers", "N", "how many buffers there may be, 1 to 1048576 (4096)", take_buffers, FIELD(buffer_places) },
	{ 0, "mappings", "N", "how many mappings of all workers together, 1 to 4194304 (16384)", take_mappings,
	  FIELD(ticket_places) },
	{ 0, "connections", "N",
	  "CUDA_DEVICE_MAX_CONNECTIONS of the workers, 1 to 32, or inherit (16 unless it is set)", take_connections,
	  .offset = 0 },
	{ 0, "kill-on-failure", NULL, "end the other workers when one fails or is killed", take_flag,
	  FIELD(kill_on_failure) },
	{ 'q', "quiet", NULL, "print neither the first line nor the closing account", take_flag, FIELD(quiet) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table table = {
	.program = "broker-run",
	.usage = "usage: broker-run [OPTION ...] [--] COMMAND [ARGUMENT ...]\n"
		 "Forks workers that share device memory by name. This process alone allocates and frees it.\n",
	.ending = "\nEach worker gets GPUBROKER, GPUBROKER_RANK and GPUBROKER_SIZE in its environment.\n"
		  "The exit status is that of the first worker that failed (128 + signal when killed),\n"
		  "125 for wrong usage and when the broker itself failed, else 0.",
	.width = 34,
	.words_end = true, /* the command's own options are not ours */
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

int run_options_parse(struct run_options *options, int argc, char **argv)
{
	int result;

	*options = (struct run_options){ .workers = 1,
					 .device = "auto",
					 .buffer_places = BROKER_BUFFERS,
					 .ticket_places = BROKER_TICKETS,
					 .pool = BROKER_POOL };
	snprintf(options->instance, sizeof options->instance, "run-%d", getpid());
	result = option_table_read(&table, options, NULL, argc, argv);
	options->command = argv + optind;
	if (!result && !*options->command)
		result = error_set(-EINVAL, "there is no command to run: broker-run [OPTION ...] -- COMMAND");
	if (result)
		run_options_free(options);
	return result;
}

void run_options_free(struct run_options *options)
{
	declared_free(&options->buffers);
}
