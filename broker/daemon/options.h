/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - brokerd's command line.
 *
 * One table (option-table.h) holds every option with its argument and description. An option overrides its key of
 * brokerd.conf(5), also at a reload. Owns nothing: the values are the command line's.
 */
#ifndef GPUB_BROKERD_OPTIONS_H
#define GPUB_BROKERD_OPTIONS_H

#include <stdbool.h>

#include "configuration.h"

struct brokerd_options {
	const char *file;
	bool        file_named; /* it must exist */
	bool        check, quiet;
	const char *socket, *instance, *device; /* NULL: as in the file */
};

/* 0; 1: --help or --version was printed; -EINVAL with the error message. */
int brokerd_options_parse(struct brokerd_options *options, int argc, char **argv);

/* The file's configuration, overridden by the command line. Negative errno as brokerd_config_read(). */
int brokerd_options_load(const struct brokerd_options *options, struct brokerd_config **config);

#endif
