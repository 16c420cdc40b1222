/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - brokerd's command line.
 *
 * One table (option-table.h) holds every option with its argument and sentence. What an option says of a key of
 * brokerd.conf(5) goes before the file, also at a reload. Owns nothing: the values are the command line's.
 */
#ifndef GPUB_BROKERD_OPTIONS_H
#define GPUB_BROKERD_OPTIONS_H

#include <stdbool.h>

#include "configuration.h"

struct brokerd_options {
	const char *file;
	bool        file_named; /* it must be there */
	bool        check, quiet;
	const char *socket, *instance, *device; /* NULL: as the file says */
};

/* 0; 1: --help or --version was printed, exit 0; -EINVAL: the sentence is set, exit 2. */
int brokerd_options_parse(struct brokerd_options *options, int argc, char **argv);

/* The file's configuration with what the command line says in its place. Negative errno as brokerd_config_read(). */
int brokerd_options_load(const struct brokerd_options *options, struct brokerd_config **config);

#endif
