/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "broker/base/option-table.h"
#include "configuration.h"

#define FIELD(field) .offset = offsetof(struct brokerd_options, field)

static const struct option_row rows[] = {
	{ 'c', "config", "FILE", "the configuration (" BROKERD_CONFIG_FILE ", if it is there)", VALUE(take_text),
	  FIELD(file) },
	{ 0, "check-config", NULL, "tell whether the configuration is good, and exit", VALUE(take_flag), FIELD(check) },
	{ 0, "socket", "PATH", "where to listen (/run/gpubroker/socket)", VALUE(take_text), FIELD(socket) },
	{ 0, "instance", "NAME", "the broker's name for broker-status (system)", VALUE(take_text), FIELD(instance) },
	{ 0, "device", "KIND", "auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)",
	  VALUE(take_text), FIELD(device) },
	{ 'q', "quiet", NULL, "log only what fails, whatever the configuration says", VALUE(take_flag), FIELD(quiet) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table table = {
	.program = "brokerd",
	.usage = "usage: brokerd [OPTION ...]\n"
		 "Serves device memory by name to the processes of several users. Stays in the foreground.\n",
	.ending = "\nThe exit status is 0 when it was stopped and all memory was freed, 2 for wrong usage or\n"
		  "configuration, 1 when the broker failed or memory was still in use past its time.",
	.width = 24,
	.words = WORDS_BOUNDED,
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
	return result;
}

/* Reads the configuration file, or only sets the defaults if there is no file at the default path. */
static int file_load(const struct brokerd_options *options, struct brokerd_config **config)
{
	int error = brokerd_config_read(config, options->file);

	return error == -ENOENT && !options->file_named ? brokerd_config_read(config, NULL) : error;
}

int brokerd_options_load(const struct brokerd_options *options, struct brokerd_config **result)
{
	const char *const overrides[][2] = { { "socket", options->socket },
					     { "instance", options->instance },
					     { "device", options->device },
					     { "log", options->quiet ? "quiet" : NULL } };
	struct brokerd_config *config;
	int error = file_load(options, &config);

	if (error)
		return error;
	for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++)
		if (!error && overrides[i][1])
			error = brokerd_config_set(config, overrides[i][0], overrides[i][1]);
	if (error)
		brokerd_config_free(config);
	else
		*result = config;
	return error;
}

int brokerd_options_load_shared(const struct brokerd_options *options, int fd, struct brokerd_config **config)
{
	struct brokerd_options shared = *options;
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	shared.file = path;
	return brokerd_options_load(&shared, config);
}
