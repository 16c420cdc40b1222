/* SPDX-License-Identifier: Apache-2.0 */
/* brokerd-options.c - see brokerd-options.h */
#include "brokerd-options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

#include "common/error.h"

typedef int option_setter(struct brokerd_options *options, const char *value);

struct option_row {
	char           letter; /* 0: none */
	const char    *name, *argument, *text;
	option_setter *set;
};

static int set_file(struct brokerd_options *options, const char *value)
{
	options->file = value;
	options->file_named = true;
	return 0;
}

static int set_check(struct brokerd_options *options, const char *value)
{
	(void)value;
	options->check = true;
	return 0;
}

static int set_socket(struct brokerd_options *options, const char *value)
{
	options->socket = value;
	return 0;
}

static int set_instance(struct brokerd_options *options, const char *value)
{
	options->instance = value;
	return 0;
}

static int set_device(struct brokerd_options *options, const char *value)
{
	options->device = value;
	return 0;
}

static int set_quiet(struct brokerd_options *options, const char *value)
{
	(void)value;
	options->quiet = true;
	return 0;
}

static int print_help(struct brokerd_options *options, const char *value);

static int print_version(struct brokerd_options *options, const char *value)
{
	(void)options;
	(void)value;
	puts("brokerd (" PACKAGE_NAME ") " PACKAGE_VERSION);
	return 1;
}

static const struct option_row rows[] = {
	{ 'c', "config", "FILE", "the configuration (" BROKERD_CONFIG_FILE ", if it is there)", set_file },
	{ 0, "check-config", NULL, "say whether the configuration is good, and exit", set_check },
	{ 0, "socket", "PATH", "where to listen (/run/gpubroker/socket)", set_socket },
	{ 0, "instance", "NAME", "the broker's name for broker-status (system)", set_instance },
	{ 0, "device", "KIND", "auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)",
	  set_device },
	{ 'q', "quiet", NULL, "say nothing but what fails, whatever the configuration says", set_quiet },
	{ 'h', "help", NULL, "print this and exit", print_help },
	{ 'V', "version", NULL, "print the version and exit", print_version },
};

#define ROWS (sizeof rows / sizeof rows[0])

static int print_help(struct brokerd_options *options, const char *value)
{
	char left[64];

	(void)options;
	(void)value;
	puts("usage: brokerd [OPTION ...]\n"
	     "Serves device memory by name to the processes of several users. Stays in the foreground.\n");
	for (size_t i = 0; i < ROWS; i++) {
		snprintf(left, sizeof left, "%c%c%s--%s %s", rows[i].letter ? '-' : ' ',
			 rows[i].letter ? rows[i].letter : ' ', rows[i].letter ? ", " : "  ", rows[i].name,
			 rows[i].argument ? rows[i].argument : "");
		printf("  %-24s %s\n", left, rows[i].text);
	}
	puts("\nThe exit status is 0 when it was stopped and all memory was freed, 2 for wrong usage or\n"
	     "configuration, 1 when the broker failed or memory was still in use past its time.");
	return 1;
}

static const struct option_row *row_of(int letter, int index)
{
	for (size_t i = 0; i < ROWS; i++)
		if (letter ? rows[i].letter == letter : (size_t)index == i)
			return &rows[i];
	return NULL;
}

static void fill_getopt(char letters[2 * ROWS + 2], struct option longs[ROWS + 1])
{
	char *l = letters;

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

int brokerd_options_parse(struct brokerd_options *options, int argc, char **argv)
{
	char letters[2 * ROWS + 2], fault[3];
	struct option longs[ROWS + 1];
	int letter, index, result;

	*options = (struct brokerd_options){ .file = BROKERD_CONFIG_FILE };
	fill_getopt(letters, longs);
	optind = 1;
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, longs, &index)) != -1) {
		if (letter == '?')
			return error_set(-EINVAL, "unknown option '%.40s': see brokerd --help",
					 option_at_fault(argv, fault));
		if (letter == ':')
			return error_set(-EINVAL, "the option '%.40s' needs a value: see brokerd --help",
					 option_at_fault(argv, fault));
		result = row_of(letter, index)->set(options, optarg);
		if (result)
			return result;
	}
	if (argv[optind])
		return error_set(-EINVAL, "'%.40s' is one word too many: see brokerd --help", argv[optind]);
	return 0;
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
