/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/base/option-table.h"
#include "common/error.h"
#include "configuration.h"

#define FIELD(field) .offset = offsetof(struct brokerd_options, field)

static const struct option_row rows[] = {
	{ 'c', "config", "FILE", "the configuration (" BROKERD_CONFIG_FILE ", if it is there)", take_text,
	  FIELD(file) },
	{ 0, "check-config", NULL, "say whether the configuration is good, and exit", take_flag, FIELD(check) },
	{ 0, "socket", "PATH", "where to listen (/run/gpubroker/socket)", take_text, FIELD(socket) },
	{ 0, "instance", "NAME", "the broker's name for broker-status (system)", take_text, FIELD(instance) },
	{ 0, "device", "KIND", "auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)",
	  take_text, FIELD(device) },
	{ 'q', "quiet", NULL, "say nothing but what fails, whatever the configuration says", take_flag, FIELD(quiet) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table table = {
	.program = "brokerd",
	.usage = "usage: brokerd [OPTION ...]\n"
		 "Serves device memory by name to the processes of several users. Stays in the foreground.\n",
	.ending = "\nThe exit status is 0 when it was stopped and all memory was freed, 2 for wrong usage or\n"
		  "configuration, 1 when the broker failed or memory was still in use past its time.",
	.width = 24,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

int brokerd_options_parse(struct brokerd_options *options, int argc, char **argv)
{
	int result;

	*options = (struct brokerd_options){ .file = NULL };
	result = option_table_read(&table, options, NULL, argc, argv);
	options->file_named = options->file;
	if (!options->file)
		options->file = BROKERD_CONFIG_FILE;
	if (!result && argv[optind])
		return error_set(-EINVAL, "'%.40s' is one word too many: see brokerd --help", argv[optind]);
	return result;
}

/* A file that nobody named need not be there. */
static int file_load(const struct brokerd_options *options, struct brokerd_config **config)
{
	int error = brokerd_config_read(config, options->file);

	return error == -ENOENT && !options->file_named ? brokerd_config_new(config) : error;
}

int brokerd_options_load(const struct brokerd_options *options, struct brokerd_config **result)
{
	struct brokerd_config *config;
	int error = file_load(options, &config);

	if (error)
		return error;
	if (options->socket)
		error = brokerd_config_set(config, "socket", options->socket);
	if (!error && options->instance)
		error = brokerd_config_set(config, "instance", options->instance);
	if (!error && options->device)
		error = brokerd_config_set(config, "device", options->device);
	if (options->quiet)
		config->log = LOG_QUIET;
	if (error)
		brokerd_config_free(config);
	else
		*result = config;
	return error;
}
