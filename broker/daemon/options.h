/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - brokerd's command line.
 *
 * One table (option-table.h) holds every option with its argument and description. --socket, --instance and --device
 * override the key of the same name in brokerd.conf(5), and --quiet the key log, also at a reload. Owns nothing: values
 * point into argv.
 */
#ifndef GPUB_BROKERD_OPTIONS_H
#define GPUB_BROKERD_OPTIONS_H

#include <stdbool.h>

#include "configuration.h"

struct brokerd_options {
	const char *file;       /* path of the configuration file */
	bool        file_named; /* --config named the file, so the file must exist */
	bool        check, quiet;
	/* values of the options; NULL: the option is not given, and the file's value holds */
	const char *socket, *instance, *device;
};

/*
 * Reads the command line into *options. Returns 0; 1 if --help or --version was printed; or -EINVAL with the error
 * message.
 */
int brokerd_options_parse(struct brokerd_options *options, int argc, char **argv);

/*
 * Reads the configuration file and applies the options. Sets *config and returns 0, or fails as brokerd_config_read()
 * or brokerd_config_set() does.
 */
int brokerd_options_load(const struct brokerd_options *options, struct brokerd_config **config);

/* Reads the configuration from a descriptor of brokerd_config_share(). Else as brokerd_options_load(). */
int brokerd_options_load_shared(const struct brokerd_options *options, int fd, struct brokerd_config **config);

#endif
