/* SPDX-License-Identifier: Apache-2.0 */
/* run-options.c - see run-options.h */
#include "run-options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"
#include "common/board.h"
#include "common/error.h"
#include "common/size.h"
#include "config.h"
#include "device/device.h"

typedef int option_setter(struct run_options *options, const char *value);

struct option_row {
	char           letter; /* 0: none */
	const char    *name, *argument, *text;
	option_setter *set;
};

static int parse_number(const char *text, const char *what, unsigned low, unsigned high, unsigned *number)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < low || value > high)
		return error_set(-EINVAL, "'%.40s' is no %s: give a number from %u to %u", text, what, low, high);
	*number = (unsigned)value;
	return 0;
}

static int declared_twice(const struct declared_buffer *first)
{
	if (!first->file)
		return error_set(-EEXIST, "the buffer '%s' is declared twice: keep one", first->name);
	return error_set(-EEXIST, "the buffer '%s' is declared twice, first in %.80s:%u: keep one", first->name, first->file,
			 first->line);
}

int run_options_add(struct run_options *options, const struct declared_buffer *buffer)
{
	struct declared_buffer *grown;
	int error = name_check(buffer->name);

	if (error)
		return error;
	for (unsigned i = 0; i < options->buffer_count; i++)
		if (!strcmp(options->buffers[i].name, buffer->name))
			return declared_twice(&options->buffers[i]);
	grown = reallocarray(options->buffers, options->buffer_count + 1, sizeof *grown);
	if (!grown)
		return error_set(-ENOMEM, "out of memory");
	options->buffers = grown;
	options->buffers[options->buffer_count++] = *buffer;
	return 0;
}

static int set_workers(struct run_options *options, const char *value)
{
	return parse_number(value, "count of workers", 1, RUN_WORKERS_MAX, &options->workers);
}

/* NAME=SIZE[@DEVICE] */
static int set_buffer(struct run_options *options, const char *value)
{
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
		error = parse_number(at, "device", 0, DEVICE_MAX - 1, &buffer.device);
	return error ? error : run_options_add(options, &buffer);
}

static int set_device(struct run_options *options, const char *value)
{
	int error = device_check(value);

	if (!error)
		snprintf(options->device, sizeof options->device, "%s", value);
	return error;
}

static int set_instance(struct run_options *options, const char *value)
{
	int error = instance_check(value);

	if (!error)
		strcpy(options->instance, value);
	return error;
}

static int set_pool(struct run_options *options, const char *value)
{
	return size_parse_or_0(value, &options->pool);
}

static int set_poll(struct run_options *options, const char *value)
{
	return parse_number(value, "number of microseconds", 0, BROKER_POLL_MAX, &options->poll_us);
}

static int set_buffers(struct run_options *options, const char *value)
{
	return parse_number(value, "count of buffers", 1, BOARD_BUFFERS_MAX, &options->buffer_places);
}

static int set_mappings(struct run_options *options, const char *value)
{
	return parse_number(value, "count of mappings", 1, BOARD_TICKETS_MAX, &options->ticket_places);
}

static int set_quiet(struct run_options *options, const char *value)
{
	(void)value;
	options->quiet = true;
	return 0;
}

static int set_kill(struct run_options *options, const char *value)
{
	(void)value;
	options->kill_on_failure = true;
	return 0;
}

static int print_help(struct run_options *options, const char *value);

static int print_version(struct run_options *options, const char *value)
{
	(void)options;
	(void)value;
	puts("broker-run (" PACKAGE_NAME ") " PACKAGE_VERSION);
	return 1;
}

static const struct option_row rows[] = {
	{ 'n', "workers", "WORKERS", "how many workers to fork, 1 to 1024 (1)", set_workers },
	{ 'b', "buffer", "NAME=SIZE[@DEVICE]",
	  "a buffer that stands before the workers start; bytes, or with K, M, G; may be repeated", set_buffer },
	{ 0, "spec", "FILE", "more such buffers, from a file (see broker-run(1)); may be repeated", run_spec_read },
	{ 0, "device", "KIND", "auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)",
	  set_device },
	{ 0, "name", "INSTANCE", "the broker's name for broker-status (run-PID)", set_instance },
	{ 0, "poll", "USEC", "after a request look so long for the next one before sleeping; takes a processor (0)", set_poll },
	{ 0, "pool", "SIZE", "freed memory of each device that is kept for later buffers; 0: none (64M)", set_pool },
	{ 0, "buffers", "N", "how many buffers there may be, 1 to 1048576 (4096)", set_buffers },
	{ 0, "mappings", "N", "how many mappings of all workers together, 1 to 4194304 (16384)", set_mappings },
	{ 0, "kill-on-failure", NULL, "end the other workers when one fails or is killed", set_kill },
	{ 'q', "quiet", NULL, "print neither the first line nor the closing account", set_quiet },
	{ 'h', "help", NULL, "print this and exit", print_help },
	{ 'V', "version", NULL, "print the version and exit", print_version },
};

#define ROWS (sizeof rows / sizeof rows[0])

static int print_help(struct run_options *options, const char *value)
{
	char left[64];

	(void)options;
	(void)value;
	puts("usage: broker-run [OPTION ...] [--] COMMAND [ARGUMENT ...]\n"
	     "Forks workers that share device memory by name. This process alone allocates and frees it.\n");
	for (size_t i = 0; i < ROWS; i++) {
		snprintf(left, sizeof left, "%c%c%s--%s %s", rows[i].letter ? '-' : ' ',
			 rows[i].letter ? rows[i].letter : ' ', rows[i].letter ? ", " : "  ", rows[i].name,
			 rows[i].argument ? rows[i].argument : "");
		printf("  %-34s %s\n", left, rows[i].text);
	}
	puts("\nEach worker gets GPUBROKER, GPUBROKER_RANK and GPUBROKER_SIZE in its environment.\n"
	     "The exit status is that of the first worker that failed (128 + signal when killed),\n"
	     "2 for wrong usage, 1 when the broker itself failed, else 0.");
	return 1;
}

static const struct option_row *row_of(int letter, int index)
{
	for (size_t i = 0; i < ROWS; i++)
		if (letter ? rows[i].letter == letter : (size_t)index == i)
			return &rows[i];
	return NULL;
}

static void fill_getopt(char letters[2 * ROWS + 3], struct option longs[ROWS + 1])
{
	char *l = letters;

	*l++ = '+'; /* the command's own options are not ours */
	*l++ = ':';
	for (size_t i = 0; i < ROWS; i++) {
		int has = rows[i].argument ? required_argument : no_argument;

		longs[i] = (struct option){ rows[i].name, has, NULL, 0 };
		if (!rows[i].letter)
			continue;
		*l++ = rows[i].letter;
		if (rows[i].argument)
			*l++ = ':';
	}
	*l = 0;
	longs[ROWS] = (struct option){ 0 };
}

/* The option that getopt_long(3) complains of: optopt has a letter, which may stand among others. */
static const char *option_at_fault(char **argv, char letter[3])
{
	if (!optopt)
		return argv[optind - 1];
	snprintf(letter, 3, "-%c", optopt);
	return letter;
}

static int parse_all(struct run_options *options, int argc, char **argv)
{
	char letters[2 * ROWS + 3], fault[3];
	struct option longs[ROWS + 1];
	int letter, index, result;

	fill_getopt(letters, longs);
	optind = 1;
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, longs, &index)) != -1) {
		if (letter == '?')
			return error_set(-EINVAL, "unknown option '%.40s': see broker-run --help",
					 option_at_fault(argv, fault));
		if (letter == ':')
			return error_set(-EINVAL, "the option '%.40s' needs a value: see broker-run --help",
					 option_at_fault(argv, fault));
		result = row_of(letter, index)->set(options, optarg);
		if (result)
			return result;
	}
	options->command = argv + optind;
	if (!*options->command)
		return error_set(-EINVAL, "there is no command to run: broker-run [OPTION ...] -- COMMAND");
	return 0;
}

int run_options_parse(struct run_options *options, int argc, char **argv)
{
	int result;

	*options = (struct run_options){ .workers = 1,
					 .device = "auto",
					 .buffer_places = BROKER_BUFFERS,
					 .ticket_places = BROKER_TICKETS,
					 .pool = BROKER_POOL };
	snprintf(options->instance, sizeof options->instance, "run-%d", getpid());
	result = parse_all(options, argc, argv);
	if (result)
		run_options_free(options);
	return result;
}

void run_options_free(struct run_options *options)
{
	free(options->buffers);
	options->buffers = NULL;
	options->buffer_count = 0;
}
