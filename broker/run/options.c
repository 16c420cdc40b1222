/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/option-table.h"
#include "common/error.h"
#include "common/size.h"
#include "gpubroker.h"
#include "spec.h"

/* Returns the length of the first part of text, which ends at a comma outside of a layout's brackets, or at the NUL. */
static size_t part_length(const char *text)
{
	size_t length = strcspn(text, ",[");

	if (text[length] == '[')
		length += strcspn(text + length, "]");
	return length + strcspn(text + length, ",");
}

/* Parses one WORD of SIZE[@DEVICE][,WORD...]. A spec file has the same names, but same_address. */
static int take_word(struct declared_buffer *buffer, const char *word)
{
	if (!strcmp(word, "timeline"))
		buffer->flags |= GPUB_TIMELINE;
	else if (!strcmp(word, "dedicated"))
		buffer->flags |= GPUB_DEDICATED;
	else if (!strcmp(word, "same-address"))
		buffer->flags |= GPUB_SAME_ADDRESS;
	else if (!strncmp(word, "mode=", 5))
		return take_mode(&buffer->mode, word + 5);
	else if (!strncmp(word, "reserve=", 8))
		return size_parse(word + 8, &buffer->amount.reserve);
	else
		return error_set(-EINVAL,
				 "'%.40s' cannot stand behind a buffer's size: write timeline, dedicated, "
				 "same-address, mode=0640 or reserve=4G",
				 word);
	return 0;
}

/* Parses SIZE[@DEVICE][,WORD...], where SIZE may be a layout. */
static int take_properties(struct declared_buffer *buffer, const char *text)
{
	char part[AMOUNT_TEXT_MAX];
	int error;

	for (bool first = true;; first = false) {
		size_t length = part_length(text);

		if (length >= sizeof part)
			return error_set(-EINVAL,
					 "'%.40s...' is too long: write "
					 "NAME=SIZE[@DEVICE][,timeline][,dedicated][,same-address][,mode=0640][,"
					 "reserve=4G]",
					 text);
		snprintf(part, sizeof part, "%.*s", (int)length, text);
		error = first ? take_amount(&buffer->amount, part) : take_word(buffer, part);
		if (error || !text[length])
			return error;
		text += length + 1;
	}
}

/* Parses NAME=SIZE[@DEVICE][,WORD...], and adds the buffer to the list. */
static int take_buffer(void *buffers, const char *value)
{
	struct declared_buffer buffer = { .mode = 0600 };
	size_t length = strcspn(value, "=");
	int error;

	if (!value[length])
		return error_set(-EINVAL,
				 "'%.60s' declares no buffer: write NAME=SIZE or NAME=SIZE@DEVICE, where SIZE may be a "
				 "layout such as f32[1024,1024]",
				 value);
	if (length >= sizeof buffer.name)
		return error_set(-ENAMETOOLONG, "a buffer's name is longer than %d bytes: shorten it", NAME_SIZE - 1);
	memcpy(buffer.name, value, length);
	error = take_properties(&buffer, value + length + 1);
	return error ? error : declared_add(buffers, &buffer);
}

static int take_spec(void *buffers, const char *value)
{
	return run_spec_read(buffers, value);
}

/* Parses a number, or "inherit" for RUN_CONNECTIONS_INHERITED. 0 is refused, as it could be read as no connections. */
static int take_connections(void *field, const char *value)
{
	uint64_t number = RUN_CONNECTIONS_INHERITED;

	if (strcmp(value, "inherit") && number_parse(value, "count of connections", 1, RUN_CONNECTIONS_MAX, &number))
		return error_set(-EINVAL, "'%.40s' is no count of connections: give a number from 1 to %d, or inherit",
				 value, RUN_CONNECTIONS_MAX);
	*(int *)field = (int)number;
	return 0;
}

#define FIELD(field) .offset = offsetof(struct run_options, field)

static const struct option_row rows[] = {
	{ 'n', "workers", "WORKERS", "how many workers to fork, 1 to 1024 (1)",
	  NUMBER("count of workers", 1, RUN_WORKERS_MAX), FIELD(workers) },
	{ 0, "join", NULL,
	  "this is one process of a job that mpirun or srun started: those of a machine share one broker",
	  VALUE(take_flag), FIELD(join) },
	{ 0, "join-timeout", "SECONDS", "with --join, how long who starts early waits for the others (60)",
	  NUMBER("number of seconds", 1, JOIN_PATIENCE_MAX), FIELD(job.patience) },
	{ 'b', "buffer", "NAME=SIZE[@DEVICE][,WORD]",
	  "a buffer that exists before the workers start; bytes, or with K, M, G, or f32[1024,1024]; WORD: timeline, "
	  "dedicated, same-address, mode=0640, reserve=4G; may be repeated",
	  VALUE(take_buffer), FIELD(buffers) },
	{ 0, "spec", "FILE", "more such buffers, from a file (see broker-run(1)); may be repeated", VALUE(take_spec),
	  FIELD(buffers) },
	{ 0, "device", "KIND", "auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)",
	  VALUE(take_device), FIELD(broker.device) },
	{ 0, "name", "INSTANCE", "the broker's name for broker-status (run-PID)", VALUE(take_instance),
	  FIELD(broker.instance) },
	{ 0, "poll", "USEC", "after a request, poll for the next one this long before sleeping; uses a processor (0)",
	  VALUE_POLL, FIELD(broker.poll_us) },
	{ 0, "export", "HOW",
	  "how workers get memory: ipc (handles of CUDA IPC) or vmm (descriptors of virtual memory management) (ipc)",
	  VALUE(take_export), FIELD(broker.exported) },
	{ 0, "pool", "SIZE", "freed memory of each device that is kept for later buffers; 0: none (64M)",
	  VALUE(take_size_or_0), FIELD(broker.pool) },
	{ 0, "buffers", "N", "how many buffers there may be, 1 to 1048576 (4096)", VALUE_BUFFERS,
	  FIELD(broker.buffers) },
	{ 0, "mappings", "N", "how many mappings of all workers together, 1 to 4194304 (16384)", VALUE_MAPPINGS,
	  FIELD(broker.handles) },
	{ 0, "connections", "N",
	  "CUDA_DEVICE_MAX_CONNECTIONS of the workers, 1 to 32, or inherit (16 unless it is set)",
	  VALUE(take_connections), FIELD(connections) },
	{ 0, "map", "ORDER",
	  "which device GPUBROKER_DEVICE names to each worker: round (0 1 0 1) or block (0 0 1 1) (round)",
	  WORD(map_modes, "round or block"), FIELD(map) },
	{ 0, "bind", "TO", "run each worker on the processors near its device: none or device (none)",
	  WORD(bind_modes, "none or device"), FIELD(bind) },
	{ 0, "mps", "MODE",
	  "run the workers under an MPS daemon of their own: yes, no, or auto: where there are more workers than GPUs "
	  "(no)",
	  WORD(mps_modes, "no, auto or yes"), FIELD(mps.mode) },
	{ 0, "mps-threads", "PERCENT", "under MPS, each worker uses at most this part of a GPU's multiprocessors (100)",
	  NUMBER("percentage", 1, 100), FIELD(mps.threads) },
	{ 0, "mps-memory", "[DEVICE=]SIZE",
	  "under MPS, each worker allocates and maps at most this much of a GPU's memory; may be repeated",
	  VALUE(take_mps_memory), FIELD(mps) },
	{ 0, "kill-on-failure", NULL, "end the other workers when one fails or is killed", VALUE(take_flag),
	  FIELD(kill_on_failure) },
	{ 0, "no-hints", NULL, "print no hints, such as the one about workers that share a GPU without MPS",
	  VALUE(take_flag), FIELD(no_hints) },
	{ 'q', "quiet", NULL, "print neither the first line nor the closing account, and no hints", VALUE(take_flag),
	  FIELD(quiet) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table table = {
	.program = "broker-run",
	.usage = "usage: broker-run [OPTION ...] [--] COMMAND [ARGUMENT ...]\n"
		 "Forks workers that share device memory by name. Only this process allocates and frees it.\n",
	.ending = "\n"
		  "Each worker gets GPUBROKER, GPUBROKER_RANK, GPUBROKER_SIZE and GPUBROKER_DEVICE in its "
		  "environment.\n"
		  "The exit status is that of the first worker that failed (128 + signal when killed),\n"
		  "125 for wrong usage and when the broker itself failed, else 0.",
	.width = 39,
	.words = WORDS_COMMAND,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

/* Refuses limits of the workers with --mps no, because only MPS can enforce such limits. */
static int check_limits(const struct mps_options *mps)
{
	bool limits = mps->threads || mps->memory_each;

	for (unsigned i = 0; i < DEVICE_MAX; i++)
		limits |= mps->memory[i] > 0;
	if (limits && mps->mode == MPS_NO)
		return error_set(-EINVAL, "--mps-threads and --mps-memory are for workers under MPS: add --mps yes, or "
					  "--mps auto");
	return 0;
}

/*
 * Sets the number of workers: from -n, or 1 if -n is not given. With --join takes the number from the launcher, and
 * refuses -n.
 */
static int take_workers(struct run_options *options)
{
	int error;

	if (!options->join) {
		options->workers += !options->workers;
		return 0;
	}
	if (options->workers)
		return error_set(-EINVAL, "with --join the launcher decides how many workers there are: leave -n out");
	error = job_find(&options->job);
	options->workers = options->job.size;
	return error;
}

int run_options_parse(struct run_options *options, int argc, char **argv)
{
	int result;

	*options = (struct run_options){ .job.patience = JOIN_PATIENCE };
	broker_config_init(&options->broker);
	options->broker.pool = BROKER_POOL;
	options->broker.exported = export_of_environment();
	job_name(options->broker.launcher, options->broker.job_id);
	snprintf(options->broker.instance, sizeof options->broker.instance, "run-%d", getpid());
	result = option_table_read(&table, options, NULL, argc, argv);
	options->command = argv + optind;
	if (!result && !*options->command)
		result = error_set(-EINVAL, "there is no command to run: broker-run [OPTION ...] -- COMMAND");
	if (!result)
		result = take_workers(options);
	if (!result)
		result = check_limits(&options->mps);
	if (result)
		declared_free(&options->buffers);
	return result;
}
